"""Reports the state of the process to the service manager by the protocol of systemd's sd_notify(3): datagrams to the socket that
NOTIFY_SOCKET names.

Without a service manager every call does nothing.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Self

import trio

from core.frozen import Frozen

# Two pings within the interval that systemd sets, as sd_watchdog_enabled(3) advises.
_PINGS_PER_INTERVAL: Final = 2


class ServiceManager(Frozen):
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
