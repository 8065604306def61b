"""How psycopg's protocol generators wait on Trio.

psycopg speaks PostgreSQL's protocol in generators that yield what they would wait for. Here these waits become Trio's readiness calls.
"""

import select
from typing import TypeVar

import trio
from psycopg import OperationalError
from psycopg.abc import PQGenConn
from psycopg.waiting import Ready, Wait

T = TypeVar("T")


class SocketReadiness:
    """What one socket is ready for right now: one system call, no turn of the event loop."""

    __slots__ = ("_poll",)

    def __init__(self, socket: int) -> None:
        self._poll = select.poll()
        self._poll.register(socket, select.POLLIN | select.POLLOUT)

    def now(self) -> Ready:
        events = self._poll.poll(0)
        if not events:
            return Ready.NONE
        return _READY[events[0][1] & _BOTH] or Ready.R  # the next read finds out about an error or a hang-up

    def readable(self) -> bool:
        events = self._poll.poll(0)
        return bool(events) and events[0][1] != select.POLLOUT


_BOTH = select.POLLIN | select.POLLOUT
_READY = {0: Ready.NONE, select.POLLIN: Ready.R, select.POLLOUT: Ready.W, _BOTH: Ready.RW}


async def until_ready(socket: int, wanted: Wait) -> Ready:
    """Wait in the calling task. Raises `OperationalError` when another task closes the connection meanwhile."""
    try:
        if wanted == Wait.R:
            await trio.lowlevel.wait_readable(socket)
            return Ready.R
        if wanted == Wait.W:
            await trio.lowlevel.wait_writable(socket)
            return Ready.W
        return await _either(socket)
    except trio.ClosedResourceError:
        raise OperationalError("the connection was closed while a task waited for it") from None


async def _either(socket: int) -> Ready:
    # Only a socket with a full send buffer and nothing to read comes here. This rare wait may cost two tasks.
    found = Ready.NONE
    closed = False

    async def watch(ready: Ready) -> None:
        nonlocal found, closed
        try:
            await (trio.lowlevel.wait_readable if ready is Ready.R else trio.lowlevel.wait_writable)(socket)
            found = Ready(found | ready)
        except trio.ClosedResourceError:
            closed = True
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, Ready.R)
        nursery.start_soon(watch, Ready.W)
    if closed:
        raise trio.ClosedResourceError
    return found


async def drive_connecting(generator: PQGenConn[T]) -> T:
    """Run a generator whose socket may change from step to step: connecting, and asking the server to cancel."""
    try:
        socket, wanted = next(generator)
        while True:
            socket, wanted = generator.send(await until_ready(socket, wanted))
    except StopIteration as finished:
        result: T = finished.value
        return result
    finally:
        # Closing the generator releases the half-open connection inside, and its file descriptor.
        generator.close()
