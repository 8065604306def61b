"""One use case, one transaction: all or nothing, in few round trips, even when the client or the server fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import psycopg
import pytest
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres.driver.connection import TripCounter, round_trips
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import TransactionOver
from core.domain.errors import Conflict, NotFound, Overloaded, Unavailable
from core.domain.jobs import NewJob
from core.domain.mail import Email
from core.domain.record.events import SYSTEM, Event, Target
from tests.adapters.postgres.conftest import Store, make_store
from tests.adapters.postgres.wire import open_server
from tests.patience import PATIENCE


def registered(store: Store) -> Event:
    return Event("user.signup.success", SYSTEM, Target("user", str(store.ids.new())))


async def test_what_is_committed_stands(store: Store) -> None:
    account = store.account()
    async with store.unit_of_work() as uow:
        assert await uow.accounts.add(account, "hash")
        await uow.sessions.add(store.session(account))
        await uow.record(registered(store))
        await uow.jobs.add(NewJob("mail", {"to": "ada"}))
        await uow.commit()
    assert [await store.count(table) for table in ("users", "sessions", "events", "audit_entries", "jobs")] == [1, 1, 1, 1, 1]


async def test_leaving_without_a_commit_rolls_back(store: Store) -> None:
    async with store.unit_of_work() as uow:
        assert await uow.accounts.add(store.account(), None)
        await uow.record(registered(store))
    assert await store.count("users") == await store.count("events") == 0


async def test_an_exception_rolls_back_and_stays_what_it_is(store: Store) -> None:
    async def use_case() -> None:
        async with store.unit_of_work() as uow:
            assert await uow.accounts.add(store.account(), None)
            raise NotFound

    with pytest.raises(NotFound):
        await use_case()
    assert await store.count("users") == 0
    assert store.pool.statistics().idle == 1


async def test_one_read_and_three_writes_are_two_round_trips(store: Store) -> None:
    account = store.account()
    async with store.unit_of_work() as uow:  # the connection prepares nothing in advance: the first time costs no more
        round_trips.set(trips := TripCounter())
        assert await uow.accounts.add(account, None)
        await uow.sessions.add(store.session(account))
        await uow.sessions.add(store.session(account))
        await uow.jobs.add(NewJob("mail", {}))
        await uow.commit()
    assert trips.count == 2


async def test_writes_alone_are_one_round_trip(store: Store) -> None:
    account, _ = await store.sign_up()
    round_trips.set(trips := TripCounter())
    async with store.unit_of_work() as uow:
        await uow.sessions.add(store.session(account))
        await uow.record(registered(store))
        await uow.jobs.add(NewJob("mail", {}))
        await uow.commit()
    assert trips.count == 1


async def test_a_unit_of_work_that_did_nothing_costs_nothing(store: Store) -> None:
    round_trips.set(trips := TripCounter())
    async with store.unit_of_work():
        pass
    async with store.unit_of_work() as uow:
        await uow.commit()
    assert trips.count == 0


async def test_after_the_commit_it_takes_nothing_more(store: Store) -> None:
    account = store.account()
    async with store.unit_of_work() as uow:
        await uow.accounts.add(account, None)
        await uow.commit()
        with pytest.raises(TransactionOver):
            await uow.accounts.add(store.account("bob@example.org"), None)
        with pytest.raises(TransactionOver):
            await uow.sessions.add(store.session(account))
        with pytest.raises(TransactionOver):
            await uow.commit()
    assert await store.count("users") == 1


async def test_after_its_block_it_takes_nothing_more(store: Store) -> None:
    async with store.unit_of_work() as uow:
        pass
    with pytest.raises(TransactionOver):
        await uow.platform_owners.exist()


async def test_a_write_that_fails_is_noticed_at_the_commit_and_nothing_of_it_stays(store: Store) -> None:
    async with store.unit_of_work() as uow:
        await uow.accounts.add(store.account(), None)
        await uow.sessions.add(store.session(store.account("bob@example.org")))
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            await uow.commit()
    assert await store.count("users") == 0
    await store.sign_up()


async def test_a_write_that_fails_is_noticed_at_the_next_question_at_the_latest(store: Store) -> None:
    async with store.unit_of_work() as uow:
        await uow.sessions.add(store.session(store.account()))
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            await uow.platform_owners.exist()
        # Going on regardless does not commit half of it.
        with pytest.raises(psycopg.Error):
            await uow.commit()
    assert await store.count("sessions") == 0


async def test_a_backend_killed_in_the_middle_leaves_nothing_half_made(store: Store) -> None:
    async with store.unit_of_work() as uow:
        assert await uow.accounts.add(store.account(), None)
        await store.kill_backends()
        await uow.record(registered(store))
        with pytest.raises(Unavailable) as refusal:
            await uow.commit()
    assert refusal.value.retry_after == 2
    assert await store.count("users") == await store.count("events") == 0
    await store.sign_up()


async def test_a_backend_killed_before_a_question_is_unavailable_too(store: Store) -> None:
    async with store.unit_of_work() as uow:
        assert await uow.accounts.add(store.account(), None)
        await store.kill_backends()
        with pytest.raises(Unavailable):
            await uow.platform_owners.exist()
    assert await store.count("users") == 0


async def test_the_handler_that_is_cancelled_rolls_back_and_gives_the_connection_back(store: Store) -> None:
    with trio.CancelScope() as handler:
        async with store.unit_of_work() as uow:
            assert await uow.accounts.add(store.account(), None)
            handler.cancel()
            await trio.sleep_forever()
    assert await store.count("users") == 0
    assert store.pool.statistics().idle == store.pool.statistics().connections == 1


async def test_a_commit_goes_through_although_the_client_hangs_up(store: Store) -> None:
    with trio.CancelScope() as handler:
        async with store.unit_of_work() as uow:
            assert await uow.accounts.add(store.account(), None)
            handler.cancel()
            await uow.commit()
        await trio.lowlevel.checkpoint()
    assert handler.cancelled_caught
    assert await store.count("users") == 1


async def test_no_connection_in_time_is_overload(database_url: str) -> None:
    pool = Pool(database_url, max_size=1, timeout=0.05)
    store = make_store(database_url, pool)
    while not pool.statistics().idle:
        # A connection may take longer than that to open. Once there is one, the next one to ask has it at once.
        with suppress(Unavailable):
            async with store.unit_of_work():
                pass
    async with store.unit_of_work():
        with pytest.raises(Overloaded) as refusal:
            async with store.unit_of_work():
                pass
    assert refusal.value.retry_after == 1
    await pool.aclose()
    with pytest.raises(Unavailable):
        async with store.unit_of_work():
            pass


async def test_a_database_that_is_away_is_unavailable() -> None:
    pool = Pool("host=127.0.0.1 port=1 dbname=nowhere")
    with pytest.raises(Unavailable):
        async with make_store("", pool).unit_of_work():
            pass
    await pool.aclose()


async def test_of_two_that_deadlock_one_is_told_to_come_again(database_url: str) -> None:
    pool = Pool(make_conninfo(database_url, options="-c deadlock_timeout=20ms"))
    store = make_store(database_url, pool)
    ada, bob = Email("ada@example.org"), Email("bob@example.org")
    for email in (ada, bob):
        await store.sign_up(email.address)
    await store.query("update users set email_verified_at = now()")
    met, both = trio.Event(), trio.Event()
    refused: list[Unavailable] = []

    async def promote(first: Email, second: Email) -> None:
        try:
            async with store.unit_of_work() as uow:
                await uow.platform_owners.promote(first)
                if met.is_set():
                    both.set()
                met.set()
                await both.wait()
                await uow.platform_owners.promote(second)
                await uow.commit()
        except Unavailable as refusal:
            refused.append(refusal)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(promote, ada, bob)
        nursery.start_soon(promote, bob, ada)
    assert [refusal.detail for refusal in refused] == ["deadlock detected"]
    assert await store.query("select count(*) as n from users where is_platform_owner") == [{"n": 2}]
    await pool.aclose()


async def test_a_conflict_that_the_use_case_sees_rolls_back(store: Store) -> None:
    await store.sign_up()

    async def register() -> None:
        async with store.unit_of_work() as uow:
            await uow.jobs.add(NewJob("mail", {}))
            if not await uow.accounts.add(store.account(), None):
                raise Conflict

    with pytest.raises(Conflict):
        await register()
    assert await store.count("jobs") == 0


@asynccontextmanager
async def cut_off_at_commit(url: str) -> AsyncIterator[str]:
    """A way to the server on which the answer to COMMIT, and all that follows, gets lost. Yields its connection string."""

    async def serve(client: trio.SocketStream) -> None:
        server = await open_server(conninfo_to_dict(url))
        async with server, trio.open_nursery() as nursery:
            committing = False

            async def answer() -> None:
                async for data in server:
                    if committing:
                        break
                    await client.send_all(data)
                await client.aclose()

            nursery.start_soon(answer)
            async for data in client:
                committing = committing or b"COMMIT" in data
                await server.send_all(data)

    async def serve_or_break(client: trio.SocketStream) -> None:
        try:
            await serve(client)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(lambda task_status: trio.serve_tcp(serve_or_break, 0, host="127.0.0.1", task_status=task_status))
        port = listeners[0].socket.getsockname()[1]
        yield make_conninfo(url, host="127.0.0.1", port=port, sslmode="disable")
        nursery.cancel_scope.cancel()


async def test_a_commit_whose_answer_is_lost_is_unavailable_though_it_took_place(database_url: str) -> None:
    async with cut_off_at_commit(database_url) as url:
        pool = Pool(url)
        store = make_store(database_url, pool)
        async with store.unit_of_work() as uow:
            await uow.accounts.add(store.account(), None)
            with trio.fail_after(PATIENCE), pytest.raises(Unavailable):
                await uow.commit()
        assert await store.count("users") == 1
        await pool.aclose()


async def test_the_doorbell_rings_in_this_process_at_the_commit_and_not_before(store: Store) -> None:
    rung: list[float] = []
    store.doorbell.connect(lambda: rung.append(trio.current_time()), "mail")
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob("mail", {}))
        await uow.platform_owners.exist()
        await trio.sleep(0.02)
        assert rung == []
        await uow.commit()
    assert rung


async def test_a_job_for_later_rings_too(store: Store) -> None:
    """Whoever waits must know until when."""
    rung: list[float] = []
    store.doorbell.connect(lambda: rung.append(trio.current_time()), "mail")
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob("mail", {}, run_at=store.clock.now() + timedelta(hours=1)))
        await uow.commit()
    assert rung
