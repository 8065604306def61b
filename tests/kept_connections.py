"""Connections to the database that tests share are kept from one test's pool to the next one's. A backend of PostgreSQL that has just begun
knows no table yet, and most tests end before it has learned them: that took more time than the statements themselves.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from adapters.postgres.driver import pool as pool_module
from adapters.postgres.driver.connection import RECOVERY, Connection
from adapters.postgres.driver.pool import Pool

MOST_KEPT: Final = 12


@contextmanager
def kept_connections(database: str) -> Iterator[None]:
    """For the length of the block, a pool on `database` begins with the idle connections of those that were closed before."""
    kept: list[Connection] = []
    close = Pool.aclose

    class KeptFirst:
        @staticmethod
        async def connect(conninfo: str, **parameters: Any) -> Connection:
            while conninfo == database and kept:
                connection = kept.pop()
                if connection.usable():
                    connection.recovery, connection.round_trips = RECOVERY, 0
                    return connection
                connection.abort()
            return await Connection.connect(conninfo, **parameters)

    async def leave(pool: Pool, *arguments: Any, **named: Any) -> None:
        idle = pool._idle
        while pool._conninfo == database and idle and len(kept) < MOST_KEPT:
            kept.append(idle.pop().connection)
        await close(pool, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "Connection", KeptFirst)
        patch.setattr(Pool, "aclose", leave)
        yield
    while kept:
        kept.pop().pgconn.finish()
