"""Two PostgreSQL servers, of which the second follows the first: real processes, which a test stops, ends and promotes."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, LiteralString

import trio
from psycopg.conninfo import make_conninfo

from adapters.postgres.embedded import APPLICATION
from ops.drill.cluster import Node, begin
from tests.patience import PATIENCE

PASSWORD: Final = "a-password-of-the-pair"
_SETTINGS: Final = {"fsync": "off", "shared_buffers": "16MB", "max_connections": "60"}


class TwoServers:
    def __init__(self, place: Path) -> None:
        self.first = Node("first", place / "first", _SETTINGS)
        self.second = Node("second", place / "second", _SETTINGS)

    @property
    def url(self) -> str:
        return self.url_of(self.first, self.second)

    def url_of(self, *nodes: Node, **more: str) -> str:
        return make_conninfo(
            host=",".join("127.0.0.1" for _ in nodes),
            port=",".join(str(node.port) for node in nodes),
            user=APPLICATION,
            password=PASSWORD,
            dbname=APPLICATION,
            sslmode="disable",
            gssencmode="disable",
            **more,
        )

    def told(self, first: str, second: str) -> str:
        return f"127.0.0.1:{self.first.port}: {first}; 127.0.0.1:{self.second.port}: {second}"

    async def write(self, statement: LiteralString) -> None:
        await trio.to_thread.run_sync(self.first.ask, statement, (), APPLICATION)

    def fall_silent(self) -> None:
        """The first server's processes stop: the kernel takes connections, and nobody answers."""
        self.first.send(signal.SIGSTOP)

    def speak_again(self) -> None:
        self.first.send(signal.SIGCONT)

    async def promote(self) -> None:
        await trio.to_thread.run_sync(self.second.ask, "select pg_promote(true, 60)")

    async def caught_up(self) -> None:
        """Until the second server shows all that the first one has."""
        (end,) = (await trio.to_thread.run_sync(self.first.ask, "select pg_current_wal_flush_lsn()"))[0]
        with trio.fail_after(PATIENCE):
            while not (await trio.to_thread.run_sync(self.second.ask, "select pg_last_wal_replay_lsn() >= %s::pg_lsn", [end]))[0][0]:
                await trio.sleep(0.01)

    async def part(self) -> None:
        """The second server gets nothing more of the first one, and both answer."""
        await trio.to_thread.run_sync(self.second.set, "primary_conninfo", "")
        with trio.fail_after(PATIENCE):
            while (await trio.to_thread.run_sync(self.first.ask, "select count(*) from pg_stat_replication"))[0][0]:
                await trio.sleep(0.01)


@asynccontextmanager
async def running_pair(place: Path) -> AsyncIterator[TwoServers]:
    place.chmod(0o711)
    pair = TwoServers(place)
    try:
        await trio.to_thread.run_sync(begin, pair.first, PASSWORD)
        # Without a cable: nothing is cut between the two.
        pair.first.for_followers.port = pair.first.port
        await trio.to_thread.run_sync(pair.second.copy, pair.first, PASSWORD)
        await pair.caught_up()
        yield pair
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(pair.second.end)
            await trio.to_thread.run_sync(pair.first.end)
