"""A database server that moves, hangs or comes back elsewhere."""

import re
import socket
from collections.abc import Iterator

import psycopg
import pytest
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres.driver import hosts
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.lookout import Watch
from adapters.postgres.driver.pool import Pool
from adapters.postgres.failures import translated
from core.domain.errors import Unavailable
from ops.free_ports import free_port
from tests.adapters.postgres.questions import one
from tests.adapters.postgres.wire import Wire
from tests.patience import PATIENCE


@pytest.fixture
def mute() -> Iterator[int]:
    """The port of a host that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def of_two(url: str, first: int, second: int) -> str:
    of_both = {"host": "127.0.0.1,127.0.0.1", "port": f"{first},{second}", "sslmode": "disable", "gssencmode": "disable"}
    return make_conninfo("", **{**conninfo_to_dict(url), **of_both})


async def test_a_silent_host_costs_its_share_of_the_time_and_only_once(database_url: str, mute: int) -> None:
    async with Wire(database_url) as wire:
        url = of_two(wire.url, mute, wire.port)
        pool = Pool(url, timeout=2)
        began = trio.current_time()
        async with pool.connection() as first, pool.connection() as second:
            assert trio.current_time() - began >= 1
            assert await one(first, "select 7") == await one(second, "select 7") == 7
        assert [attempt.timeout for attempt in await hosts.attempts(url, conninfo_to_dict(url), 2)] == [1, 1]
        assert str((await hosts.attempts(url, conninfo_to_dict(url), 2))[0]) == f"127.0.0.1:{wire.port}"
        await pool.aclose()


async def test_a_silent_host_takes_the_last_time_of_one_checkout_only(database_url: str, mute: int) -> None:
    """A checkout that has waited in the queue has less time left than a host's share. If each asked the silent host first, none would ever
    come to the other one.
    """
    async with Wire(database_url) as wire:
        url = make_conninfo(of_two(wire.url, mute, wire.port), connect_timeout=60)
        with trio.move_on_after(1.2) as first:
            await Connection.connect(url, patience=60)
        assert first.cancelled_caught
        with trio.fail_after(PATIENCE):
            async with await Connection.connect(url, patience=60) as connection:
                assert await one(connection, "select 7") == 7


async def test_a_checkout_that_waited_long_still_has_time_to_connect(database_url: str) -> None:
    pool = Pool(database_url, timeout=60)
    member = await pool._take_slowly(trio.current_time())
    assert await one(member.connection, "select 7") == 7
    await pool.give_back(member)
    await pool.aclose()


async def test_of_two_hosts_that_were_silent_the_one_that_let_us_in_later_is_asked_first() -> None:
    url = "host=127.0.0.1,127.0.0.2,127.0.0.3 port=1"
    first, second, third = await hosts.attempts(url, conninfo_to_dict(url), 5)
    first.succeeded()
    second.succeeded()
    for silent in (first, second):
        silent.ended_after(1.5)
    third.ended_after(0.2)
    assert [one.parameters["host"] for one in await hosts.attempts(url, conninfo_to_dict(url), 5)] == [
        "127.0.0.3",
        "127.0.0.2",
        "127.0.0.1",
    ]


async def test_of_several_hosts_only_one_that_takes_writes_is_spoken_to(database_url: str) -> None:
    standby = make_conninfo(database_url, options="-c default_transaction_read_only=on")
    async with Wire(database_url) as wire:
        url = of_two(standby, wire.port, wire.port)
        with pytest.raises(psycopg.OperationalError, match="read-only"):
            await Connection.connect(url)


async def test_each_of_several_hosts_is_told_with_its_own_reason(database_url: str) -> None:
    """One takes no writes, and at the other nobody answers. The API's callers learn neither; the log and the doctor do."""
    standby = make_conninfo(database_url, options="-c default_transaction_read_only=on")
    async with Wire(database_url) as wire:
        nobody = free_port()
        with pytest.raises(Unavailable) as refused, translated():
            await Connection.connect(of_two(standby, wire.port, nobody))
    told = str(refused.value.detail)
    assert f"port {wire.port} failed: session is read-only" in told
    assert re.search(rf"port {nobody} failed: Connection refused", told)


async def test_a_checkout_tries_again_while_the_server_is_replaced(database_url: str) -> None:
    async with Wire(database_url) as wire:
        port = free_port()
        pool = Pool(make_conninfo(wire.url, port=port))

        async def come_back() -> None:
            while pool.statistics().opening < 5:
                await trio.sleep(0.01)
            await wire.listen_also(port)

        answers = []

        async def ask() -> None:
            async with pool.connection() as connection:
                answers.append(await one(connection, "select 7"))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
            nursery.start_soon(come_back)
        assert answers == [7] * 5
        await pool.aclose()


async def test_a_server_that_stays_away_is_not_waited_for_by_each_checkout(database_url: str) -> None:
    tries = 0

    async def hang_up(stream: trio.SocketStream) -> None:
        nonlocal tries
        tries += 1
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, hang_up, 0)
        port = listeners[0].socket.getsockname()[1]
        url = make_conninfo(database_url, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")
        pool = Pool(url, switchover=0.3)

        async def tried() -> int:
            before = tries
            with pytest.raises(psycopg.OperationalError):
                async with pool.connection():
                    pass
            return tries - before

        assert await tried() > 1
        with trio.fail_after(PATIENCE):
            while await tried() > 1:
                pass
        assert await tried() == await tried() == 1
        await pool.aclose()
        nursery.cancel_scope.cancel()


async def test_a_server_that_became_a_standby_is_given_up(database_url: str) -> None:
    pool = Pool(database_url)
    async with pool.connection() as idle, pool.connection() as demoted:
        await demoted.execute("set default_transaction_read_only = on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        async with pool.connection() as taken:
            await taken.execute("set transaction_read_only = on; create table anything ()")
    assert idle.closed
    assert demoted.closed
    assert pool.statistics().connections == 0
    await pool.aclose()


async def test_a_task_that_waits_for_a_hung_server_is_told(database_url: str) -> None:
    async with Wire(database_url) as wire:
        pool = Pool(wire.url)
        watch = Watch(pool, wire.url, long=0.1, patience=0.2)
        told = []
        given_up = 0

        async def ask(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            async with pool.connection() as connection:
                await one(connection, "select 1")
                wire.fall_silent()
                task_status.started()
                with pytest.raises(psycopg.OperationalError) as error:
                    await connection.execute("select 1")
                told.append(error.value)

        async with pool.connection(), pool.connection():
            pass
        async with trio.open_nursery() as nursery:
            await nursery.start(ask)
            with trio.fail_after(PATIENCE):
                while not told:
                    given_up += await watch.look()
                    await trio.sleep(0.01)
        assert pool.statistics().connections == 0
        assert given_up == 1
        wire.speak_again()
        async with pool.connection() as connection:
            assert await one(connection, "select 7") == 7
        await pool.aclose()


async def test_a_statement_that_takes_long_is_left_alone(database_url: str) -> None:
    pool = Pool(database_url)
    watch = Watch(pool, database_url, long=0.01, patience=PATIENCE)
    async with pool.connection() as holder, pool.connection() as waiting, trio.open_nursery() as nursery:
        await holder.execute("select pg_advisory_lock(4711)")
        nursery.start_soon(waiting.execute, "select pg_advisory_lock(4711)")
        with trio.fail_after(PATIENCE):
            while waiting not in pool.waiting_longer(0.01):
                await trio.sleep(0.01)
        await watch.look()
        assert not waiting.closed
        await holder.execute("select pg_advisory_unlock(4711)")
    await pool.aclose()


async def test_a_server_without_room_for_the_question_is_not_given_up(database_url: str) -> None:
    pool = Pool(database_url)
    watch = Watch(pool, make_conninfo(database_url, user="nobody_that_exists"), long=0.01)
    async with pool.connection() as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.execute, "select pg_sleep(0.2)")
        with trio.fail_after(PATIENCE):
            while not pool.waiting_longer(0.01):
                await trio.sleep(0.01)
        await watch.look()
        assert not connection.closed
    await pool.aclose()
