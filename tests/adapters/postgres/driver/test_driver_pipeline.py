from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from adapters.postgres.driver.connection import Connection
from tests.adapters.postgres.questions import one
from tests.adapters.postgres.wire import Wire
from tests.conftest import _fresh


@pytest.fixture(scope="module")
def bare_url(worker_id: str) -> Iterator[str]:
    """One database for all tests here: what they store is in temporary tables."""
    yield from _fresh(f"bare_pipeline_{worker_id}", "template0")


TABLE = "create temporary table numbers (number int primary key, twin int unique deferrable initially deferred)"


async def transact(connection: Connection, *statements: str, commit: bool = False) -> None:
    async with connection.pipelined_transaction() as transaction:
        for statement in statements:
            await connection.execute(statement)
        if commit:
            await transaction.commit()
        else:
            await transaction.flush()


async def prepared(connection: Connection) -> set[str]:
    cursor = await connection.execute("select statement from pg_prepared_statements", prepare=False)
    return {row[0] for row in await cursor.fetchall()}


async def test_a_unit_of_work_of_one_read_and_three_writes_costs_two_round_trips(bare_url: str) -> None:
    async with Wire(bare_url) as wire, await Connection.connect(wire.url) as connection:
        await connection.execute(TABLE)
        for start in range(0, 70, 10):  # on the way, the statements become prepared ones
            counted, turns = connection.round_trips, wire.turns
            async with connection.pipelined_transaction() as transaction:
                cursor = await connection.execute("select count(*) from numbers where number >= %s", [start])
                assert await cursor.fetchone() == (0,)
                for number in range(3):
                    await connection.execute("insert into numbers values (%s, null)", [start + number])
                await transaction.commit()
            assert connection.round_trips - counted == 2
            assert wire.turns - turns == 4
            assert connection.usable()
        assert await one(connection, "select count(*) from numbers") == 21


async def test_after_its_end_the_connection_is_an_ordinary_one(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute(TABLE)
        async with connection.pipelined_transaction() as transaction:
            await connection.execute("insert into numbers values (1)")
            await transaction.commit()
            assert connection.usable()
            await connection.execute("insert into numbers values (2)")
            with pytest.raises(psycopg.ProgrammingError, match="has ended"):
                await transaction.flush()
        async with connection.pipelined_transaction() as transaction:
            await connection.execute("insert into numbers values (3)")
            await transaction.rollback()
            assert connection.usable()
        assert await one(connection, "select sum(number) from numbers") == 3


async def test_psycopgs_own_pipeline_block_costs_no_more(bare_url: str) -> None:
    async with Wire(bare_url) as wire, await Connection.connect(wire.url) as connection:
        await connection.execute(TABLE)
        counted, turns = connection.round_trips, wire.turns
        async with connection.pipeline():
            await connection.execute("begin")
            cursor = await connection.execute("select count(*) from numbers")
            assert await cursor.fetchone() == (0,)
            await connection.execute("insert into numbers values (1)")
            await connection.execute("commit")
        assert connection.round_trips - counted == 2
        assert wire.turns - turns == 4
        assert await one(connection, "select count(*) from numbers") == 1


async def test_leaving_without_commit_rolls_back(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute(TABLE)
        async with connection.pipelined_transaction():
            await connection.execute("insert into numbers values (1)")
        await transact(connection, "insert into numbers values (2)")

        async def refuse() -> None:
            async with connection.pipelined_transaction() as transaction:
                await connection.execute("insert into numbers values (3)")
                await transaction.flush()
                await connection.execute("insert into numbers values (4)")
                raise LookupError

        with pytest.raises(LookupError):
            await refuse()
        assert connection.usable()
        assert await one(connection, "select count(*) from numbers") == 0


async def test_a_transaction_that_did_nothing_sends_nothing(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        async with connection.pipelined_transaction():
            pass
        async with connection.pipelined_transaction() as transaction:
            await transaction.commit()
        async with connection.pipelined_transaction():
            await connection.execute("select 1")
        assert connection.round_trips == 0
        assert connection.usable()


async def test_the_earliest_error_appears_at_the_next_answer_and_nothing_after_it_ran(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute(TABLE)
        await connection.execute("insert into numbers values (1)")

        async def work() -> None:
            async with connection.pipelined_transaction():
                await connection.execute("insert into numbers values (2)")
                await connection.execute("insert into numbers values (1)")
                cursor = await connection.execute("select nextval('no_such_sequence')")
                await cursor.fetchone()

        with pytest.raises(errors.UniqueViolation) as caught:
            await work()
        assert caught.value.diag.constraint_name == "numbers_pkey"
        assert connection.usable()
        assert await one(connection, "select count(*) from numbers") == 1


async def test_an_error_among_the_last_writes_appears_at_commit(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute(TABLE)
        await connection.execute("insert into numbers values (1)")
        for statement in ("insert into numbers values (1)", "insert into numbers values (7, 7), (8, 7)"):
            with pytest.raises(errors.UniqueViolation):
                await transact(connection, "insert into numbers values (2)", statement, commit=True)
            assert connection.usable()
            assert await one(connection, "select count(*) from numbers") == 1


async def test_a_transaction_that_failed_cannot_be_committed(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute(TABLE)

        async def carry_on(*, synchronized: bool) -> None:
            async with connection.pipelined_transaction() as transaction:
                await connection.execute("insert into numbers values (2)")
                await connection.execute("select 1/0")
                with pytest.raises(errors.DivisionByZero):
                    await transaction.flush()
                if synchronized:
                    async with connection.pipeline() as pipeline:
                        await pipeline.sync()
                await transaction.commit()

        with pytest.raises(errors.PipelineAborted):
            await carry_on(synchronized=False)
        assert connection.usable()
        with pytest.raises(errors.InFailedSqlTransaction):
            await carry_on(synchronized=True)
        assert connection.usable()
        assert await one(connection, "select count(*) from numbers") == 0


async def test_an_update_knows_its_row_count_after_flush(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute(TABLE)
        async with connection.pipelined_transaction() as transaction:
            cursor = await connection.execute("insert into numbers values (1), (2)")
            await transaction.flush()
            assert cursor.rowcount == 2
            await transaction.commit()


async def test_a_transaction_starts_on_an_idle_connection_only(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        async with connection.pipelined_transaction():
            with pytest.raises(psycopg.ProgrammingError, match="idle connection"):
                async with connection.pipelined_transaction():
                    pass
        async with connection.transaction():
            with pytest.raises(psycopg.ProgrammingError, match="idle connection"):
                async with connection.pipelined_transaction():
                    pass
        with pytest.raises(psycopg.ProgrammingError, match="not begun"):
            await connection.pipelined_transaction().commit()
        assert connection.usable()


async def test_other_isolation_levels_can_be_asked_for(bare_url: str) -> None:
    async with (
        await Connection.connect(bare_url) as connection,
        connection.pipelined_transaction(b"begin isolation level serializable"),
    ):
        assert await one(connection, "show transaction_isolation") == "serializable"


@pytest.mark.parametrize(("begin", "level"), [(b"BEGIN", "read committed"), (b"begin isolation level serializable", "serializable")])
async def test_also_for_writes_that_ask_for_nothing(bare_url: str, begin: bytes, level: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute("create temporary table seen (level text, at timestamptz)")
        async with connection.pipelined_transaction(begin) as transaction:
            for _ in range(2):
                await connection.execute("insert into seen values (current_setting('transaction_isolation'), now())")
            await transaction.commit()
        assert connection.usable()
        cursor = await connection.execute("select min(level), count(*), count(distinct at) from seen")
        assert await cursor.fetchone() == (level, 2, 1)  # in one transaction


async def test_prepared_statements_survive_errors_and_roll_backs(bare_url: str) -> None:
    async with await Connection.connect(bare_url, prepare_threshold=0) as connection:
        statement = "select 10 / %s::int"
        for divisor in (1, 0, 5, 0):
            async with connection.pipelined_transaction() as transaction:
                cursor = await connection.execute(statement, [divisor])
                if divisor:
                    assert await cursor.fetchone() == (10 // divisor,)
                else:
                    with pytest.raises(errors.DivisionByZero):
                        await transaction.flush()
        with pytest.raises(errors.DivisionByZero):
            await connection.execute(statement, [0])
        await connection.execute("begin")
        await connection.execute("rollback")
        async with connection.transaction(force_rollback=True):
            pass
        assert "select 10 / $1::int" in await prepared(connection)
        turns = connection.round_trips
        assert await one(connection, statement, [2]) == 5
        assert connection.round_trips == turns + 1


@pytest.mark.parametrize("executions_before", [0, 5])
async def test_a_statement_whose_preparation_was_skipped_is_prepared_the_next_time(bare_url: str, executions_before: int) -> None:
    threshold = 5 if executions_before else 0
    async with await Connection.connect(bare_url, prepare_threshold=threshold) as connection:
        statement = "select %s::int as after_an_error"
        for _ in range(executions_before):
            await connection.execute(statement, [1])
        for _ in range(2):
            async with connection.pipelined_transaction() as transaction:
                await connection.execute("select 1/0", prepare=False)
                await connection.execute(statement, [1])
                with pytest.raises(errors.DivisionByZero):
                    await transaction.flush()
        async with connection.pipelined_transaction():
            assert await one(connection, statement, [2]) == 2
        assert await one(connection, statement, [3]) == 3
        assert "select $1::int as after_an_error" in await prepared(connection)


async def test_a_statement_that_was_never_sent_is_prepared_the_next_time(bare_url: str) -> None:
    async with await Connection.connect(bare_url, prepare_threshold=0) as connection:
        async with connection.pipelined_transaction():
            await connection.execute("select %s::int", [1])
        assert await one(connection, "select %s::int", [2]) == 2


async def test_a_plan_that_a_migration_made_useless_costs_one_error_not_more(database_url: str) -> None:
    async with await Connection.connect(database_url, prepare_threshold=0) as connection, await Connection.connect(database_url) as other:
        await connection.execute("create table numbers (number int)")
        await connection.execute("insert into numbers values (1)")
        await connection.execute("select * from numbers where number = %s", [1])
        await other.execute("alter table numbers add column twin int")
        with pytest.raises(errors.FeatureNotSupported, match="cached plan"):
            await connection.execute("select * from numbers where number = %s", [1])
        cursor = await connection.execute("select * from numbers where number = %s", [1])
        assert await cursor.fetchone() == (1, None)
        await connection.execute("deallocate all")
        assert await one(connection, "select * from numbers where number = %s", [1]) == 1


async def test_errors_outside_of_transactions_leave_a_pipeline_usable(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:

        async def divide() -> None:
            async with connection.pipeline():
                await connection.execute("select 1/0")

        with pytest.raises(errors.DivisionByZero):
            await divide()
        async with connection.pipeline() as pipeline:
            await connection.execute("select 1/0")
            with pytest.raises(errors.DivisionByZero):
                await pipeline.sync()
            assert await one(connection, "select 2") == 2
        assert connection.usable()
