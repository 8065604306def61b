"""Faults below the pool fail only the requests in flight."""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest
import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.pool import Pool, PoolExhausted
from adapters.postgres.embedded import EmbeddedPostgres
from tests.adapters.postgres.questions import one, open_descriptors
from tests.adapters.postgres.wire import Wire
from tests.patience import PATIENCE


async def test_ten_thousand_queries_with_random_cancellations_leave_every_connection_idle(database_url: str) -> None:
    tasks, queries, most = 200, 10_000, 8
    before = open_descriptors()
    outcomes: Counter[str] = Counter()
    fate = random.Random(4711)  # noqa: S311 - the same fates in every run
    pool = Pool(database_url, max_size=most)

    async def query() -> None:
        number = fate.randrange(1_000_000)
        kind = fate.randrange(20)
        async with pool.connection() as connection:
            if kind == 0:
                async with connection.transaction():
                    await connection.execute("select 1")
                    assert await one(connection, "select %s::int", [number]) == number
            elif kind < 5:
                async with connection.pipelined_transaction() as transaction:
                    assert await one(connection, "select %s::int", [number]) == number
                    await connection.execute("select 1")
                    await transaction.commit()
            elif kind == 5:
                await connection.execute("begin")
                assert await one(connection, "select %s::int from pg_sleep(0.001)", [number]) == number
            else:
                assert await one(connection, "select %s::int", [number]) == number

    async def work() -> None:
        for _ in range(queries // tasks):
            with trio.move_on_after(fate.expovariate(30) if fate.random() < 0.2 else 60) as scope:
                await query()
            outcomes["cancelled" if scope.cancelled_caught else "answered"] += 1

    async with trio.open_nursery() as nursery:
        for _ in range(tasks):
            nursery.start_soon(work)
    now = pool.statistics()
    assert outcomes.total() == queries
    assert outcomes["cancelled"] > 100
    assert outcomes["answered"] > 7000
    assert (now.connections, now.idle, now.in_use, now.opening, now.waiting) == (most, most, 0, 0, 0)
    assert now.lost == 0
    async with await Connection.connect(database_url) as observer:
        states = await observer.execute(
            "select state, count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() group by state"
        )
        assert await states.fetchall() == [("idle", most)]
    await pool.aclose()
    assert open_descriptors() == before


async def test_a_killed_backend_costs_its_request_only(database_url: str) -> None:
    pool = Pool(database_url, max_size=3)
    killed = 0

    async def work() -> None:
        nonlocal killed
        try:
            async with pool.connection() as connection:
                await connection.execute("select pg_advisory_xact_lock(1)")
        except psycopg.OperationalError:
            killed += 1

    # The statements wait until the lock is free. Beside this database, the server has those of other tests.
    waiting = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with await Connection.connect(database_url) as killer, trio.open_nursery() as nursery:
        await killer.execute("select pg_advisory_lock(1)")
        for _ in range(3):
            nursery.start_soon(work)
        with trio.fail_after(PATIENCE):
            while len(pids := await (await killer.execute(waiting)).fetchall()) < 3:
                await trio.sleep(0.01)
            await killer.execute("select pg_terminate_backend(%s)", pids[0])
            while not killed:
                await trio.sleep(0.01)
        await killer.execute("select pg_advisory_unlock(1)")
    assert killed == 1
    assert pool.statistics().lost == 1
    async with pool.connection() as connection:
        assert await one(connection, "select 1") == 1
    await pool.aclose()


async def test_connections_that_died_idle_cost_no_request(database_url: str) -> None:
    pool = Pool(database_url, max_size=4)
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(pool.connection())
    async with await Connection.connect(database_url) as killer:
        await killer.execute(
            "select pg_terminate_backend(pid, 2000) from pg_stat_activity"
            " where application_name = 'postern' and datname = current_database()"
        )
    async with pool.connection() as connection:
        assert await one(connection, "select 1") == 1
    now = pool.statistics()
    assert (now.lost, now.connections) == (4, 1)
    await pool.aclose()


async def test_when_one_is_found_dead_the_other_idle_ones_are_looked_at_too(database_url: str) -> None:
    pool = Pool(database_url, max_size=3)
    async with AsyncExitStack() as stack:
        top, middle, bottom = [await stack.enter_async_context(pool.connection()) for _ in range(3)]
    async with await Connection.connect(database_url) as killer:
        for dead in (top, bottom):
            await killer.execute("select pg_terminate_backend(%s, 2000)", [dead.info.backend_pid])
    async with pool.connection() as connection:
        assert connection is middle
        now = pool.statistics()
        assert (now.lost, now.connections, now.idle) == (2, 1, 0)
    await pool.aclose()


async def test_a_network_cut_is_survived(database_url: str) -> None:
    async with Wire(database_url) as wire:
        pool = Pool(wire.url, max_size=2)
        async with pool.connection() as connection:
            await connection.execute("select 1")
            wire.cut()
            with pytest.raises(psycopg.OperationalError):
                await connection.execute("select 1")
        async with pool.connection() as connection:
            assert await one(connection, "select 1") == 1
        await pool.aclose()


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    # A place of our own: pytest's is closed to other users, and root's PostgreSQL runs as one.
    with (
        tempfile.TemporaryDirectory(prefix="postern-pool-") as directory,
        EmbeddedPostgres(Path(directory), settings={"fsync": "off"}) as server,
    ):
        yield server


async def test_a_server_restarted_under_load_costs_what_was_in_flight(own_server: EmbeddedPostgres) -> None:
    pool = Pool(own_server.url("postgres"), max_size=4, timeout=2)
    outcomes: Counter[str] = Counter()
    phase = "before"
    stop = False

    async def work() -> None:
        while not stop:
            during = phase
            try:
                async with pool.connection() as connection:
                    assert await one(connection, "select %s::int", [7]) == 7
                outcomes[f"answered {during}"] += 1
            except (psycopg.OperationalError, PoolExhausted):
                outcomes[f"failed {during}"] += 1
                await trio.sleep(0.01)

    async def until(outcome: str) -> None:
        with trio.fail_after(PATIENCE):
            while outcomes[outcome] < 50:
                await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(work)
        await until("answered before")
        phase = "during"
        await trio.to_thread.run_sync(own_server.stop)
        await until("failed during")
        await trio.to_thread.run_sync(own_server.start)
        await until("answered during")
        phase = "after"
        await until("answered after")
        stop = True
    assert outcomes["failed before"] <= 12  # in flight, one for each task
    assert outcomes["failed after"] == 0
    now = pool.statistics()
    assert (now.in_use, now.opening, now.waiting) == (0, 0, 0)
    await pool.aclose()
