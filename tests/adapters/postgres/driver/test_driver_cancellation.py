"""A cancellation at any moment, of any statement: soon after, the server runs nothing of it, and the connection is idle again or closed."""

import socket
from collections.abc import Awaitable, Callable, Iterator

import psycopg
import pytest
import trio

from adapters.postgres.driver import connection as driver
from adapters.postgres.driver.connection import Connection
from tests.adapters.postgres.questions import one, open_descriptors
from tests.adapters.postgres.wire import Wire
from tests.conftest import _fresh
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def bare_url(worker_id: str) -> Iterator[str]:
    """One database for all tests here: what they store is in temporary tables."""
    yield from _fresh(f"bare_cancellation_{worker_id}", "template0")


BOUND = 20.0  # seconds from the cancellation to the return: far more than it takes on a busy machine, far less than the statements would
LONG = "select pg_sleep(60)"


async def cancelled_after(seconds: float, action: Callable[[], Awaitable[object]]) -> None:
    began = trio.current_time()
    with trio.move_on_after(seconds) as scope:
        await action()
    assert scope.cancelled_caught
    assert trio.current_time() - began < seconds + BOUND


async def assert_nothing_runs(url: str, pid: int) -> None:
    async with await Connection.connect(url) as observer:
        state = await (await observer.execute("select state, query from pg_stat_activity where pid = %s", [pid])).fetchone()
        assert state is None or state[0] == "idle", state


async def test_in_the_middle_of_a_query(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        for statement, parameters in ((LONG, None), ("select pg_sleep(%s)", [60])):
            for _ in range(3):
                await cancelled_after(0.05, lambda s=statement, p=parameters: connection.execute(s, p, prepare=p is not None))  # type: ignore[misc]  # lambda defaults
                assert connection.usable()
                await assert_nothing_runs(bare_url, connection.info.backend_pid)
        assert await one(connection, "select 42") == 42


async def test_a_statement_that_is_about_to_end_is_awaited_instead_of_asked_to_stop(bare_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "GRACE", 2.0)
    async with Wire(bare_url) as wire, await Connection.connect(wire.url) as connection:
        turns = wire.turns
        wire.fall_silent()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.execute, "select 1")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            wire.speak_again()
        assert connection.usable()
        assert wire.turns == turns + 2  # no second connection, which a request to cancel would be


async def test_before_it_began(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        with trio.CancelScope() as scope:
            scope.cancel()
            await connection.execute(LONG)
        assert scope.cancelled_caught
        assert connection.usable()
        await assert_nothing_runs(bare_url, connection.info.backend_pid)


async def test_while_another_task_uses_the_connection(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.execute, "select pg_sleep(1)")
        await trio.testing.wait_all_tasks_blocked()
        await cancelled_after(0.05, lambda: connection.execute("select 1"))
    assert connection.round_trips == 1


async def test_when_the_network_is_silent_the_connection_is_closed_in_time(bare_url: str) -> None:
    before = open_descriptors()
    async with Wire(bare_url) as wire:
        connection = await Connection.connect(wire.url)
        connection.recovery = 0.3
        wire.fall_silent()
        await cancelled_after(0.05, lambda: connection.execute(LONG))
        assert connection.closed
        wire.cut()
    assert open_descriptors() == before


async def test_a_request_to_cancel_that_overtakes_its_statement_is_repeated(bare_url: str) -> None:
    async with Wire(bare_url) as wire, await Connection.connect(wire.url) as connection, trio.open_nursery() as nursery:
        # The first request to cancel comes while the statement is still on its way, and the server knows nothing to cancel.
        late = wire.delay_next()

        async def let_go() -> None:
            await trio.sleep(0.15)
            late.set()

        nursery.start_soon(let_go)
        await cancelled_after(0.05, lambda: connection.execute(LONG))
        assert connection.usable()
        await assert_nothing_runs(bare_url, connection.info.backend_pid)


async def test_in_the_middle_of_connecting(bare_url: str) -> None:
    before = open_descriptors()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"host=127.0.0.1 port={silent.getsockname()[1]}"
        for _ in range(5):
            await cancelled_after(0.02, lambda: Connection.connect(url))
        assert open_descriptors() == before + 1  # the listener's own
    async with Wire(bare_url) as wire:
        for turn in (1, 2):  # after our first word, and after the first answer
            opened = open_descriptors()
            with trio.CancelScope() as scope:
                wire.after(turn, scope.cancel)
                await Connection.connect(wire.url)
            assert scope.cancelled_caught, turn
            with trio.fail_after(PATIENCE):
                while wire.connections:
                    await trio.sleep(0.001)
            assert open_descriptors() == opened
    assert open_descriptors() == before


async def test_in_the_middle_of_a_transaction(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute("create temporary table numbers (number int)")

        async def work() -> None:
            async with connection.transaction():
                await connection.execute("insert into numbers values (1)")
                await connection.execute(LONG)

        async def work_and_think() -> None:
            async with connection.transaction():
                await connection.execute("insert into numbers values (1)")
                await trio.sleep_forever()

        for action in (work, work_and_think):
            await cancelled_after(0.05, action)
            assert connection.usable()
            await assert_nothing_runs(bare_url, connection.info.backend_pid)
        assert await one(connection, "select count(*) from numbers") == 0


async def test_in_the_middle_of_a_pipelined_transaction(bare_url: str) -> None:
    async with await Connection.connect(bare_url, prepare_threshold=0) as connection:
        await connection.execute("create temporary table numbers (number int)")

        async def work() -> None:
            async with connection.pipelined_transaction():
                await connection.execute("insert into numbers values (%s)", [1])
                await (await connection.execute("select pg_sleep(%s)", [60])).fetchone()

        async def work_and_think() -> None:
            async with connection.pipelined_transaction() as transaction:
                await connection.execute("insert into numbers values (%s)", [1])
                await transaction.flush()
                await trio.sleep_forever()

        async def queue_and_think() -> None:
            async with connection.pipelined_transaction():
                await connection.execute("insert into numbers values (%s)", [1])
                await trio.sleep_forever()

        async def commit_slowly() -> None:
            async with connection.pipelined_transaction() as transaction:
                await connection.execute("insert into numbers values (%s)", [1])
                await transaction.flush()
                await connection.execute("select pg_sleep(%s)", [60])
                await transaction.flush()

        for action in (work, work_and_think, queue_and_think, commit_slowly):
            for _ in range(2):
                await cancelled_after(0.05, action)
                assert connection.usable()
                await assert_nothing_runs(bare_url, connection.info.backend_pid)
        assert await one(connection, "select count(*) from numbers") == 0


async def test_in_the_middle_of_a_pipeline(bare_url: str) -> None:
    async with await Connection.connect(bare_url, prepare_threshold=0) as connection:

        async def work(statements: int) -> None:
            async with connection.pipeline() as pipeline:
                for number in range(statements):
                    await connection.execute("select pg_sleep(%s::int * 60)", [number])
                    if number == 2:
                        await pipeline.sync()

        async def think() -> None:
            async with connection.pipeline():
                for _ in range(100):
                    await connection.execute("select pg_sleep(60)")
                await trio.sleep_forever()

        for action in (lambda: work(2), lambda: work(5), lambda: work(200), think):
            await cancelled_after(0.05, action)
            assert connection.usable()
            await assert_nothing_runs(bare_url, connection.info.backend_pid)
            assert await one(connection, "select pg_sleep(%s::int * 60)", [0]) == ""


async def test_in_the_middle_of_a_large_statement_that_nobody_reads(bare_url: str) -> None:
    async with Wire(bare_url) as wire, await Connection.connect(wire.url) as connection, trio.open_nursery() as nursery:

        async def speak_again() -> None:
            await trio.sleep(0.15)
            wire.speak_again()

        wire.fall_silent()
        nursery.start_soon(speak_again)
        await cancelled_after(0.05, lambda: connection.execute("select length(%s), pg_sleep(60)", ["x" * 20_000_000]))
        assert connection.usable()
        assert await one(connection, "select 1") == 1


async def test_in_the_middle_of_copying_and_streaming(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute("create temporary table numbers (number int)")

        async def copy_in() -> None:
            async with connection.cursor() as cursor, cursor.copy("copy numbers from stdin") as copy:
                await copy.write_row([1])
                await trio.sleep_forever()

        async def copy_out() -> None:
            async with (
                connection.cursor() as cursor,
                cursor.copy("copy (select pg_sleep(n) from generate_series(0, 60) n) to stdout") as copy,
            ):
                async for _ in copy.rows():
                    pass

        async def stream() -> None:
            async with connection.cursor() as cursor:
                async for _ in cursor.stream("select pg_sleep(n) from generate_series(0, 60) n"):
                    pass

        for action in (copy_in, copy_out, stream):
            await cancelled_after(0.05, action)
            assert connection.closed or connection.usable()
            await assert_nothing_runs(bare_url, connection.info.backend_pid)
        assert await one(connection, "select count(*) from numbers") == 0


async def test_a_commit_is_not_disturbed(bare_url: str) -> None:
    async with Wire(bare_url) as wire, await Connection.connect(wire.url) as connection, trio.open_nursery() as nursery:
        await connection.execute("create temporary table numbers (number int)")

        async def speak_again() -> None:
            await trio.sleep(0.1)
            wire.speak_again()

        def fall_silent(scope: trio.CancelScope) -> None:
            """The cancellation comes while the commit waits for its answer."""
            wire.fall_silent()
            scope.deadline = trio.current_time() + 0.05
            nursery.start_soon(speak_again)

        committed: list[str] = []

        async def pipelined(scope: trio.CancelScope) -> None:
            async with connection.pipelined_transaction() as transaction:
                await connection.execute("insert into numbers values (1)")
                await transaction.flush()
                fall_silent(scope)
                await transaction.commit()
                committed.append("in the pipeline")

        async def block(scope: trio.CancelScope) -> None:
            async with connection.transaction():
                await connection.execute("insert into numbers values (1)")
                fall_silent(scope)
            committed.append("at the end of the block")

        for action in (pipelined, block):
            with trio.CancelScope() as scope:
                await action(scope)
            assert connection.usable()
        assert committed == ["in the pipeline", "at the end of the block"]
        assert await one(connection, "select count(*) from numbers") == 2


async def test_a_commit_without_an_answer_says_that_nobody_knows(bare_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.postgres.driver.pipeline.LAST_WORD", 0.1)
    async with Wire(bare_url) as wire:
        connection = await Connection.connect(wire.url)
        connection.recovery = 0.1

        async def commit_into_silence() -> None:
            async with connection.pipelined_transaction() as transaction:
                await connection.execute("select 1")
                await transaction.flush()
                wire.fall_silent()
                await transaction.commit()

        with pytest.raises(psycopg.OperationalError, match="not known"):
            await commit_into_silence()
        assert connection.closed


async def test_a_backend_killed_in_the_middle_of_a_query_is_an_operational_error(bare_url: str) -> None:
    async def kill(pid: int) -> None:
        await trio.sleep(0.05)
        async with await Connection.connect(bare_url) as killer:
            await killer.execute("select pg_terminate_backend(%s)", [pid])

    async def alone(connection: Connection) -> None:
        await connection.execute(LONG)

    async def pipelined(connection: Connection) -> None:
        async with connection.pipelined_transaction() as transaction:
            await connection.execute(LONG)
            await transaction.flush()

    for action in (alone, pipelined):
        connection = await Connection.connect(bare_url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill, connection.info.backend_pid)
            with pytest.raises(psycopg.OperationalError):
                await action(connection)
        assert connection.closed
        await connection.close()
