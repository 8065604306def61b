"""The database as a whole: whether it is there, how late it is, how many rows it has."""

import socket
from datetime import timedelta

import pytest
import trio
import trio.testing

from adapters.postgres.database import PostgresDatabase
from adapters.postgres.driver.pool import Pool
from adapters.system import SystemClock
from core.domain.tokens import clocks_differ
from ports.metrics import PoolState
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.wire import Wire
from tests.adapters.shifted_clock import ShiftedClock
from tests.patience import PATIENCE

BOUND = 4.0  # far more than the deadline of a ping, and less than the pool waits by itself


async def test_a_database_that_is_there_answers(store: Store) -> None:
    assert await PostgresDatabase(store.pool, SystemClock()).ping()


async def test_a_database_that_is_away_does_not_and_nothing_is_raised() -> None:
    pool = Pool("host=127.0.0.1 port=1 dbname=nowhere")
    assert not await PostgresDatabase(pool, SystemClock()).ping()
    await pool.aclose()
    assert not await PostgresDatabase(pool, SystemClock()).ping()


async def test_a_database_that_comes_back_is_noticed(store: Store) -> None:
    assert await PostgresDatabase(store.pool, SystemClock()).ping()
    await store.kill_backends()
    # The news that a connection has ended may arrive after the next question.
    with trio.fail_after(PATIENCE):
        while not await PostgresDatabase(store.pool, SystemClock()).ping():
            pass


async def test_an_answer_that_takes_too_long_is_no_answer() -> None:
    async def swallow(stream: trio.SocketStream) -> None:
        async for _ in stream:
            pass

    async with trio.open_nursery() as nursery:
        (listener, *_) = await nursery.start(lambda task_status: trio.serve_tcp(swallow, 0, host="127.0.0.1", task_status=task_status))
        pool = Pool(f"host=127.0.0.1 port={listener.socket.getsockname()[1]} dbname=nowhere")
        began = trio.current_time()
        assert not await PostgresDatabase(pool, SystemClock()).ping()
        assert trio.current_time() - began < BOUND
        nursery.cancel_scope.cancel()


async def test_a_database_that_froze_under_an_open_connection_is_given_up_within_the_deadline(database_url: str) -> None:
    async with Wire(database_url) as wire:
        pool = Pool(wire.url)
        await pool.open()
        assert await PostgresDatabase(pool, SystemClock()).ping()
        wire.fall_silent()
        began = trio.current_time()
        assert not await PostgresDatabase(pool, SystemClock()).ping()
        assert trio.current_time() - began < BOUND
        wire.cut()
        await pool.aclose()


async def test_a_ping_that_is_cancelled_is_cancelled(store: Store) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await PostgresDatabase(store.pool, SystemClock()).ping()
    assert scope.cancelled_caught


@pytest.mark.parametrize("ahead", [timedelta(0), timedelta(days=60), timedelta(days=-60), timedelta(seconds=31)])
async def test_a_ping_compares_the_clocks_in_both_directions(store: Store, ahead: timedelta) -> None:
    found = PostgresDatabase(store.pool, ShiftedClock(ahead))
    assert await found.ping()
    # A ping takes a second at the most, and half of that is the error.
    assert abs(found.clock_ahead - ahead) < timedelta(seconds=0.5)
    assert clocks_differ(found.clock_ahead) == bool(ahead)
    assert await found.doubt_of_clock() == ("apart" if ahead else None)


async def test_the_pool_tells_how_it_is_doing(store: Store) -> None:
    port = PostgresDatabase(store.pool, SystemClock())
    assert port.pool_state() == PoolState(connections=1, idle=1, max_size=10, waiting=0)
    async with store.pool.connection():
        assert port.pool_state() == PoolState(connections=1, idle=0, max_size=10, waiting=0)


async def test_connections_being_opened_count_as_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pool = Pool(f"host=127.0.0.1 port={silent.getsockname()[1]} dbname=nowhere", max_size=3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PostgresDatabase(pool, SystemClock()).doubt_of_clock)
            await trio.testing.wait_all_tasks_blocked()
            assert PostgresDatabase(pool, SystemClock()).pool_state() == PoolState(connections=0, idle=0, max_size=3, waiting=0)
            nursery.cancel_scope.cancel()
        await pool.aclose()
