import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack

import psycopg
import pytest
import trio
from psycopg.conninfo import make_conninfo

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.pool import Pool, PoolClosed, PoolExhausted
from tests.adapters.postgres.questions import one, open_descriptors
from tests.adapters.postgres.wire import Wire
from tests.conftest import _fresh
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def bare_url(worker_id: str) -> Iterator[str]:
    """One database for all tests here: what they store is in temporary tables."""
    yield from _fresh(f"bare_pool_{worker_id}", "template0")


async def hold(pool: Pool) -> None:
    async with pool.connection():
        await trio.lowlevel.checkpoint()


async def take(pool: Pool, number: int) -> list[Connection]:
    """Take so many at once; returned in the reverse order."""
    async with AsyncExitStack() as stack:
        return [await stack.enter_async_context(pool.connection()) for _ in range(number)]


async def pid(pool: Pool) -> int:
    async with pool.connection() as connection:
        return connection.info.backend_pid


async def test_it_opens_min_size_connections_and_at_most_max_size(bare_url: str) -> None:
    pool = Pool(bare_url, min_size=2, max_size=3)
    await pool.open()
    assert pool.statistics().connections == pool.statistics().idle == 2
    async with trio.open_nursery() as nursery, AsyncExitStack() as held:
        for _ in range(3):
            await held.enter_async_context(pool.connection())
        for _ in range(6):
            nursery.start_soon(hold, pool)
        await trio.testing.wait_all_tasks_blocked()
        now = pool.statistics()
        assert (now.connections, now.in_use, now.waiting, now.idle) == (3, 3, 6, 0)
    now = pool.statistics()
    assert (now.connections, now.idle, now.in_use, now.waiting, now.waited, now.opened) == (3, 3, 0, 0, 6, 3)
    async with pool.connection() as connection:
        assert await one(connection, "show application_name") == "postern"
    await pool.aclose()


async def test_an_unreachable_server_is_an_operational_error_and_takes_no_slot(bare_url: str) -> None:
    pool = Pool(make_conninfo(bare_url, host="/nonexistent"), max_size=1)
    with pytest.raises(psycopg.OperationalError):
        await pool.open()
    for _ in range(3):
        with pytest.raises(psycopg.OperationalError):
            await pid(pool)
    now = pool.statistics()
    assert (now.connections, now.opening, now.waiting) == (0, 0, 0)
    await pool.aclose()


async def test_bounds_that_make_no_sense_are_refused() -> None:
    for min_size, max_size in ((2, 1), (-1, 1), (0, 0)):
        with pytest.raises(ValueError, match="min_size"):
            Pool("", min_size=min_size, max_size=max_size)


async def test_the_one_returned_last_is_taken_first(bare_url: str) -> None:
    pool = Pool(bare_url, max_size=3)
    *_, before_last, last = reversed(await take(pool, 3))
    for _ in range(3):
        assert await pid(pool) == last.info.backend_pid
    assert await take(pool, 2) == [last, before_last]
    await pool.aclose()


async def test_who_waits_longest_is_served_first(bare_url: str) -> None:
    pool = Pool(bare_url, max_size=1)
    served: list[int] = []

    async def work(number: int) -> None:
        async with pool.connection() as connection:
            served.append(number)
            await connection.execute("select 1")

    async with trio.open_nursery() as nursery:
        async with pool.connection():
            for number in range(10):
                nursery.start_soon(work, number)
                await trio.testing.wait_all_tasks_blocked()
        await work(10)  # has come when one was just returned, and overtakes nobody
    assert served == list(range(11))
    await pool.aclose()


async def test_an_exhausted_pool_refuses_after_a_bounded_wait(bare_url: str) -> None:
    waits: list[float] = []
    pool = Pool(bare_url, max_size=1, timeout=0.1, on_wait=waits.append)
    async with pool.connection():
        began = trio.current_time()
        with pytest.raises(PoolExhausted) as refusal:
            await pid(pool)
        assert 0.1 <= trio.current_time() - began < 2
        assert refusal.value.retry_after >= 1
    assert await pid(pool)
    assert pool.statistics().refused == 1
    assert len(waits) == 2  # opening the one, and the refusal
    assert waits[1] >= 0.1
    await pool.aclose()


async def test_too_many_waiters_are_refused_at_once(bare_url: str) -> None:
    pool = Pool(bare_url, max_size=1, max_waiting=2, timeout=3600)
    async with trio.open_nursery() as nursery, pool.connection():
        nursery.start_soon(hold, pool)
        nursery.start_soon(hold, pool)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(PATIENCE), pytest.raises(PoolExhausted):
            await pid(pool)
    assert pool.statistics().refused == 1
    await pool.aclose()


async def test_a_server_that_does_not_answer_costs_no_more_than_the_timeout() -> None:
    before = open_descriptors()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pool = Pool(f"host=127.0.0.1 port={silent.getsockname()[1]}", max_size=1, timeout=0.1)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(3):

                async def fail() -> None:
                    with pytest.raises((psycopg.OperationalError, PoolExhausted)):
                        await pid(pool)

                nursery.start_soon(fail)
        assert trio.current_time() - began < 2
        now = pool.statistics()
        assert (now.connections, now.opening, now.waiting) == (0, 0, 0)
        await pool.aclose()
    assert open_descriptors() == before


async def test_cancelled_waiters_and_openers_leave_no_slot_behind(bare_url: str) -> None:
    pool = Pool(bare_url, max_size=2)
    for microseconds in range(0, 6000, 60):
        async with trio.open_nursery() as nursery:
            for offset in range(6):

                async def work(deadline: float) -> None:
                    with trio.CancelScope(deadline=deadline):
                        await pid(pool)

                nursery.start_soon(work, trio.current_time() + (microseconds + offset * 20) / 1e6)
        now = pool.statistics()
        assert (now.in_use, now.opening, now.waiting) == (0, 0, 0)
        if microseconds % 240 == 0:
            while pool._idle:  # so that connections are opened again
                pool._idle.pop().connection.abort()
    assert await pid(pool)
    await pool.aclose()


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_one_handed_over_in_the_moment_of_a_cancellation_is_not_lost(bare_url: str, cancelled_first: bool) -> None:
    pool = Pool(bare_url, max_size=1)
    async with trio.open_nursery() as nursery:
        async with pool.connection():
            nursery.start_soon(hold, pool)
            await trio.testing.wait_all_tasks_blocked()
            if cancelled_first:
                nursery.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
    assert pool.statistics().in_use == 0
    assert await pid(pool)
    await pool.aclose()


async def test_a_transaction_left_open_is_rolled_back(bare_url: str) -> None:
    pool = Pool(bare_url, max_size=1)
    async with pool.connection() as connection:
        await connection.execute("create temporary table numbers (number int)")
        number = connection.info.backend_pid
        await connection.execute("begin")
        await connection.execute("insert into numbers values (1)")
    async with pool.connection() as connection:
        assert await one(connection, "select count(*) from numbers") == 0
        await connection.execute("begin")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.execute("select 1/0")
    with trio.move_on_after(0.05):
        async with pool.connection() as connection:
            await connection.execute("begin")
            await connection.execute("select pg_sleep(60)")
    assert await pid(pool) == number
    assert pool.statistics().lost == 0
    await pool.aclose()


async def test_a_connection_in_any_other_state_is_thrown_away(bare_url: str) -> None:
    pool = Pool(bare_url, max_size=1)
    async with pool.connection() as connection:
        await connection.set_autocommit(False)
    assert connection.closed
    async with pool.connection() as connection:
        connection.enter_pipeline()
    assert connection.closed
    async with pool.connection() as connection:
        await connection.close()
    async with pool.connection() as connection:
        async with connection.lock:
            pool_thinks = pool.statistics().in_use
        assert pool_thinks == 1
    assert not connection.closed
    await pool.aclose()


async def test_connections_end_with_their_lifetime_and_not_all_at_once(bare_url: str) -> None:
    pool = Pool(bare_url, max_size=4, max_lifetime=3600)
    began = trio.current_time()
    await take(pool, 4)
    ends = {member.expires_at for member in pool._idle}
    assert began + 0.9 * 3600 <= min(ends)
    assert max(ends) <= trio.current_time() + 1.1 * 3600
    assert max(ends) - min(ends) > 0.0001
    first = await pid(pool)
    for member in pool._idle:  # as if the time had passed
        member.expires_at = trio.current_time()
    assert await pid(pool) == first  # noticed on return
    assert await pid(pool) != first
    assert pool.statistics().retired >= 1
    await pool.aclose()


async def test_those_that_idle_too_long_are_closed_down_to_min_size(bare_url: str) -> None:
    pool = Pool(bare_url, min_size=2, max_size=5, max_idle=3600)
    await take(pool, 5)
    assert pool.statistics().idle == 5
    for member in pool._idle:  # as if the time had passed
        member.idle_since -= 3601
    await pid(pool)
    now = pool.statistics()
    assert (now.idle, now.retired) == (2, 3)
    await pool.aclose()


async def test_closing_wakes_the_waiters_and_waits_for_those_in_use(bare_url: str) -> None:
    pool, closed = Pool(bare_url, max_size=1), trio.Event()

    async def refused() -> None:
        with pytest.raises(PoolClosed):
            await pid(pool)

    async def close() -> None:
        await pool.aclose(timeout=3600)
        closed.set()

    async with trio.open_nursery() as nursery:
        async with pool.connection() as connection:
            nursery.start_soon(refused)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(close)
            await trio.testing.wait_all_tasks_blocked()
            # The one that waited has been woken, and `close` waits.
            assert len(nursery.child_tasks) == 1
            assert connection.usable()
        with trio.fail_after(PATIENCE):
            await closed.wait()
        assert connection.closed
        await refused()
    assert pool.statistics().connections == 0
    await pool.aclose()


async def test_closing_does_not_wait_for_ever(bare_url: str) -> None:
    pool = Pool(bare_url, max_size=1)

    async def use() -> None:
        with pytest.raises(psycopg.OperationalError):
            async with pool.connection() as connection:
                await connection.execute("select pg_sleep(60)")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use)
        with trio.fail_after(PATIENCE):
            while not pool.statistics().in_use:
                await trio.sleep(0.01)
        await pool.aclose(timeout=0.05)
    assert pool.statistics().connections == 0


async def test_one_that_is_opened_while_the_pool_closes_is_closed_too(bare_url: str) -> None:
    async with Wire(bare_url) as wire, trio.open_nursery() as nursery:
        pool = Pool(wire.url, max_size=1)

        async def use() -> None:
            with pytest.raises(PoolClosed):
                await pid(pool)

        wire.fall_silent()
        nursery.start_soon(use)
        await trio.testing.wait_all_tasks_blocked()
        assert pool.statistics().opening == 1
        nursery.start_soon(pool.aclose)
        await trio.testing.wait_all_tasks_blocked()
        wire.speak_again()
    now = pool.statistics()
    assert (now.connections, now.opening) == (0, 0)
