"""A run that is told to end (SIGTERM) leaves nothing behind: no PostgreSQL, and nothing that a test started.

Without a handler, the signal ends Python before any `finally`. PostgreSQL and what `postern serve` starts have groups of their own, so a
signal to the group of the run does not reach them. And the workers are gone at once, with all that they know of what they started. So each
process of a run carries a variable that says of which run it is, and the controller looks for it at the end. Only Linux can be asked.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

VARIABLE: Final = "TESTS_OF_RUN"
_PATIENCE: Final = 10.0
_PAUSE: Final = 0.05


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        unwind_when_told()


def unwind_when_told() -> None:
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # Once is enough: a second signal would break off the end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    # Trio hears this one, and unwinds what runs in it.
    signal.raise_signal(signal.SIGINT)


@contextmanager
def nothing_left() -> Iterator[None]:
    """Ends what this run has started and left, if it was told to end."""
    os.environ[VARIABLE] = mark = f"{os.getpid()}-{time.time_ns()}"
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
            end_all(mark)


def end_all(mark: str) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + _PATIENCE
        told: set[int] = set()
        while (left := set(processes_of(mark))) and time.monotonic() < until:
            # Whoever is told to end may have started another meanwhile.
            for one in left - told:
                with suppress(ProcessLookupError):
                    os.kill(one, number)
            told |= left
            time.sleep(_PAUSE)


def processes_of(mark: str, variable: str = VARIABLE) -> Iterator[int]:
    """The processes whose environment has it, but for this one. A process that nobody has waited for has no environment any more."""
    wanted = f"{variable}={mark}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in environment.read_bytes().split(b"\0") and (number := int(environment.parent.name)) != os.getpid():
                yield number
