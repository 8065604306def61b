"""The program's own statements, on their own and in pipelines."""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.execution import Execution
from tests.adapters.postgres.questions import one
from tests.adapters.postgres.wire import Wire
from tests.conftest import _fresh


@pytest.fixture(scope="module")
def bare_url(worker_id: str) -> Iterator[str]:
    """One database for all tests here: what they store is in temporary tables."""
    yield from _fresh(f"bare_execution_{worker_id}", "template0")


async def carried_out(connection: Connection, statement: str, parameters: Mapping[str, Any] | None = None) -> Execution[dict[str, Any]]:
    execution: Execution[dict[str, Any]] = Execution(connection, dict, statement, parameters)
    await connection.carry_out(execution)
    return execution


async def test_rows_are_made_of_the_columns_by_their_names_or_in_their_order(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        statement = "select n as number, %(word)s::text as word from generate_series(1, 2) as n"
        found = await carried_out(connection, statement, {"word": "a", "not used": 1})
        assert found.rows() == [{"number": 1, "word": "a"}, {"number": 2, "word": "a"}]
        assert found.row_count() == 2
        in_order = Execution(connection, lambda *columns: columns, statement, {"word": "b"}, in_order=True)
        assert in_order.row_count() == 0
        await connection.carry_out(in_order)
        assert in_order.rows() == [(1, "b"), (2, "b")]


async def test_values_are_converted_as_a_cursor_converts_them(bare_url: str) -> None:
    statement = "select %(value)s as value"
    async with await Connection.connect(bare_url) as connection:
        for value in (1, 2**40, 0.5, True, None, [1, 2], ["a", None], b"\0", Jsonb({"a": [1]})):
            cursor = await connection.execute(statement, {"value": value}, prepare=True)
            (row,) = (await carried_out(connection, statement, {"value": value})).rows()
            assert (await cursor.fetchone()) == (row["value"],)


async def test_without_parameters_a_percent_sign_means_itself(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        assert (await carried_out(connection, "select 7 % 4 as rest")).rows() == [{"rest": 3}]


async def test_a_statement_is_prepared_once_and_costs_one_round_trip_from_then_on(bare_url: str) -> None:
    async with Wire(bare_url) as wire, await Connection.connect(wire.url) as connection:
        await carried_out(connection, "select %(n)s::int", {"n": 1})
        turns = wire.turns
        for n in range(3):
            await carried_out(connection, "select %(n)s::int", {"n": n})
        assert wire.turns - turns == 6
        assert await one(connection, "select count(*) from pg_prepared_statements where statement = 'select $1::int'") == 1


async def test_a_statement_that_fails_is_asked_again_with_success(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        for divisor in (0, 5, 0, 2):
            if divisor:
                assert (await carried_out(connection, "select 10 / %(by)s::int as n", {"by": divisor})).rows() == [{"n": 10 // divisor}]
            else:
                with pytest.raises(errors.DivisionByZero):
                    await carried_out(connection, "select 10 / %(by)s::int as n", {"by": divisor})
        with pytest.raises(errors.SyntaxError):
            await carried_out(connection, "select from where")
        assert connection.usable()


async def test_in_a_pipeline_rows_are_there_after_the_answer_and_not_before(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        async with connection.pipelined_transaction() as transaction:
            asked = await carried_out(connection, "select 1 as n")
            with pytest.raises(psycopg.ProgrammingError):
                asked.rows()
            await transaction.flush()
            assert asked.rows() == [{"n": 1}]
            await transaction.commit()
        assert connection.usable()


async def test_what_follows_an_error_in_a_pipeline_is_skipped_and_prepared_the_next_time(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        for _ in range(2):
            async with connection.pipelined_transaction() as transaction:
                await carried_out(connection, "select 1 / 0")
                await carried_out(connection, "select 2 as n")
                with pytest.raises(errors.DivisionByZero):
                    await transaction.commit()
        async with connection.pipelined_transaction():
            await carried_out(connection, "select 3 as n")
        async with connection.pipelined_transaction() as transaction:
            asked = [await carried_out(connection, "select 2 as n"), await carried_out(connection, "select 3 as n")]
            await transaction.commit()
        assert [one.rows() for one in asked] == [[{"n": 2}], [{"n": 3}]]


async def test_a_long_run_of_statements_is_sent_on_the_way(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute("create temporary table numbers (number int)")
        async with connection.pipelined_transaction() as transaction:
            for number in range(150):
                await carried_out(connection, "insert into numbers values (%(n)s)", {"n": number})
            await transaction.commit()
        assert await one(connection, "select count(*) from numbers") == 150


@pytest.mark.parametrize("in_pipeline", [True, False])
async def test_statements_that_were_not_asked_for_long_are_closed(bare_url: str, in_pipeline: bool) -> None:
    async with await Connection.connect(bare_url) as connection:
        connection.prepared.prepared_max = 3
        for n in range(10):
            if in_pipeline:
                async with connection.pipelined_transaction() as transaction:
                    await carried_out(connection, f"select {n} as n")
                    await transaction.commit()
            else:
                await carried_out(connection, f"select {n} as n")
        left = await one(connection, "select count(*) from pg_prepared_statements")
        assert left <= 5
        assert (await carried_out(connection, "select 0 as n")).rows() == [{"n": 0}]
