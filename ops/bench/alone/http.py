"""The server's CPU cost of one small request: `python -m ops.bench.alone.http`.

All servers run for the whole measurement. The load goes to one after the other, round after round, so that other work on the machine
affects all of them alike. The CPU time belongs to the server process, without the load generator.
"""

import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ops.free_ports import free_port

_READY_WITHIN = 30.0
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Case:
    """A server and one request to it. In the command and the environment, `{port}` stands for the port that the server must listen on."""

    name: str
    command: Sequence[str]
    path: str = "/"
    # The headers to send. A function fetches them first: the benchmark calls it with the base URL, once the server answers.
    headers: Mapping[str, str] | Callable[[str], Mapping[str, str]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    microseconds: float
    requests_per_second: float
    # The ratio to the first case.
    ratio: float


@dataclass(frozen=True, slots=True)
class _Running:
    case: Case
    process: subprocess.Popen[bytes]
    port: int
    headers: Mapping[str, str]


def measure(cases: Sequence[Case], *, rounds: int = 5, seconds: float = 2.0, connections: int = 16) -> list[Figure]:
    """CPU per request of each case: the median of the rounds. The load saturates one server process."""
    costs: dict[str, list[float]] = {case.name: [] for case in cases}
    rates: dict[str, list[float]] = {case.name: [] for case in cases}
    with ExitStack() as stack:
        running = [stack.enter_context(_start(case)) for case in cases]
        for server in running:
            _load(server, 0.5, connections)
        for _ in range(rounds):
            for server in running:
                before, began = cpu_seconds(server.process.pid), time.perf_counter()
                answered = _load(server, seconds, connections)
                spent, lasted = cpu_seconds(server.process.pid) - before, time.perf_counter() - began
                costs[server.case.name].append(spent / answered * 1e6)
                rates[server.case.name].append(answered / lasted)
    base = statistics.median(costs[cases[0].name])
    return [
        Figure(
            case.name, statistics.median(costs[case.name]), statistics.median(rates[case.name]), statistics.median(costs[case.name]) / base
        )
        for case in cases
    ]


def table(figures: Sequence[Figure]) -> str:
    lines = ["| case | CPU per request | against the first | requests/s |", "|---|---|---|---|"]
    lines += [
        f"| {figure.name} | {figure.microseconds:.0f} µs | {figure.ratio:.2f} | {figure.requests_per_second:.0f} |" for figure in figures
    ]
    return "\n".join(lines)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of its children with the same program. So the embedded database does not count."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    total = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    program = Path(f"/proc/{pid}/exe").readlink()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if Path(f"/proc/{child}/exe").readlink() == program:
                total += cpu_seconds(int(child))
    return total


@contextmanager
def _start(case: Case) -> Iterator[_Running]:
    port = free_port()
    command = [part.replace("{port}", str(port)) for part in case.command]
    environment = {name: value.replace("{port}", str(port)) for name, value in case.environment.items()}
    process = subprocess.Popen(command, env=os.environ | environment, cwd=_ROOT, stdout=subprocess.DEVNULL)
    try:
        base = f"http://127.0.0.1:{port}"
        _await_answer(process, base)
        headers = case.headers(base) if callable(case.headers) else case.headers
        yield _Running(case, process, port, headers)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_answer(process: subprocess.Popen[bytes], base: str) -> None:
    until = time.monotonic() + _READY_WITHIN
    while True:
        try:
            urllib.request.urlopen(base, timeout=1).close()  # noqa: S310 - our own server on loopback
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{process.args!r} does not answer") from None
            time.sleep(0.05)
        else:
            return


def _load(server: _Running, seconds: float, connections: int) -> int:
    if shutil.which("wrk"):
        return _load_with_wrk(server, seconds, connections)
    return _load_by_hand(server, seconds, connections)


def _load_with_wrk(server: _Running, seconds: float, connections: int) -> int:
    # wrk takes only whole seconds. On a signal, it ends and prints its sums.
    headers = [part for name, value in server.headers.items() for part in ("-H", f"{name}: {value}")]
    command = ["wrk", "-t1", f"-c{connections}", "-d60s", *headers, f"http://127.0.0.1:{server.port}{server.case.path}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(2)
    printed, _ = process.communicate()
    found = re.search(r"(\d+) requests in", printed)
    if found is None or "Non-2xx" in printed or "Socket errors" in printed:
        raise SystemExit(f"{server.case.name}: the load did not go well\n{printed}")
    return int(found.group(1))


def _load_by_hand(server: _Running, seconds: float, connections: int) -> int:
    """Sends one request on each connection, reads the answers, and begins again. That keeps one Python process busy."""
    lines = [
        f"GET {server.case.path} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        *(f"{name}: {value}" for name, value in server.headers.items()),
    ]
    request = "\r\n".join([*lines, "", ""]).encode()
    answered = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=10)) for _ in range(connections)]
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            for client in clients:
                client.sendall(request)
            for client in clients:
                _read_answer(server.case.name, client)
            answered += connections
    return answered


def _read_answer(name: str, client: socket.socket) -> None:
    answer = b""
    while b"\r\n\r\n" not in answer:
        data = client.recv(65536)
        if not data:
            raise SystemExit(f"{name}: the server closed the connection")
        answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    if length is None or not head.startswith(b"HTTP/1.1 2"):
        raise SystemExit(f"{name}: unexpected answer {head[:200]!r}")
    missing = int(length.group(1)) - len(body)
    while missing > 0:
        missing -= len(client.recv(missing))


def cases() -> list[Case]:
    """A bare Quart-Trio handler on the stock worker, the same on our server, and a plain ASGI callable on our server."""
    command = [sys.executable, "-m", "ops.bench.alone.http_servers"]
    return [
        Case("Quart-Trio on the stock Hypercorn worker", [*command, "stock", "{port}"]),
        Case("Quart-Trio on our server", [*command, "quart", "{port}"]),
        Case("plain ASGI on our server", [*command, "plain", "{port}"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    print(table(measure(cases(), rounds=options.rounds, seconds=options.seconds, connections=options.connections)))


if __name__ == "__main__":
    main()
