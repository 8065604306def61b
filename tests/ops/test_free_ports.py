"""Ports that nobody else takes before the server starts."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ops import free_ports
from ops.free_ports import free_port

ASK = "from ops.free_ports import free_port\nfor _ in range(200): print(free_port())"


def ports_of_a_process(_: int) -> list[int]:
    return [int(line) for line in subprocess.run([sys.executable, "-c", ASK], capture_output=True, check=True, text=True).stdout.split()]


def test_no_two_processes_get_the_same_port() -> None:
    with ThreadPoolExecutor() as threads:
        named = [port for ports in threads.map(ports_of_a_process, range(4)) for port in ports]
    assert len(set(named)) == len(named) == 800


def test_a_port_is_of_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first, last = map(int, own.read_text().split()) if own.exists() else (32768, 65535)
    port = free_port()
    assert not first <= port <= last
    monkeypatch.setattr(free_ports, "_LAST", tmp_path / "last")
    (tmp_path / "last").write_text(str(port - 1))
    with socket.create_server(("127.0.0.1", port)):
        assert free_port() != port
