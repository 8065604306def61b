"""The doorbell: every process hears it, several rings count as one, and a ring only wakes."""

from datetime import timedelta

import trio

from actors.foundation import Mailbox
from adapters.postgres.jobs import PostgresDoorbell, PostgresJobQueue
from core.domain.jobs import Job, NewJob
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
