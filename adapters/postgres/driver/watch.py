"""Looks after connections whose tasks wait for long: does the server still work on their statements?

A server can hang: its machine acknowledges all that arrives, and nothing ever answers. No timer of the network notices that. Another
statement just takes long. So the server is asked, on a connection of its own, whether it works on the statement. If it does not, or does
not answer, the connection is given up, and the task learns that its server is away.
"""

from collections.abc import Sequence
from typing import Final

import psycopg
import structlog
import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.hosts import answered
from adapters.postgres.driver.pool import Pool

log = structlog.get_logger()

APPLICATION_NAME: Final = "postern watch"
# In seconds. With the second between two looks, together less than ten: by then every task that waits for a hung server has been told.
LONG: Final = 3.0
PATIENCE: Final = 4.0


class Watch:
    """Watches over the connections of one pool. `conninfo` says whom to ask: the pool's own server, unless a test asks another one."""

    def __init__(self, pool: Pool, conninfo: str = "", *, long: float = LONG, patience: float = PATIENCE) -> None:
        self._pool = pool
        self._conninfo = conninfo or pool.conninfo
        self._long = long
        self._patience = patience

    async def look(self) -> int:
        """Gives up the connections that the server does not work for, and returns how many. Raises no database error."""
        waiting = self._pool.waiting_longer(self._long)
        if not waiting:
            return 0
        busy = await self._busy([connection.backend for connection in waiting])
        if busy is None:
            return 0
        still = self._pool.waiting_longer(self._long)
        abandoned = [connection for connection in waiting if connection in still and connection.backend not in busy]
        for connection in abandoned:
            connection.abort()
        if abandoned:
            self._pool.drop_idle()
            log.warning("database_connections_given_up", connections=len(abandoned), longer_than=self._long)
        return len(abandoned)

    async def _busy(self, backends: Sequence[int]) -> set[int] | None:
        """Of these backends, those that work on a statement. None when the server answers, but not to this question."""
        with trio.move_on_after(self._patience):
            try:
                async with await Connection.connect(
                    self._conninfo, fallback_application_name=APPLICATION_NAME, patience=self._patience
                ) as connection:
                    connection.recovery = 0
                    rows = await (await connection.execute(_BUSY, [list(backends)])).fetchall()
                    return {row[0] for row in rows}
            except psycopg.OperationalError as error:
                return None if answered(error) else set()
        return set()


_BUSY: Final = "select pid from pg_stat_activity where pid = any(%s::int[]) and state = 'active'"
