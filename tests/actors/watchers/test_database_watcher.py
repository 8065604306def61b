"""The pool is measured, and waits for a hung server end, whatever the database does."""

import trio
from psycopg.conninfo import make_conninfo

from actors.watchers import DatabaseWatcher
from adapters.postgres.database import PostgresDatabase
from adapters.postgres.driver.pool import Pool
from adapters.system import SystemClock
from tests.actors.observed import RememberedMetrics
from tests.adapters.postgres.wire import Wire
from tests.patience import PATIENCE


async def test_the_pool_is_measured_while_nothing_can_be_connected() -> None:
    metrics = RememberedMetrics()
    pool = Pool("host=127.0.0.1 port=1")
    async with trio.open_nursery() as nursery:
        await nursery.start(DatabaseWatcher(metrics, PostgresDatabase(pool, SystemClock())).run)
        with trio.fail_after(PATIENCE):
            while len(metrics.pools) < 2:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert metrics.pools[0].connections == 0
    await pool.aclose()


async def test_it_tells_why_writes_fail_and_when_they_succeed_again(database_url: str) -> None:
    metrics = RememberedMetrics()
    pool = Pool(make_conninfo(database_url, options="-c default_transaction_read_only=on"), max_lifetime=0)
    async with trio.open_nursery() as nursery:
        await nursery.start(DatabaseWatcher(metrics, PostgresDatabase(pool, SystemClock())).run)
        with trio.fail_after(PATIENCE):
            while "read only" not in metrics.write_failures:
                await trio.sleep(0.05)
            pool.conninfo = database_url
            while metrics.write_failures[-1] is not None:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    await pool.aclose()


async def test_a_connection_that_is_being_opened_does_not_count_as_open(database_url: str) -> None:
    async with Wire(database_url) as wire:
        wire.fall_silent()
        pool = Pool(wire.url, timeout=1)
        database = PostgresDatabase(pool, SystemClock())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(database.ping)
            with trio.fail_after(PATIENCE):
                while not pool.statistics().opening:
                    await trio.sleep(0.01)
            assert database.pool_state().connections == 0
            nursery.cancel_scope.cancel()
        await pool.aclose()
