"""Watches migrations in a rehearsal: how long each takes, and which tables it keeps from others for how long."""

from collections.abc import Mapping, Sequence
from typing import Final

import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrating.forecast import LockMode
from core.frozen import Frozen


class HeldTable(Frozen):
    """A table that was there before. Others had to wait for it for at most so many seconds."""

    table: str
    mode: LockMode
    seconds: float


class WatchedMigration(Frozen):
    """`name` is a migration, or the edition of the views and functions."""

    name: str
    seconds: float
    held: Sequence[HeldTable] = ()


class MigrationWatch:
    """`migrate` tells it what it does."""

    def __init__(self) -> None:
        self.done: list[WatchedMigration] = []
        self._before: Mapping[int, str] = {}
        self._began = 0.0
        self._held: list[HeldTable] = []

    async def begins(self, connection: Connection) -> None:
        """Before each try."""
        rows = await (await connection.execute(_TABLES)).fetchall()
        self._before = {int(oid): str(name) for oid, name in rows}
        self._held = []
        self._began = trio.current_time()

    async def holds(self, connection: Connection) -> None:
        """At the end of the transaction, while it has all its locks. They were taken after `begins`."""
        seconds = trio.current_time() - self._began
        modes: dict[str, LockMode] = {}
        for oid, mode in await (await connection.execute(_LOCKS)).fetchall():
            lock, name = LockMode.of_catalogue(str(mode)), self._before.get(int(oid))
            if name is not None and lock.stops:
                modes[name] = max(lock, modes.get(name, lock), key=lambda one: one.strength)
        self._held = [HeldTable(name, mode, seconds) for name, mode in sorted(modes.items())]

    def ends(self, name: str, seconds: float) -> None:
        self.done.append(WatchedMigration(name, seconds, tuple(self._held)))
        self._held = []

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.done)


# A part is taken for its table.
_TABLES: Final = """
    select pg_class.oid::bigint, coalesce(whole.relname, pg_class.relname)::text
      from pg_class
      left join pg_class as whole on whole.oid = pg_partition_root(pg_class.oid)
     where pg_class.relkind in ('r', 'p', 'v') and (pg_class.relnamespace = 'public'::regnamespace or pg_class.relispartition)
"""

_LOCKS: Final = "select relation::bigint, mode from pg_locks where pid = pg_backend_pid() and locktype = 'relation' and granted"
