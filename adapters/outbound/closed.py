"""Closes every way out of this process, so that a rehearsal calls nobody.

Python tells an audit hook of each connection, each look-up of a name and each datagram before it is made. So one hook holds for the guarded
client, mail, LDAP, DNS, hooks and every library that is written in Python. The driver of the database connects by libpq, which no hook
sees: the scratch database stays within reach, and nothing else does.
"""

import errno
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

_QUESTIONS: Final = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})
_CALLS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})


class ClosedWays:
    """Counts what was refused. `hosts` are names that may be looked up: those of the scratch database's server."""

    def __init__(self, hosts: Collection[str] = ()) -> None:
        self.hosts = frozenset(hosts)
        self.refused: list[str] = []

    def judge(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _QUESTIONS and not (arguments and str(arguments[0]) in self.hosts):
            self.refused.append(event)
            raise OSError(errno.ENETUNREACH, "a rehearsal looks up no name")
        # A descriptor that is connected already has no address, and none is connected here.
        if event in _CALLS:
            self.refused.append(event)
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


_closed: list[ClosedWays] = []
_is_hooked = False


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    if _closed and event.startswith("socket."):
        _closed[-1].judge(event, arguments)


@contextmanager
def closed_ways(hosts: Collection[str] = ()) -> Iterator[ClosedWays]:
    """For the time of the block. Python never removes a hook; outside the block, this one does nothing."""
    global _is_hooked  # noqa: PLW0603 - a hook is the process's
    if not _is_hooked:
        sys.addaudithook(_judge)
        _is_hooked = True
    ways = ClosedWays(hosts)
    _closed.append(ways)
    try:
        yield ways
    finally:
        _closed.remove(ways)
