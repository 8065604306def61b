"""The doorbell: every process hears it, several rings count as one, and a ring only wakes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import trio

from actors.foundation import Mailbox
from adapters.postgres import jobs, statements
from adapters.postgres.backups.restored import release
from adapters.postgres.jobs import HEARD_EVERY, PostgresDoorbell, PostgresJobQueue
from adapters.postgres.statements import Transaction
from adapters.postgres.unit_of_work import unit_of_work
from core.domain.errors import OutcomeUnknown, Unavailable
from core.domain.jobs import Job, NewJob
from core.domain.record.audit import AUDIT_TOPIC
from core.domain.record.events import SYSTEM, Event, Target
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE


def test_a_ring_reaches_every_mailbox_of_its_topic_and_no_other() -> None:
    doorbell = PostgresDoorbell("")
    mail, mail_too, webhook, both = (
        Mailbox.rung_by(doorbell, *topics) for topics in (["mail"], ["mail"], ["webhook"], ["mail", "webhook"])
    )
    doorbell.ring("nobody's")
    doorbell.ring("mail")
    assert [box.is_full() for box in (mail, mail_too, webhook, both)] == [True, True, False, True]
    both.empty()
    doorbell.ring("webhook")
    assert webhook.is_full()
    assert both.is_full()


async def test_a_job_rings_in_the_other_processes_when_it_is_committed(store: Store) -> None:
    other = PostgresDoorbell(store.url)
    mail, webhook = Mailbox.rung_by(other, "mail"), Mailbox.rung_by(other, "webhook")
    async with trio.open_nursery() as nursery:
        await nursery.start(other.run)
        # The listener has just connected, and rings for everything.
        assert await mail.wait(PATIENCE)
        assert await webhook.wait(PATIENCE)
        async with store.unit_of_work() as uow:
            await uow.jobs.add(NewJob("mail", {}))
            await uow.jobs.add(NewJob("mail", {}))
            await uow.platform_owners.exist()
            assert not await mail.wait(0.05)
            await uow.commit()
        assert await mail.wait(PATIENCE)
        # Two jobs of one transaction are one notification, and another topic is not rung.
        assert not await mail.wait(0.05)
        assert not await webhook.wait(0.05)
        nursery.cancel_scope.cancel()


async def test_a_job_that_is_rolled_back_rings_nobody(store: Store) -> None:
    other = PostgresDoorbell(store.url)
    mail = Mailbox.rung_by(other, "mail")
    async with trio.open_nursery() as nursery:
        await nursery.start(other.run)
        assert await mail.wait(PATIENCE)
        async with store.unit_of_work() as uow:
            await uow.jobs.add(NewJob("mail", {}))
            await uow.platform_owners.exist()
        assert not await mail.wait(0.05)
        nursery.cancel_scope.cancel()


async def test_after_a_lost_connection_everybody_looks_for_work(store: Store) -> None:
    other = PostgresDoorbell(store.url)
    mail, webhook = Mailbox.rung_by(other, "mail"), Mailbox.rung_by(other, "webhook")
    queue = PostgresJobQueue(store.pool, store.keyring)
    found: list[Job] = []

    async def work() -> None:
        while not found:
            await mail.wait()
            found.extend(await queue.claim(["mail"], 1, timedelta(minutes=1)))

    async with trio.open_nursery() as nursery:
        await nursery.start(other.run)
        nursery.start_soon(work)
        await trio.sleep(0.05)
        webhook.empty()
        await store.kill_backends("postern listener")
        async with store.unit_of_work() as uow:
            await uow.jobs.add(NewJob("mail", {}))
            await uow.commit()
        with trio.fail_after(PATIENCE):
            while not found:
                await trio.sleep(0.02)
            await webhook.wait()
        nursery.cancel_scope.cancel()


class OtherProcess:
    """What another process hears of a topic, with the times."""

    def __init__(self, store: Store, *topics: str) -> None:
        self.at: list[float] = []
        self.doorbell = PostgresDoorbell(store.url)
        self.doorbell.connect(lambda: self.at.append(trio.current_time()), *topics)

    async def count(self, number: int) -> None:
        with trio.fail_after(PATIENCE):
            while len(self.at) < number:
                await trio.sleep(0.01)


@asynccontextmanager
async def two_processes(store: Store, *topics: str) -> AsyncIterator[tuple[Store, OtherProcess]]:
    """The first serves, and its doorbell tells the other process, which listens."""
    serving, other = PostgresDoorbell(store.url, store.pool), OtherProcess(store, *topics)
    first = replace(store, doorbell=serving, unit_of_work=unit_of_work(store.pool, store.ids, store.clock, store.keyring, serving))
    async with trio.open_nursery() as nursery:
        await nursery.start(other.doorbell.run)
        await nursery.start(serving.run)
        await other.count(len(topics))
        other.at.clear()
        yield first, other
        nursery.cancel_scope.cancel()


async def queue_mail(store: Store) -> None:
    async with store.unit_of_work() as uow:
        await uow.jobs.add(NewJob("mail", {}))
        await uow.commit()


async def test_a_crowd_of_commits_rings_in_the_other_processes_five_times_a_second(store: Store) -> None:
    """A commit that notifies waits for every other one that does, so no commit does."""
    async with two_processes(store, "mail") as (serving, other):
        began = trio.current_time()
        for _ in range(40):
            await queue_mail(serving)
        took = trio.current_time() - began
        await trio.sleep(2 * HEARD_EVERY)
        # The first is told at once, and the last is told of.
        assert 1 <= len(other.at) <= 2 + took / HEARD_EVERY
        told = len(other.at)
        await queue_mail(serving)
        await other.count(told + 1)


async def test_what_was_rung_for_last_is_told_also_by_a_process_that_ends(store: Store) -> None:
    other = OtherProcess(store, "mail")
    async with trio.open_nursery() as nursery:
        await nursery.start(other.doorbell.run)
        await other.count(1)
        async with trio.open_nursery() as serving:
            doorbell = PostgresDoorbell(store.url, store.pool)
            await serving.start(doorbell.run)
            doorbell.ring("mail")
            serving.cancel_scope.cancel()
        await other.count(2)
        nursery.cancel_scope.cancel()


async def test_a_ring_that_the_database_did_not_take_is_told_when_it_is_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    really, refused = statements.tell, trio.Event()

    async def away(*arguments: Any) -> int:
        if not refused.is_set():
            refused.set()
            raise Unavailable(retry_after=1, detail="gone")
        return await really(*arguments)

    monkeypatch.setattr(jobs, "tell", away)
    async with two_processes(store, "mail") as (serving, other):
        serving.doorbell.ring("mail")
        with trio.fail_after(PATIENCE):
            await refused.wait()
        assert other.at == []
        await other.count(1)


async def test_a_commit_of_which_nobody_knows_whether_it_took_place_rings(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    mail = Mailbox.rung_by(store.doorbell, "mail")
    commit = Transaction.commit

    async def unknown(transaction: Transaction, *, notifies: bool = True) -> None:
        await commit(transaction, notifies=notifies)
        raise OutcomeUnknown(retry_after=1)

    monkeypatch.setattr(Transaction, "commit", unknown)
    with pytest.raises(OutcomeUnknown):
        await queue_mail(store)
    assert mail.is_full()


async def record(store: Store) -> None:
    async with store.unit_of_work() as uow:
        await uow.record(Event("user.signup.success", SYSTEM, Target("user", str(store.ids.new()))))
        await uow.commit()


async def test_entries_of_the_log_ring_in_the_process_that_wrote_them(store: Store) -> None:
    async with two_processes(store, AUDIT_TOPIC) as (serving, other):
        mine = Mailbox.rung_by(serving.doorbell, AUDIT_TOPIC)
        await record(serving)
        assert mine.is_full()
        await trio.sleep(2 * HEARD_EVERY)
        assert other.at == []


async def test_entries_of_a_command_ring_in_the_processes_that_serve(store: Store) -> None:
    other = OtherProcess(store, AUDIT_TOPIC)
    async with trio.open_nursery() as nursery:
        await nursery.start(other.doorbell.run)
        await other.count(1)
        await record(store)
        await other.count(2)
        nursery.cancel_scope.cancel()


async def test_a_process_whose_actors_have_ended_rings_for_everything_in_the_others(store: Store) -> None:
    async with two_processes(store, AUDIT_TOPIC) as (serving, other):
        heard = len(other.at)
        serving.doorbell.ring_in_others()
        await other.count(heard + 1)


async def test_work_that_a_command_lets_go_rings_for_everything(store: Store) -> None:
    other = OtherProcess(store, "mail")
    async with trio.open_nursery() as nursery:
        await nursery.start(other.doorbell.run)
        await other.count(1)
        await release(store.url, [])
        await other.count(2)
        nursery.cancel_scope.cancel()
