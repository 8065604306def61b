"""The doorbell: heard in every process, remembered as one, and never the truth."""

from datetime import timedelta

import trio
import trio.testing

from adapters.postgres.doorbell import PostgresDoorbell
from adapters.postgres.jobs import PostgresJobQueue
from core.domain.jobs import Job, NewJob
from tests.adapters.postgres.conftest import Store
from tests.patience import PATIENCE


async def heard(doorbell: PostgresDoorbell, topic: str, within: float = 0.0) -> bool:
    with trio.move_on_after(within):
        await doorbell.wait(topic)
        return True
    return False


async def test_a_ring_wakes_everybody_who_waits_for_its_topic_and_nobody_else() -> None:
    doorbell = PostgresDoorbell("")
    woken: list[str] = []

    async def wait(topic: str) -> None:
        await doorbell.wait(topic)
        woken.append(topic)

    async with trio.open_nursery() as nursery:
        for topic in ("mail", "mail", "webhook"):
            nursery.start_soon(wait, topic)
        await trio.testing.wait_all_tasks_blocked()
        doorbell.ring("mail")
        await trio.testing.wait_all_tasks_blocked()
        assert woken == ["mail", "mail"]
        doorbell.ring("webhook")


async def test_rings_that_nobody_waits_for_are_remembered_as_one(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001 - waits in no time
    doorbell = PostgresDoorbell("")
    for _ in range(3):
        doorbell.ring("mail")
    assert not await heard(doorbell, "webhook", 1)
    assert await heard(doorbell, "mail", 1)
    assert not await heard(doorbell, "mail", 1)


async def test_who_stops_waiting_takes_no_ring_along(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001 - waits in no time
    doorbell = PostgresDoorbell("")
    assert not await heard(doorbell, "mail", 1)
    doorbell.ring("mail")
    assert await heard(doorbell, "mail", 1)


async def test_who_is_cancelled_before_waiting_leaves_the_ring_to_the_next(autojump_clock: trio.testing.MockClock) -> None:  # noqa: ARG001 - waits in no time
    doorbell = PostgresDoorbell("")
    doorbell.ring("mail")
    with trio.CancelScope() as scope:
        scope.cancel()
        await doorbell.wait("mail")
    assert scope.cancelled_caught
    assert await heard(doorbell, "mail", 1)


async def settle(doorbell: PostgresDoorbell, *topics: str) -> None:
    """Hear out what the connection of the listener rang."""
    for topic in topics:
        await heard(doorbell, topic, 0.05)


async def test_a_job_rings_in_the_other_processes_when_it_is_committed(store: Store) -> None:
    other = PostgresDoorbell(store.url)
    async with trio.open_nursery() as nursery:
        await nursery.start(other.run)
        await settle(other, "mail", "webhook")
        async with store.unit_of_work() as uow:
            await uow.jobs.add(NewJob("mail", {}))
            await uow.jobs.add(NewJob("mail", {}))
            await uow.platform_owners.exist()
            assert not await heard(other, "mail", 0.05)
            await uow.commit()
        assert await heard(other, "mail", 2)
        # Two jobs of one transaction are one notification, and another topic is not rung.
        assert not await heard(other, "mail", 0.05)
        assert not await heard(other, "webhook", 0.05)
        nursery.cancel_scope.cancel()


async def test_a_job_that_is_rolled_back_rings_nobody(store: Store) -> None:
    other = PostgresDoorbell(store.url)
    async with trio.open_nursery() as nursery:
        await nursery.start(other.run)
        await settle(other, "mail")
        async with store.unit_of_work() as uow:
            await uow.jobs.add(NewJob("mail", {}))
            await uow.platform_owners.exist()
        assert not await heard(other, "mail", 0.05)
        nursery.cancel_scope.cancel()


async def test_after_a_lost_connection_everybody_looks_for_work(store: Store) -> None:
    other = PostgresDoorbell(store.url)
    queue = PostgresJobQueue(store.pool, store.keyring)
    found: list[Job] = []

    async def work() -> None:
        while not found:
            await other.wait("mail")
            found.extend(await queue.claim(["mail"], 1, timedelta(minutes=1)))

    async with trio.open_nursery() as nursery:
        await nursery.start(other.run)
        nursery.start_soon(work)
        await trio.sleep(0.05)
        await store.kill_backends("postern listener")
        async with store.unit_of_work() as uow:
            await uow.jobs.add(NewJob("mail", {}))
            await uow.commit()
        with trio.fail_after(PATIENCE):
            while not found:
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
