"""Single statements. Each statement takes a connection, is a transaction of its own, waits for the server once, and gives the connection
back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, LiteralString, NoReturn, TypeVar

import trio
from psycopg.rows import kwargs_row

from adapters.postgres.driver.execution import Execution
from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import translated
from adapters.postgres.observing.statement_spans import statement_span

Parameters = Mapping[str, Any]
Row = TypeVar("Row")
Item = TypeVar("Item")
# The number of rows that are converted in one turn of the event loop.
PART: Final = 100


async def ask(pool: Pool, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
    """The statement's rows. Raises `Overloaded` or `Unavailable`."""
    with translated():
        async with pool.connection() as connection:
            execution = Execution(connection, row, statement, parameters)
            with statement_span(statement):
                await connection.carry_out(execution)
            return execution.rows()


async def ask_in_order(pool: Pool, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
    """Like `ask`, for look-ups of every request: `row` takes the columns in their order, and the columns' names do not matter."""
    with translated():
        async with pool.connection() as connection:
            execution = Execution(connection, row, statement, parameters, in_order=True)
            with statement_span(statement):
                await connection.carry_out(execution)
            return execution.rows()


async def ask_for_many(
    pool: Pool, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None, item: Callable[[Row], Item]
) -> list[Item]:
    """Like `ask`, for hundreds of rows: they are converted in parts, so that other tasks get their turn."""
    items: list[Item] = []
    with translated():
        async with pool.connection() as connection:
            cursor = connection.cursor(row_factory=kwargs_row(row))
            with statement_span(statement):
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
            with statement_span(statement):
                await connection.carry_out(execution)
            return execution.row_count()


def first(rows: Sequence[Item]) -> Item | None:
    """The row of a statement that has one or none."""
    return rows[0] if rows else None


def first_made(rows: Sequence[Row], made: Callable[[Row], Item]) -> Item | None:
    """What is made of the row of a statement that has one or none."""
    return made(rows[0]) if rows else None


def only(rows: Sequence[Item]) -> Item:
    """The row of a statement that always has one."""
    (row,) = rows
    return row


class NeedsUnitOfWork(Exception):
    """The caller has a bug: outside any unit of work, it asked a store for something that only a transaction can do."""


class Statements:
    """A store uses `Statements` outside any unit of work, and a `Transaction` inside one. The methods have the same names in both classes.

    With `Statements`, each `ask` is a separate transaction and one round trip. `tell`, `hold` and `ring` are parts of a larger change, so
    `Statements` refuses them.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @property
    def pool(self) -> Pool:
        return self._pool

    async def ask(self, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
        return await ask(self._pool, row, statement, parameters)

    async def ask_in_order(self, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
        return await ask_in_order(self._pool, row, statement, parameters)

    async def ask_for_many(
        self, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None, item: Callable[[Row], Item]
    ) -> list[Item]:
        return await ask_for_many(self._pool, row, statement, parameters, item)

    async def tell(self, statement: LiteralString, parameters: Parameters | None = None) -> None:  # noqa: ARG002 - as `Transaction` has them
        _refuse()

    async def tell_along(self, statement: LiteralString, parameters: Parameters) -> None:  # noqa: ARG002
        _refuse()

    async def hold(self, lock: int) -> None:  # noqa: ARG002
        _refuse()

    def ring(self, topic: str) -> None:  # noqa: ARG002
        _refuse()


def _refuse() -> NoReturn:
    raise NeedsUnitOfWork("this method of the store needs a unit of work")


def _nothing(**_columns: object) -> None:
    """A row of a statement whose rows nobody reads."""
