import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import trio
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres.driver.connection import Connection, TripCounter, round_trips
from tests.adapters.postgres.questions import one, open_descriptors
from tests.adapters.postgres.wire import Wire
from tests.conftest import _fresh
from tests.patience import PATIENCE

IDLE = psycopg.pq.TransactionStatus.IDLE


@pytest.fixture(scope="module")
def bare_url(worker_id: str) -> Iterator[str]:
    """One database for all tests here: what they store is in temporary tables."""
    yield from _fresh(f"bare_driver_{worker_id}", "template0")


async def test_a_select_returns_its_row_and_costs_one_round_trip(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        assert await one(connection, "select %s::int + 1", [41]) == 42
        assert connection.round_trips == 1
        assert connection.usable()


async def test_round_trips_are_summed_over_the_tasks_of_one_context(bare_url: str) -> None:
    counters: list[TripCounter] = []

    async def request(statements: int) -> None:
        counter = TripCounter()
        round_trips.set(counter)
        counters.append(counter)
        async with await Connection.connect(bare_url) as connection, trio.open_nursery() as nursery:
            for _ in range(statements):
                nursery.start_soon(one, connection, "select 1")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(request, 3)
        nursery.start_soon(request, 5)
    assert sorted(counter.count for counter in counters) == [3, 5]


async def test_two_tasks_on_one_connection_get_their_own_answers(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        answers: dict[int, int] = {}

        async def ask(number: int) -> None:
            answers[number] = await one(connection, "select %s::int", [number])

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ask, number)
        assert answers == {number: number for number in range(50)}


async def test_a_statement_larger_than_every_buffer_and_its_answer_pass(bare_url: str) -> None:
    text = "x" * 20_000_000
    async with await Connection.connect(bare_url) as connection:
        assert await one(connection, "select %s::text", [text]) == text


async def test_a_pipeline_of_thousands_of_statements_does_not_choke_on_its_answers(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        async with connection.pipeline() as pipeline:
            cursors = [await connection.execute("select repeat('x', 1000), %s::int", [number]) for number in range(3000)]
            assert len(pipeline.command_queue) < 100  # the rest is under way already
            rows = [await cursor.fetchone() for cursor in cursors]
        assert [row and row[1] for row in rows] == list(range(3000))
        cursor = connection.cursor()
        await cursor.executemany("select %s::int, repeat('x', 1000)", [[number] for number in range(3000)], returning=True)
        assert cursor.rowcount == 1
        assert connection.usable()


async def test_copy_streams_and_notifications_work_as_in_psycopg(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute("create temporary table numbers (number int)")
        async with connection.cursor() as cursor:
            async with cursor.copy("copy numbers from stdin") as copy:
                for number in range(10_000):
                    await copy.write_row([number])
            async with cursor.copy("copy numbers to stdout") as copy:
                assert len([row async for row in copy.rows()]) == 10_000
            assert sum([row[0] async for row in cursor.stream("select number from numbers")]) == 49_995_000
        await connection.execute("listen bell")
        await connection.execute("notify bell, 'ring'")
        assert [notification.payload async for notification in connection.notifies(timeout=PATIENCE, stop_after=1)] == ["ring"]
        assert [notification async for notification in connection.notifies(timeout=0.01)] == []
        assert connection.usable()


async def test_a_transaction_block_commits_nests_and_rolls_back(bare_url: str) -> None:
    async with await Connection.connect(bare_url) as connection:
        await connection.execute("create temporary table numbers (number int primary key)")
        async with connection.transaction():
            await connection.execute("insert into numbers values (1)")
            with pytest.raises(errors.UniqueViolation):
                async with connection.transaction():
                    await connection.execute("insert into numbers values (1)")
            await connection.execute("insert into numbers values (2)")
        assert await one(connection, "select count(*) from numbers") == 2
        async with connection.pipeline(), connection.transaction():
            await connection.execute("insert into numbers values (3)")
        assert await one(connection, "select count(*) from numbers") == 3


async def test_the_first_of_several_hosts_that_answers_is_taken(bare_url: str) -> None:
    parameters = conninfo_to_dict(bare_url)
    parameters["host"] = f"/nonexistent,{parameters['host']}"
    async with await Connection.connect(make_conninfo("", **parameters)) as connection:
        assert await one(connection, "select 1") == 1


async def test_a_host_name_is_resolved_without_blocking_and_each_of_its_addresses_tried(bare_url: str) -> None:
    class Resolver(trio.abc.HostnameResolver):
        async def getaddrinfo(self, host: Any, port: Any, *_hints: int) -> Any:
            assert host == b"database.example"
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, int(port))) for address in ("127.0.0.2", "127.0.0.1")]

        async def getnameinfo(self, *_address: Any) -> tuple[str, str]:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Resolver())
    async with Wire(bare_url) as wire:
        url = make_conninfo(wire.url, host="database.example")
        async with await Connection.connect(url) as connection:
            assert await one(connection, "select 1") == 1


async def test_a_server_that_is_not_there_is_told_at_once(bare_url: str) -> None:
    before = open_descriptors()
    with pytest.raises(psycopg.OperationalError, match="No such file"):
        await Connection.connect(make_conninfo(bare_url, host="/nonexistent"))
    with pytest.raises(psycopg.OperationalError, match=r"(?s)no server could be reached.*nonexistent.*nowhere"):
        await Connection.connect(make_conninfo(bare_url, host="/nonexistent,/nowhere"))
    with pytest.raises(psycopg.OperationalError, match='"nobody"'):
        await Connection.connect(make_conninfo(bare_url, user="nobody"))
    assert open_descriptors() == before


async def test_a_server_that_never_answers_is_given_up_in_time(autojump_clock: trio.testing.MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    listener = socket.create_server(("127.0.0.1", 0))
    before = open_descriptors()
    with listener, pytest.raises(errors.ConnectionTimeout, match=r"127\.0\.0\.1.* within 7 s"):
        await Connection.connect(f"host=127.0.0.1 port={listener.getsockname()[1]} connect_timeout=7")
    assert trio.current_time() == pytest.approx(7, abs=0.1)
    assert open_descriptors() == before - 1  # the listener's own


async def test_connections_have_bounds_for_connecting_and_for_a_network_that_vanished(bare_url: str) -> None:
    async with Wire(bare_url) as wire, await Connection.connect(wire.url) as connection:
        parameters = connection.info.get_parameters()
        assert (parameters["connect_timeout"], parameters["keepalives_idle"], parameters["tcp_user_timeout"]) == ("10", "30", "45000")
    async with Wire(bare_url) as wire, await Connection.connect(make_conninfo(wire.url, keepalives_idle=7)) as connection:
        assert connection.info.get_parameters()["keepalives_idle"] == "7"


async def test_closing_wakes_the_task_that_waits(bare_url: str) -> None:
    connection = await Connection.connect(bare_url)
    async with trio.open_nursery() as nursery:

        async def query() -> None:
            with pytest.raises(psycopg.OperationalError, match="closed while a task waited"):
                await connection.execute("select pg_sleep(60)")

        nursery.start_soon(query)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await connection.close()
    assert connection.closed


async def test_opening_and_closing_leaves_no_descriptor_behind(bare_url: str) -> None:
    before = open_descriptors()
    for _ in range(10):
        async with await Connection.connect(bare_url) as connection:
            await one(connection, "select 1")
    assert open_descriptors() == before
