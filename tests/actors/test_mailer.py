"""The mailer, from the queue in PostgreSQL to a mail server on loopback."""

from datetime import timedelta

import pytest
import trio

from actors.job_worker import JobPace, Workplace
from actors.mailers import MAIL_RETRY, mailer
from adapters.mail.transports import transport_for
from adapters.postgres.jobs import PostgresJobQueue
from core.domain.identifiers import JobId
from core.domain.jobs import NewJob
from core.domain.mail import MAIL_JOB, Mail
from ops.free_ports import free_port
from ops.stand_ins.mail_server import MailServer, mail_server
from tests.actors.observed import RememberedMetrics, no_spread
from tests.adapters.postgres.conftest import Rows, Store
from tests.conftest import CapturedLog
from tests.patience import PATIENCE

LINK = "https://id.example.org/reset?token=very-secret-token"
MAIL = Mail("alice@example.org", "Reset your password", f"Follow {LINK}\n", f"<p>{LINK}</p>\n")


async def queue_mail(store: Store, mail: Mail = MAIL) -> JobId:
    async with store.unit_of_work() as uow:
        id = await uow.jobs.add(mail.as_job())  # noqa: A001 - the noun's own word
        await uow.commit()
    return id


async def jobs(store: Store) -> Rows:
    return await store.query("select state, attempts, last_error, run_at - now() as pause from jobs")


async def settled(store: Store, *, left: int) -> Rows:
    """The jobs, once each remaining job has been tried."""
    with trio.fail_after(PATIENCE):
        while True:
            rows = await jobs(store)
            if len(rows) == left and all(row["last_error"] for row in rows):
                return rows
            await trio.sleep(0.02)


async def work(store: Store, server: MailServer, nursery: trio.Nursery) -> None:
    actor = mailer(
        transport_for(server.url(), "Postern <no-reply@id.example.org>", clock=store.clock),
        Workplace(PostgresJobQueue(store.pool, store.keyring), store.doorbell, store.clock, RememberedMetrics(), no_spread),
        pace=JobPace(poll=timedelta(seconds=1)),
    )
    await nursery.start(actor.run)


@pytest.fixture(autouse=True)
def secrets_stay_out_of_the_log(log: CapturedLog) -> None:
    log.remember("alice@example.org", LINK, "very-secret-token")


async def test_queued_mail_is_sent_under_the_jobs_id(store: Store) -> None:
    with mail_server() as server:
        async with trio.open_nursery() as nursery:
            await work(store, server, nursery)
            id = await queue_mail(store)  # noqa: A001 - the noun's own word
            [received] = await server.wait_for(1)
            await settled(store, left=0)
            nursery.cancel_scope.cancel()
    assert received.recipients == ["alice@example.org"]
    assert received.message["Message-ID"] == f"<{id}@id.example.org>"
    assert received.part("plain") == MAIL.text


async def test_a_refused_mail_dies_and_says_why_without_its_text(store: Store, log: CapturedLog) -> None:
    with mail_server() as server:
        server.answer("RCPT", f"550 5.1.1 <alice@example.org> unknown, see {LINK}")
        async with trio.open_nursery() as nursery:
            await work(store, server, nursery)
            await queue_mail(store)
            [row] = await settled(store, left=1)
            nursery.cancel_scope.cancel()
    assert (row["state"], row["attempts"], row["last_error"]) == ("dead", 1, "The mail server answered 550 5.1.1 to RCPT")
    assert len(log.events("job_died")) == 1


async def test_a_mail_server_that_is_away_delays_and_loses_nothing(store: Store) -> None:
    # The kernel may give a port of its own choice to somebody else meanwhile.
    with mail_server(port=free_port()) as server:
        port = server.port
    async with trio.open_nursery() as nursery:
        await work(store, server, nursery)
        ids = {await queue_mail(store) for _ in range(3)}
        rows = await settled(store, left=3)
        assert {row["state"] for row in rows} == {"waiting"}
        assert all(timedelta(seconds=25) < row["pause"] <= timedelta(seconds=30) for row in rows)
        with mail_server(port=port) as back:
            # As if the pause were over.
            await store.query("update jobs set run_at = now()")
            store.doorbell.ring(MAIL_JOB)
            received = await back.wait_for(3)
            await settled(store, left=0)
        nursery.cancel_scope.cancel()
    assert {one.message["Message-ID"] for one in received} == {f"<{id}@id.example.org>" for id in ids}  # noqa: A001 - the noun's own word


async def test_a_server_that_takes_the_mail_but_dies_before_saying_so_gets_it_again_under_the_same_id(store: Store) -> None:
    with mail_server() as server:
        server.answer("MESSAGE", "drop", times=1)
        async with trio.open_nursery() as nursery:
            await work(store, server, nursery)
            await queue_mail(store)
            await settled(store, left=1)
            await store.query("update jobs set run_at = now()")
            store.doorbell.ring(MAIL_JOB)
            first, second = await server.wait_for(2)
            await settled(store, left=0)
            nursery.cancel_scope.cancel()
    assert first.message["Message-ID"] == second.message["Message-ID"]


async def test_the_mail_in_hand_is_sent_before_the_mailer_stops(store: Store) -> None:
    with mail_server() as server:
        server.delay("DATA", 0.5)
        async with trio.open_nursery() as nursery:
            await work(store, server, nursery)
            await queue_mail(store)
            with trio.fail_after(PATIENCE):
                while "DATA" not in server.commands:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert len(server.received) == 1
    assert await jobs(store) == []


async def test_a_payload_that_is_no_mail_dies(store: Store) -> None:
    with mail_server() as server:
        async with trio.open_nursery() as nursery:
            await work(store, server, nursery)
            async with store.unit_of_work() as uow:
                await uow.jobs.add(NewJob(MAIL_JOB, {"to": ["alice@example.org"]}))
                await uow.commit()
            [row] = await settled(store, left=1)
            nursery.cancel_scope.cancel()
    assert (row["state"], row["last_error"]) == ("dead", "The payload is not a mail")


def test_mail_is_tried_for_a_day_after_growing_pauses() -> None:
    assert [MAIL_RETRY.pause(attempts, 0).total_seconds() for attempts in range(1, 10)] == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert MAIL_RETRY.give_up_after == timedelta(days=1)
