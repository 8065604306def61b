"""Mailboxes: a message only wakes the actor. It waits over a restart, and one message stands for all that follow."""

from collections.abc import Sequence
from datetime import timedelta

import trio
import trio.testing

from actors.foundation import Mailbox
from actors.job_worker import JobWorker, Task, Workplace
from actors.supervisor import Supervisor
from adapters.postgres.jobs import PostgresDoorbell
from core.domain.jobs import Job, Retry
from tests.actors.kept_queue import KeptQueue
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True

RETRY = Retry(first=timedelta(seconds=10), longest=timedelta(minutes=10))


async def test_a_full_mailbox_neither_holds_up_nor_fails_who_posts_and_stands_for_all_that_came() -> None:
    mailbox = Mailbox()
    for _ in range(1000):
        mailbox.post()
    assert await mailbox.wait(1)
    assert not await mailbox.wait(1)


async def test_a_message_wakes_at_once() -> None:
    mailbox, began, woken = Mailbox(), trio.current_time(), list[float]()

    async def receive() -> None:
        assert await mailbox.wait()
        woken.append(trio.current_time() - began)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.sleep(7)
        mailbox.post()
    assert woken == [7]


async def test_a_wait_that_ends_without_a_message_takes_none_along() -> None:
    mailbox = Mailbox()
    assert not await mailbox.wait(1)
    mailbox.post()
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.wait()
    assert scope.cancelled_caught
    assert await mailbox.wait(1)


async def test_a_message_between_two_lives_of_an_actor_is_there_for_the_next_one() -> None:
    """The actor waits before it looks, so nothing but the message can make it look."""

    class Reader:
        name = "reader"

        def __init__(self) -> None:
            self.mailbox = Mailbox()
            self.lives = 0
            self.looked: list[int] = []

        async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
            self.lives += 1
            task_status.started()
            await self.mailbox.wait()
            self.looked.append(self.lives)
            if self.lives == 1:
                raise ValueError("broken")
            await trio.sleep_forever()

    reader, metrics = Reader(), RememberedMetrics()
    async with trio.open_nursery() as nursery:
        await nursery.start(Supervisor([reader], metrics, spread=no_spread).run)
        reader.mailbox.post()
        await trio.testing.wait_all_tasks_blocked()
        assert (reader.lives, reader.looked) == (1, [1])
        reader.mailbox.post()
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert (reader.lives, reader.looked) == (2, [1, 2])


async def test_a_worker_that_dies_finds_what_was_rung_for_meanwhile(log: CapturedLog) -> None:
    class BrokenOnce(KeptQueue):
        broken = True

        async def claim(self, kinds: Sequence[str], limit: int, lease: timedelta) -> Sequence[Job]:
            claimed = await super().claim(kinds, limit, lease)
            if self.broken and self.times("due_in"):
                self.broken = False
                raise ValueError("broken")
            return claimed

    queue, doorbell, metrics, handled = BrokenOnce(), PostgresDoorbell(""), RememberedMetrics(), list[float]()
    worker = worker_for(["work"], queue, doorbell, metrics, handled)
    async with trio.open_nursery() as nursery:
        await nursery.start(Supervisor([worker], metrics, spread=no_spread).run)
        await trio.sleep(3)
        doorbell.ring("work")
        await trio.sleep(0.1)
        assert len(log.events("actor_failed")) == 1
        queue.add("work")
        doorbell.ring("work")
        rung = trio.current_time()
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert [at - rung < 1 for at in handled] == [True]


async def test_the_ring_of_a_commit_and_its_notification_a_little_later_are_answered_by_one_look() -> None:
    queue, doorbell, metrics, handled = KeptQueue(), PostgresDoorbell(""), RememberedMetrics(), list[float]()
    worker = worker_for(["work"], queue, doorbell, metrics, handled)
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(1)
        asked = len(queue.times("claim"))
        queue.add("work")
        doorbell.ring("work")
        await trio.sleep(0.002)
        doorbell.ring("work")
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert len(handled) == 1
    assert len(queue.times("claim")) == asked + 1


async def test_rings_for_one_kind_without_end_leave_another_its_turn_and_are_answered_in_company() -> None:
    queue, doorbell, metrics, handled = KeptQueue(), PostgresDoorbell(""), RememberedMetrics(), list[float]()
    worker = worker_for(["work", "other"], queue, doorbell, metrics, handled)

    async def ring_without_end() -> None:
        for _ in range(1000):
            doorbell.ring("work")
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(1)
        asked = len(queue.times("claim"))
        nursery.start_soon(ring_without_end)
        await trio.sleep(0.5)
        queue.add("other")
        doorbell.ring("other")
        added = trio.current_time()
        await trio.sleep(1)
        asked = len(queue.times("claim")) - asked
        nursery.cancel_scope.cancel()
    assert [at - added < 0.05 for at in handled] == [True]
    # In a second of messages, the actor looks once for all that come within 30 ms.
    assert asked < 40


async def test_rings_while_all_hands_are_full_make_it_ask_only_when_one_is_free() -> None:
    queue, doorbell, metrics, handled = KeptQueue(), PostgresDoorbell(""), RememberedMetrics(), list[float]()
    worker = worker_for(["work", "other"], queue, doorbell, metrics, handled, takes=10)
    for _ in range(4):
        queue.add("work")
    async with trio.open_nursery() as nursery:
        await nursery.start(worker.run)
        await trio.sleep(1)
        asked = len(queue.times("claim"))
        queue.add("other")
        for _ in range(100):
            doorbell.ring("work")
            await trio.sleep(0.01)
        assert len(queue.times("claim")) == asked
        await trio.sleep(8.5)
        nursery.cancel_scope.cancel()
    assert len(handled) == 5
    assert handled[4] - handled[0] == 10


def worker_for(
    kinds: Sequence[str], queue: KeptQueue, doorbell: PostgresDoorbell, metrics: RememberedMetrics, handled: list[float], takes: float = 0
) -> JobWorker:
    async def handle(_job: Job) -> None:
        handled.append(trio.current_time())
        await trio.sleep(takes)

    return JobWorker("worker", [Task(kind, handle, RETRY) for kind in kinds], Workplace(queue, doorbell, queue.clock, metrics, no_spread))
