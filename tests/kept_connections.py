"""Keeps connections to the shared test database from one test's pool to the pool of the next test. A new backend of PostgreSQL has to read
the catalog first, and most tests end before it has: that reading took more time than the statements themselves.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row

from adapters.postgres.driver import pool as pool_module
from adapters.postgres.driver.connection import RECOVERY, Connection
from adapters.postgres.driver.pool import Pool

MOST_KEPT: Final = 12

_lent: dict[str, list[psycopg.Connection[DictRow]]] = {}
_beside: dict[str, list[Connection]] = {}


@contextmanager
def lent_connection(database: str) -> Iterator[psycopg.Connection[DictRow]]:
    """A connection in autocommit mode beside the pool. The borrower must return the connection as it was. It is kept with the pool's."""
    connection = _kept(database) or psycopg.connect(database, autocommit=True, row_factory=dict_row)
    try:
        yield connection
    finally:
        if database in _lent and connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
            _lent[database].append(connection)
        else:
            connection.close()


@asynccontextmanager
async def connection_beside(database: str) -> AsyncIterator[Connection]:
    """Like `lent_connection`, for a test that runs in the event loop."""
    connection = _usable(_beside.get(database, [])) or await Connection.connect(database)
    try:
        yield connection
    finally:
        if database in _beside and connection.usable():
            _beside[database].append(connection)
        else:
            connection.abort()


@contextmanager
def kept_beside_pools(database: str) -> Iterator[None]:
    """For the length of the block, keeps the lent connections of both kinds."""
    lent = _lent[database] = []
    beside = _beside[database] = []
    yield
    del _lent[database], _beside[database]
    for connection in beside:
        connection.pgconn.finish()
    while lent:
        lent.pop().close()


def _usable(kept: list[Connection]) -> Connection | None:
    """Takes out one of the kept connections. Tests cut connections, so dead connections are dropped here."""
    while kept:
        connection = kept.pop()
        if connection.usable():
            return connection
        connection.abort()
    return None


def _kept(database: str) -> psycopg.Connection[DictRow] | None:
    kept = _lent.get(database, [])
    while kept:
        connection = kept.pop()
        if _answers(connection):
            return connection
        connection.close()
    return None


def _answers(connection: psycopg.Connection[DictRow]) -> bool:
    """Whether the connection still works; tests cut connections."""
    try:
        connection.execute("")
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def kept_connections(database: str) -> Iterator[None]:
    """For the length of the block, a pool on `database` begins with the idle connections of the pools that were closed before."""
    kept: list[Connection] = []
    close = Pool.aclose

    class KeptFirst:
        @staticmethod
        async def connect(conninfo: str, **parameters: Any) -> Connection:
            if conninfo == database and (connection := _usable(kept)) is not None:
                connection.recovery, connection.round_trips = RECOVERY, 0
                return connection
            return await Connection.connect(conninfo, **parameters)

    async def leave(pool: Pool, *arguments: Any, **named: Any) -> None:
        idle = pool._idle
        while pool.conninfo == database and idle and len(kept) < MOST_KEPT:
            kept.append(idle.pop().connection)
        await close(pool, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "Connection", KeptFirst)
        patch.setattr(Pool, "aclose", leave)
        yield
    for connection in kept:
        connection.pgconn.finish()
