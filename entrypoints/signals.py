"""What the operating system's signals mean to a serving process."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
import trio

log = structlog.get_logger()

_STOP: Final = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """Whether the process was asked to stop. A serving process finishes its requests first. An unfinished start ends at once."""

    def __init__(self) -> None:
        self.requested = trio.Event()
        self._everything = trio.CancelScope()
        self._start: trio.CancelScope | None = None

    def request(self) -> None:
        self.requested.set()
        if self._start is not None:
            self._start.cancel()

    def start(self) -> trio.CancelScope:
        """A scope around the whole run. A request to stop cancels it until `start_is_over`."""
        self._start = trio.CancelScope()
        if self.requested.is_set():
            self._start.cancel()
        return self._start

    @property
    def is_starting(self) -> bool:
        return self._start is not None

    def start_is_over(self) -> None:
        self._start = None


@asynccontextmanager
async def stopping_on_signals() -> AsyncIterator[Stopping]:
    """SIGTERM and SIGINT ask the process to stop. A second SIGINT cancels everything at once. SIGHUP from a closed terminal also asks the
    process to stop. Any other SIGHUP is ignored, because there is nothing to reload: the key file is watched.
    """
    stopping = Stopping()
    # Read at the start: once the terminal is closed, `isatty` no longer tells whether there was a terminal.
    at_terminal = os.isatty(0) or os.isatty(2)
    with trio.open_signal_receiver(*_STOP, signal.SIGHUP) as received:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_listen, received, stopping, at_terminal, name="signals")
            with stopping._everything:  # noqa: SLF001 - ours
                yield stopping
            nursery.cancel_scope.cancel()


async def _listen(received: AsyncIterator[int], stopping: Stopping, at_terminal: bool) -> None:  # noqa: FBT001 - a task's argument
    interrupts = 0
    async for number in received:
        name = signal.Signals(number).name
        if number == signal.SIGHUP and not at_terminal:
            log.info("signal_ignored", signal=name)
            continue
        interrupts += number == signal.SIGINT
        if interrupts > 1:
            log.warning("stopping_at_once", signal=name)
            stopping._everything.cancel()  # noqa: SLF001 - ours
        elif not stopping.requested.is_set():
            log.info("stopping", signal=name)
            stopping.request()
