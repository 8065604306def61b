"""Runs SQL statements, single ones and those of one transaction, each with its span."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, LiteralString, NoReturn, TypeVar

import msgspec
import trio
from psycopg.rows import kwargs_row
from psycopg.types.json import set_json_loads

from adapters.postgres import locks
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.execution import Execution
from adapters.postgres.driver.pipeline import PipelinedTransaction
from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import committed, translated
from ports.record import NO_SPAN, Attributes, NoSpan, SpanKind, TraceSpan, current_span

Row = TypeVar("Row")
Item = TypeVar("Item")


# After `from` may come a function. After `into` comes a table, often with its columns.
_TABLE: Final = re.compile(r"\b(?:(?:into|update)\s+|from\s+(?!\w+\s*\())(?:only\s+)?([a-z_]\w*)")
# A statement that only calls a function of ours, which has its edition in its name.
_FUNCTION: Final = re.compile(r"\s*select [^(]*? from ([a-z_]+_\d+)\(")
_OPERATION: Final = re.compile(r"\s*([a-z]+)")
_CLIENT: Final = SpanKind.CLIENT
_SYSTEM: Final = ("db.system.name", "postgresql")
_SHARED: Final = "shared look-up"


def statement_span(statement: str) -> TraceSpan | NoSpan:
    """A span has the operation and the table, which are parts of the program's own text, and never a parameter.

    A span for a statement that is sent and answered within the block.
    """
    span = current_span.get()
    return NO_SPAN if span is None else span.child(_CLIENT, *_named(statement))


def shared_lookup_span() -> TraceSpan | NoSpan:
    """A span for a wait for the answer to a statement that another task sends."""
    span = current_span.get()
    return NO_SPAN if span is None else span.child(SpanKind.INTERNAL, _SHARED)


class TransactionSpans:
    """The spans of one transaction. Statements that leave together share a round trip, so their spans begin and end together. Entered
    around each wait for answers.
    """

    __slots__ = ("_began", "_queued", "_span")

    def __init__(self) -> None:
        self._queued: list[tuple[str, Attributes]] = []
        self._span: TraceSpan | None = None
        self._began = 0

    def queue(self, statement: str) -> None:
        if current_span.get() is not None:
            self._queued.append(_named(statement))

    def __enter__(self) -> None:
        self._span = span = current_span.get()
        if span is not None:
            self._began = span.trace.now()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        span, queued = self._span, self._queued
        if span is not None:
            self._queued = []
            span.travelled(_CLIENT, queued, self._began, error)


@lru_cache(maxsize=2048)
def _named(statement: str) -> tuple[str, Attributes]:
    """The name of a span and its attributes. Runs once for each statement, because statements are constants."""
    text = statement.lower()
    operation, table = _OPERATION.match(text), _TABLE.search(text) or _FUNCTION.match(text)
    summary = " ".join(part for part in (operation and operation[1].upper(), table and table[1]) if part) or "statement"
    return summary, (_SYSTEM, ("db.query.summary", summary))


Parameters = Mapping[str, Any]
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
            # The same values as by `json`, in a tenth of the time.
            set_json_loads(msgspec.json.decode, cursor)
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
    `Statements` refuses them. `ring_here` rings at once, for what the last `ask` has written.

    Each statement takes a connection, is a transaction of its own, waits for the server once, and returns the connection.
    """

    def __init__(self, pool: Pool, ring_here: Callable[[str], None] = lambda _topic: None) -> None:
        self._pool = pool
        self._ring_here = ring_here

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

    def ring_here(self, topic: str) -> None:
        self._ring_here(topic)


def _refuse() -> NoReturn:
    raise NeedsUnitOfWork("this method of the store needs a unit of work")


def _nothing(**_columns: object) -> None:
    """A row of a statement whose rows nobody reads."""


# How long a transaction waits for an advisory lock, and afterwards for any other lock, before it gives up as `Unavailable`.
LONGEST_HOLD: Final = "10s"


class TransactionOver(Exception):
    """The caller has a bug: it sent a statement after the end of its transaction."""


class Transaction:
    """Statements in one transaction, with as few waits for the server as possible. The stores of one unit of work write and read through
    it. `tell` queues a statement. `ask` waits for a response, and receives the responses of all statements queued before. So the caller
    learns of an error in a queued statement only at the next `ask`, or at the commit.

    Raises `Unavailable` wherever the transaction waits and the database is away. Other database errors are bugs and pass unchanged.
    """

    def __init__(self, connection: Connection, transaction: PipelinedTransaction) -> None:
        self._connection = connection
        self._transaction = transaction
        self._open = True
        self._along: list[tuple[LiteralString, Parameters]] = []
        self._spans = TransactionSpans()
        # Topics in the order of their first ring. A dict, because Python has no ordered set.
        self._topics: dict[str, None] = {}
        self._topics_here: dict[str, None] = {}

    async def tell(self, statement: LiteralString, parameters: Parameters | None = None) -> None:
        """Queue a statement whose answer nobody reads."""
        self._require_open()
        await self._send_waiting()
        self._spans.queue(statement)
        with translated():
            await self._connection.carry_out(Execution(self._connection, _nothing, statement, parameters))

    async def tell_along(self, statement: LiteralString, parameters: Parameters) -> None:
        """Queue a plain insert, update or delete that neither reads nor changes a row that its neighbours change.

        Consecutive `tell_along` writes are merged into one statement. Each write sees the database as it was before the first write.
        PostgreSQL checks references between their rows after the last write.
        """
        self._require_open()
        self._along.append((statement, parameters))

    async def _send_waiting(self) -> None:
        """Later statements must see the rows of `tell_along`, so the merged statement is sent first."""
        along, self._along = self._along, []
        if not along:
            return
        if len(along) == 1:
            execution = Execution(self._connection, _nothing, *along[0])
        else:
            statement, names = _together(tuple([statement for statement, _ in along]))
            execution = Execution(self._connection, _nothing, statement, [along[place][1][name] for place, name in names])
        for statement, _ in along:
            self._spans.queue(statement)
        with translated():
            await self._connection.carry_out(execution)

    async def ask(self, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
        """The statement's rows."""
        return await self._answer(Execution(self._connection, row, statement, parameters), statement)

    async def ask_in_order(self, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None = None) -> list[Row]:
        """Like `ask`: a row is made of the columns in their order, and their names do not matter."""
        return await self._answer(Execution(self._connection, row, statement, parameters, in_order=True), statement)

    async def ask_for_many(
        self, row: Callable[..., Row], statement: LiteralString, parameters: Parameters | None, item: Callable[[Row], Item]
    ) -> list[Item]:
        """Like `ask`, for hundreds of rows: the items are made in parts, so that other tasks get their turn."""
        rows = await self.ask(row, statement, parameters)
        items: list[Item] = []
        for start in range(0, len(rows), PART):
            items += [item(one) for one in rows[start : start + PART]]
            await trio.lowlevel.checkpoint()
        return items

    async def _answer(self, execution: Execution[Row], statement: LiteralString) -> list[Row]:
        self._require_open()
        await self._send_waiting()
        self._spans.queue(statement)
        with translated(), self._spans:
            await self._connection.carry_out(execution)
            await self._transaction.flush()
            return execution.rows()

    async def hold(self, lock: int) -> None:
        """Take an advisory lock of `locks.py` until the transaction ends."""
        await self.tell(_LONGEST_HOLD, {"timeout": LONGEST_HOLD})
        await self.tell(_HOLD, {"namespace": locks.NAMESPACE, "lock": lock})

    def ring(self, topic: str) -> None:
        """Ring the doorbell, here and in the other processes, if the transaction commits. A topic rings once, however often `ring` is
        called.
        """
        self._topics[topic] = None

    def ring_here(self, topic: str) -> None:
        """Like `ring`, for work that one process at a time does for all: this process finds it, unless it has no actors."""
        self._topics_here[topic] = None

    @property
    def topics(self) -> Sequence[str]:
        """What to ring for after the commit."""
        return list(self._topics)

    @property
    def topics_here(self) -> Sequence[str]:
        """What to ring for in this process alone."""
        return list(self._topics_here)

    async def commit(self, *, notifies: bool = True) -> None:
        """`notifies`: the other processes hear of the topics with the commit, and not from the doorbell. Raises `OutcomeUnknown` when the
        commit was sent and nobody knows whether it took place.
        """
        self._require_open()
        await self._send_waiting()
        topics = list(self._topics | self._topics_here)
        if notifies and topics:
            await self.tell(NOTIFY, {"channel": CHANNEL, "topics": topics})
        self.close()
        self._spans.queue(_COMMIT)
        with committed(), self._spans:
            await self._transaction.commit()

    def close(self) -> None:
        """Refuse every later statement, because the connection may belong to another task by now."""
        self._open = False

    def _require_open(self) -> None:
        if not self._open:
            raise TransactionOver("this unit of work has ended")


async def tell_together(pool: Pool, *told: tuple[LiteralString, Parameters]) -> None:
    """Statements without rows in one transaction of their own, with one wait for the server. Each sees what was there when it began, also
    what others committed while the statement before it waited for a lock. Raises `Overloaded` or `Unavailable`.
    """
    with translated():
        async with pool.connection() as connection, connection.pipelined_transaction() as pipelined:
            transaction = Transaction(connection, pipelined)
            for statement, parameters in told:
                await transaction.tell(statement, parameters)
            await transaction.commit()


# The name of a parameter, in a statement.
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")
_WITH: Final = re.compile(r"\s*with\s")


@lru_cache(maxsize=256)
def _together(statements: tuple[LiteralString, ...]) -> tuple[LiteralString, Sequence[tuple[int, str]]]:
    """Merge the statements into one, whose main part is the last statement. Also returns the parameters in order: for each, its statement's
    place and its name in that statement.
    """
    *others, last = (_PARAMETER.sub(rf"%({place}_\1)s", statement) for place, statement in enumerate(statements))
    parts = ", ".join(f"told_{place} as ({statement})" for place, statement in enumerate(others))
    # The last statement may have parts of its own that change rows. PostgreSQL permits such parts at the top level alone, so they join the
    # others there.
    main = _WITH.sub(", ", last, count=1) if _WITH.match(last) else f" {last}"
    # A dict, because each parameter counts once, where a statement first names it.
    names = {(place, name): None for place, statement in enumerate(statements) for name in _PARAMETER.findall(statement)}
    return f"with {parts}{main}", tuple(names)


# All topics share one channel, so a connection listens once. A notification of a topic that nobody in this process waits for costs almost
# nothing.
CHANNEL: Final = "postern"

# An id that a statement makes begins with the time (UUIDv7), so that the order of the ids is the order of time.
NEW_ID: Final = "(lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '-7' || substr(gen_random_uuid()::text, 16))::uuid"

_COMMIT: Final = "commit"

NOTIFY: Final = "select pg_notify(%(channel)s, topic) from unnest(%(topics)s::text[]) as topic"

_LONGEST_HOLD: Final = "select set_config('lock_timeout', %(timeout)s, true)"

_HOLD: Final = "select pg_advisory_xact_lock(%(namespace)s, %(lock)s)"


# How a class of this floor speaks to PostgreSQL: by what it is given when it is made.


class OnStatements:
    """A store that is asked in a unit of work, and outside for what the docstring of its port names."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements


class OnTransaction:
    """A store that only a unit of work has."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction


class OnPool:
    """Look-ups and queues: each call takes a connection and is a transaction of its own."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
