"""Network links to a server, which the drill can cut."""

from collections.abc import Callable
from typing import Self

import trio

_CHUNK = 65536


class Cable:
    """Leads from a port of its own to the server's port, on loopback. `to` may be a function, for a server that changes.

    A cut cable behaves like a network that drops packets: what is sent stays unanswered, and no peer learns that the other side is out of
    reach.
    """

    def __init__(self, to: int | Callable[[], int]) -> None:
        self.port = 0
        self._to = to
        self._whole = trio.Event()
        self._whole.set()

    async def lay(self, nursery: trio.Nursery) -> Self:
        """From now on it can be used, for as long as the nursery is open."""
        listeners = await nursery.start(trio.serve_tcp, self._carry, 0)
        self.port = listeners[0].socket.getsockname()[1]
        return self

    def cut(self) -> None:
        self._whole = trio.Event()

    def mend(self) -> None:
        self._whole.set()

    async def _carry(self, near: trio.SocketStream) -> None:
        try:
            await self._whole.wait()
            far = await trio.open_tcp_stream("127.0.0.1", self._to() if callable(self._to) else self._to)
            async with far, trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_on, near, far, nursery.cancel_scope)
                nursery.start_soon(self._pass_on, far, near, nursery.cancel_scope)
        except OSError:
            pass
        finally:
            await trio.aclose_forcefully(near)

    async def _pass_on(self, source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            while data := await source.receive_some(_CHUNK):
                await self._whole.wait()
                await sink.send_all(data)
            await self._whole.wait()  # the end of a connection is a packet, too
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()
