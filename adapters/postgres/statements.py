"""Single statements: each takes a connection, is a transaction of its own, waits for the server once, and gives the connection back."""

from collections.abc import Callable, Mapping
from typing import Any, Final, LiteralString, TypeVar

import trio
from psycopg.rows import class_row

from adapters.postgres.failures import translated
from adapters.postgres.pool import Pool

Parameters = Mapping[str, Any]
Row = TypeVar("Row")
Item = TypeVar("Item")
# Rows that are made in one turn of the event loop: a wide one takes some 25 µs.
PART: Final = 100


async def ask(pool: Pool, row: type[Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
    """The statement's rows. Raises `Overloaded` or `Unavailable`."""
    with translated():
        async with pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(row))
            await cursor.execute(statement, parameters, prepare=True)
            return await cursor.fetchall()


async def ask_for_many(
    pool: Pool, row: type[Row], statement: LiteralString, parameters: Parameters | None, item: Callable[[Row], Item]
) -> list[Item]:
    """As `ask`, for rows by the hundred: what they stand for is made a part at a time, and others have their turns in between."""
    items: list[Item] = []
    with translated():
        async with pool.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(row))
            await cursor.execute(statement, parameters, prepare=True)
            while True:
                part = await cursor.fetchmany(PART)
                items += [item(one) for one in part]
                if len(part) < PART:
                    return items
                await trio.lowlevel.checkpoint()


async def tell(pool: Pool, statement: LiteralString, parameters: Parameters | None = None) -> int:
    """A statement without rows; returns how many rows it touched. Raises `Overloaded` or `Unavailable`."""
    with translated():
        async with pool.connection() as connection:
            cursor = await connection.execute(statement, parameters, prepare=True)
            return cursor.rowcount
