"""The parent of several serving processes, when the system does not give it one."""

import socket
import sys
from typing import Any

import pytest
import trio

from entrypoints.processes import Processes
from entrypoints.settings import read
from entrypoints.signals import Stopping
from tests.conftest import CapturedLog
from tests.patience import PATIENCE

STANDS_IN_FOR_A_CHILD = """
import socket, sys, time
socket.socket(fileno=int(sys.argv[1])).send(b"r")
time.sleep(600)
"""


async def test_a_child_that_cannot_be_started_is_tried_again_and_the_others_serve_on(
    monkeypatch: pytest.MonkeyPatch, log: CapturedLog
) -> None:
    log.allow("process_not_started")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")  # so that what the parent puts there is taken back
    original = trio.lowlevel.open_process
    calls = 0

    async def open_process(command: list[str], **options: Any) -> trio.Process:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        channel = command[-1].split(",")[1]
        return await original([sys.executable, "-c", STANDS_IN_FOR_A_CHILD, channel], **options)

    monkeypatch.setattr(trio.lowlevel, "open_process", open_process)
    stopping = Stopping()
    with trio.fail_after(PATIENCE):
        await Processes(read({}), [socket.socket(), socket.socket()], stopping).run(stopping.request)
    assert calls == 3
    assert len(log.events("process_not_started")) == 1
