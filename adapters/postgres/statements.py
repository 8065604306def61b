"""Single statements: each takes a connection, is a transaction of its own, waits for the server once, and gives the connection back."""

from collections.abc import Mapping
from typing import Any, LiteralString, TypeVar

from psycopg.rows import class_row

from adapters.postgres.failures import translated
from adapters.postgres.pool import Pool

Parameters = Mapping[str, Any]
Row = TypeVar("Row")


async def ask(pool: Pool, row: type[Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
    """The statement's rows. Raises `Overloaded` or `Unavailable`."""
    with translated():
        async with pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(row))
            await cursor.execute(statement, parameters, prepare=True)
            return await cursor.fetchall()


async def tell(pool: Pool, statement: LiteralString, parameters: Parameters | None = None) -> int:
    """A statement without rows; returns how many rows it touched. Raises `Overloaded` or `Unavailable`."""
    with translated():
        async with pool.connection() as connection:
            cursor = await connection.execute(statement, parameters, prepare=True)
            return cursor.rowcount
