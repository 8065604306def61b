"""Spans of statements: their names, and the statements on a real server that they stand for."""

import pytest

from adapters.postgres.statements import Statements, Transaction, _named, ask, ask_for_many, tell
from core.frozen import Frozen
from ports.record import SpanKind, Trace, TraceSpan
from tests.adapters.postgres.conftest import Store


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("select 1", "SELECT"),
        ("\n    select id from users where email = 'from nowhere'", "SELECT users"),
        ("select * from unnest(%(ids)s) as id join users using (id)", "SELECT"),
        ("select * from unnest (%(ids)s) as id, lateral (select from sessions) as s", "SELECT sessions"),
        ("insert into sessions (id, user_id) values (%(id)s, %(user)s)", "INSERT sessions"),
        ("UPDATE ONLY devices SET name = 'x'", "UPDATE devices"),
        ("delete from flows where id = %(id)s returning id", "DELETE flows"),
        ("with gone as (delete from flows returning id) insert into past select id from gone", "WITH flows"),
        ("select id from users for update", "SELECT users"),
        ("commit", "COMMIT"),
        ("", "statement"),
        ("(select 1)", "statement"),
    ],
)
def test_a_statement_is_named_by_its_operation_and_its_table(statement: str, name: str) -> None:
    assert _named(statement) == (name, (("db.system.name", "postgresql"), ("db.query.summary", name)))


class Number(Frozen):
    number: int


def spans_of(root: TraceSpan) -> list[tuple[str, str]]:
    return [(span.name, span.error) for span in root.trace.spans if span.parent == root.id]


def opened() -> TraceSpan:
    return TraceSpan(Trace("1" * 32, "1" * 12, iter(range(1000)).__next__), SpanKind.SERVER, "request", (), "")


async def test_each_way_to_ask_makes_one_span(store: Store) -> None:
    pool = store.pool
    with opened() as root:
        await ask(pool, Number, "select count(*) as number from pg_class")
        await Statements(pool).ask_in_order(Number, "select 1 as number")
        await ask_for_many(pool, Number, "select 2 as number from pg_class", {}, lambda one: one.number)
        await tell(pool, "delete from pg_class where false")
        with pytest.raises(Exception, match="division by zero"):
            await ask(pool, Number, "select 1/0 as number")
    await ask(pool, Number, "select 1 as number")
    assert spans_of(root) == [
        ("SELECT pg_class", ""),
        ("SELECT", ""),
        ("SELECT pg_class", ""),
        ("DELETE pg_class", ""),
        ("SELECT", "DivisionByZero"),
    ]


async def test_in_a_transaction_the_spans_of_a_round_trip_share_their_times(store: Store) -> None:
    async with store.pool.connection() as connection:
        with opened() as root:
            async with connection.pipelined_transaction() as pipelined:
                transaction = Transaction(connection, pipelined)
                await transaction.tell("create temp table told (number int) on commit drop")
                await transaction.tell("insert into told values (1)")
                assert await transaction.ask(Number, "select number from told") == [Number(1)]
                await transaction.tell_along("insert into told values (%(number)s)", {"number": 2})
                await transaction.tell_along("delete from told where number = %(number)s", {"number": 1})
                await transaction.commit()
    first, second = [span.began for span in root.trace.spans[:3]], [span.began for span in root.trace.spans[3:-1]]
    assert (len(set(first)), len(set(second))) == (1, 1)
    assert [name for name, _ in spans_of(root)] == ["CREATE", "INSERT told", "SELECT told", "INSERT told", "DELETE told", "COMMIT"]


async def test_a_statement_that_fails_in_a_transaction_fails_the_last_span_of_its_round_trip(store: Store) -> None:
    async with store.pool.connection() as connection:
        with opened() as root:
            async with connection.pipelined_transaction() as pipelined:
                transaction = Transaction(connection, pipelined)
                await transaction.tell("select 1")
                with pytest.raises(Exception, match="division by zero"):
                    await transaction.ask(Number, "select 1/0 as number from pg_class")
    assert spans_of(root) == [("SELECT", ""), ("SELECT pg_class", "DivisionByZero")]
