"""Single statements. Each takes a connection, is a transaction of its own, waits for the server once, and gives the connection back."""

from collections.abc import Callable, Mapping
from typing import Any, Final, LiteralString, TypeVar

import trio
from psycopg.rows import class_row

from adapters.postgres.driver.execution import Execution
from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import translated

Parameters = Mapping[str, Any]
Row = TypeVar("Row")
Item = TypeVar("Item")
# Rows that are converted in one turn of the event loop.
PART: Final = 100


async def ask(pool: Pool, row: type[Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
    """The statement's rows. Raises `Overloaded` or `Unavailable`."""
    with translated():
        async with pool.connection() as connection:
            execution = Execution(connection, row, statement, parameters)
            await connection.carry_out(execution)
            return execution.rows()


async def ask_in_order(pool: Pool, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
    """Like `ask`, for what every request asks: a row is made of the columns in their order, and their names do not matter."""
    with translated():
        async with pool.connection() as connection:
            execution = Execution(connection, row, statement, parameters, in_order=True)
            await connection.carry_out(execution)
            return execution.rows()


async def ask_for_many(
    pool: Pool, row: type[Row], statement: LiteralString, parameters: Parameters | None, item: Callable[[Row], Item]
) -> list[Item]:
    """Like `ask`, for hundreds of rows: they are converted in parts, so that other tasks get their turn."""
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
    """A statement without rows. Returns how many rows it touched. Raises `Overloaded` or `Unavailable`."""
    with translated():
        async with pool.connection() as connection:
            execution = Execution(connection, _nothing, statement, parameters)
            await connection.carry_out(execution)
            return execution.row_count()


def _nothing(**_columns: object) -> None:
    """Nobody reads the rows."""
