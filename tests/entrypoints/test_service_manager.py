"""The sd_notify protocol, against a real datagram socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from entrypoints.signals import ServiceManager


class Listening:
    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(2)
        self.socket.bind(address)

    def heard(self) -> list[str]:
        return self.socket.recv(4096).decode().splitlines()


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    made = Listening(str(tmp_path / "notify"))
    yield made
    made.socket.close()


def _manager(path: object, **others: str) -> ServiceManager:
    return ServiceManager.of_environment({"NOTIFY_SOCKET": str(path), **others})


def test_it_is_told_of_ready_and_stopping(listening: Listening, tmp_path: Path) -> None:
    manager = _manager(tmp_path / "notify")
    manager.ready("Serving")
    assert listening.heard() == ["READY=1", "STATUS=Serving"]
    manager.stopping()
    assert listening.heard()[0] == "STOPPING=1"
    manager.status("Waiting")
    assert listening.heard() == ["STATUS=Waiting"]
    manager.extend_start(2.5)
    assert listening.heard() == ["EXTEND_TIMEOUT_USEC=2500000"]


def test_an_abstract_socket_is_spoken_to() -> None:
    name = f"postern-test-{os.getpid()}"
    listening = Listening(f"\0{name}")
    _manager(f"@{name}").ready("Serving")
    assert listening.heard()[0] == "READY=1"
    listening.socket.close()


async def test_the_watchdog_is_fed_twice_an_interval(
    listening: Listening,
    tmp_path: Path,
    autojump_clock: MockClock,  # noqa: ARG001 - asked for, it makes time jump
) -> None:
    manager = _manager(tmp_path / "notify", WATCHDOG_USEC="100000", WATCHDOG_PID=str(os.getpid()))
    with trio.move_on_after(0.12):
        await manager.keep_watchdog()
    assert [listening.heard() for _ in range(3)] == [["WATCHDOG=1"]] * 3


@pytest.mark.parametrize(
    "environment", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}]
)
async def test_without_a_watchdog_of_ours_nothing_is_fed(environment: dict[str, str], tmp_path: Path) -> None:
    await _manager(tmp_path / "notify", **environment).keep_watchdog()


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1234"}])
def test_without_a_service_manager_nothing_happens(environment: dict[str, str]) -> None:
    ServiceManager.of_environment(environment).ready("Serving")


def test_a_service_manager_that_is_away_does_not_stop_us(tmp_path: Path) -> None:
    _manager(tmp_path / "nobody").ready("Serving")


@pytest.mark.usefixtures("listening")
def test_a_service_manager_that_does_not_listen_does_not_hold_us_up(tmp_path: Path) -> None:
    manager = _manager(tmp_path / "notify")
    for _ in range(2000):  # more than any socket buffers
        manager.status("Serving")
