"""Handles the operating system's signals to a serving process, and reports its state to the service manager."""

import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

import structlog
import trio

from core.frozen import Frozen

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


# Two pings within the interval that systemd sets, as sd_watchdog_enabled(3) advises.
_PINGS_PER_INTERVAL: Final = 2


class ServiceManager(Frozen):
    """Speaks the protocol of systemd's sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names. Without a service manager every call
    does nothing.
    """

    address: str | None = None
    watchdog: float | None = None  # the service manager expects a ping at least once in this many seconds

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        address = environment.get("NOTIFY_SOCKET") or None
        if address is not None and not address.startswith(("/", "@")):
            address = None  # vsock and other kinds of address are not supported
        return cls(address, _watchdog(environment))

    def ready(self, status: str) -> None:
        self._say("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        self._say(f"STATUS={status}")

    def stopping(self) -> None:
        self._say("STOPPING=1", "STATUS=Finishing requests in flight")

    def extend_start(self, seconds: float) -> None:
        """Extends the start timeout: a start may take long for a good reason (a migration, a database that is not up yet)."""
        self._say(f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    async def keep_watchdog(self) -> None:
        """Pings the watchdog until cancelled. A task of the event loop sends the pings on purpose: if the loop hangs, the pings stop."""
        if self.address is None or self.watchdog is None:
            return
        while True:
            self._say("WATCHDOG=1")
            await trio.sleep(self.watchdog / _PINGS_PER_INTERVAL)

    def _say(self, *lines: str) -> None:
        if self.address is None:
            return
        # A leading @ stands for the NUL of Linux's abstract namespace.
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        # A service manager that does not listen, or whose buffer is full, must not stop us.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto("\n".join(lines).encode(), address)


def _watchdog(environment: Mapping[str, str]) -> float | None:
    try:
        microseconds = int(environment.get("WATCHDOG_USEC", ""))
        meant_for = int(environment.get("WATCHDOG_PID", "") or os.getpid())
    except ValueError:
        return None
    return microseconds / 1_000_000 if microseconds > 0 and meant_for == os.getpid() else None
