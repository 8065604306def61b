"""A network between a client and the test's PostgreSQL: a loopback port that can fall silent, be cut, and counts who speaks."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo


async def open_server(parameters: Mapping[str, Any]) -> trio.SocketStream:
    """A bare connection to where these parameters of a database's address lead: a Unix socket's directory, or a host."""
    host, port = str(parameters["host"]), int(parameters["port"])
    if host.startswith("/"):
        return await trio.open_unix_socket(f"{host}/.s.PGSQL.{port}")
    return await trio.open_tcp_stream(host, port)


class Wire:
    """`async with Wire(database_url) as wire:`, then connect to `wire.url`."""

    def __init__(self, url: str) -> None:
        parameters = conninfo_to_dict(url)
        self._server = parameters
        self._parameters = {**parameters, "host": "127.0.0.1", "sslmode": "disable", "gssencmode": "disable"}
        self._nursery_manager = trio.open_nursery()
        self._open = trio.Event()
        self._open.set()
        self._connections: set[trio.CancelScope] = set()
        self.port = 0
        self._at_turn: tuple[int, Callable[[], object]] | None = None
        self._late: trio.Event | None = None
        self.turns = 0  # how often the word passed from one side to the other: two a round trip

    @property
    def url(self) -> str:
        return make_conninfo("", **{**self._parameters, "port": self.port})

    @property
    def connections(self) -> int:
        return len(self._connections)

    def fall_silent(self) -> None:
        """Carry nothing any more, and tell nobody."""
        self._open = trio.Event()

    def speak_again(self) -> None:
        self._open.set()

    def after(self, turns: int, action: Callable[[], object]) -> None:
        """Do it after so many more turns."""
        self._at_turn = (self.turns + turns, action)

    def delay_next(self) -> trio.Event:
        """Hold the next words back until the event is set, and only on the connection that says them."""
        self._late = trio.Event()
        return self._late

    def cut(self) -> None:
        """Close every connection on both sides."""
        for scope in self._connections:
            scope.cancel()

    async def listen_also(self, port: int) -> None:
        await self._nursery.start(trio.serve_tcp, self._carry, port)

    async def __aenter__(self) -> Self:
        self._nursery = await self._nursery_manager.__aenter__()
        listeners = await self._nursery.start(trio.serve_tcp, self._carry, 0)
        self.port = listeners[0].socket.getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._nursery.cancel_scope.cancel()
        await self._nursery_manager.__aexit__(None, None, None)

    async def _carry(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._connections.add(scope)
            try:
                async with client, await open_server(self._server) as server, trio.open_nursery() as nursery:
                    spoke_last = [server]
                    nursery.start_soon(self._pump, client, server, spoke_last, nursery.cancel_scope)
                    nursery.start_soon(self._pump, server, client, spoke_last, nursery.cancel_scope)
            finally:
                self._connections.discard(scope)

    async def _pump(
        self, source: trio.SocketStream, sink: trio.SocketStream, spoke_last: list[trio.SocketStream], both: trio.CancelScope
    ) -> None:
        try:
            async for data in source:
                await self._open.wait()
                late, self._late = self._late, None
                if late is not None:
                    await late.wait()
                if spoke_last[0] is not source:
                    spoke_last[0] = source
                    self.turns += 1
                    if self._at_turn is not None and self.turns == self._at_turn[0]:
                        self._at_turn[1]()
                await sink.send_all(data)
        except trio.BrokenResourceError:
            pass  # one end hung up: so does the other
        both.cancel()
