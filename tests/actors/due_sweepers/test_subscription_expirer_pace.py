"""The subscription expirer over time: its rounds, its pauses, and an outage."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import trio

from actors.foundation import Mailbox
from actors.sweepers import subscription_expirer
from core.domain.errors import Unavailable
from tests.actors.observed import no_doubt, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True
BEGAN = datetime(2026, 11, 20, tzinfo=UTC)


class DueSubscriptions:
    """Stands for the use case and its database: this many subscriptions are due. Each batch takes a tenth of a second."""

    def __init__(self, number: int, *, away_until: float = 0.0) -> None:
        self.left = number
        self.mailbox = Mailbox()
        self.next_at: float | None = None
        self.away_until = away_until
        self.asked: list[tuple[float, datetime | None]] = []

    async def expire_due(self, since: datetime | None, most: int) -> tuple[int, datetime | None]:
        self.asked.append((trio.current_time(), since))
        await trio.sleep(0.1)
        if trio.current_time() < self.away_until:
            raise Unavailable(retry_after=2)
        expired = min(self.left, most)
        self.left -= expired
        return expired, (since or BEGAN) + timedelta(seconds=expired) if expired else since

    async def due_in(self) -> float | None:
        await trio.lowlevel.checkpoint()
        if self.left:
            return -1.0
        return None if self.next_at is None else self.next_at - trio.current_time()


@asynccontextmanager
async def at_work(due: DueSubscriptions, spread: float = 0.0) -> AsyncIterator[None]:
    expirer = subscription_expirer(due, due.mailbox, doubt=no_doubt, spread=lambda: spread, batch=10)  # type: ignore[arg-type]  # all of it that the actor uses
    async with trio.open_nursery() as nursery:
        await nursery.start(expirer.run)
        yield
        nursery.cancel_scope.cancel()


def pauses(due: DueSubscriptions) -> list[float]:
    return [round(later - earlier, 3) for (earlier, _), (later, _) in pairwise(due.asked)]


async def test_batches_follow_at_half_speed_each_from_where_the_last_one_ended(log: CapturedLog) -> None:
    due = DueSubscriptions(25)
    async with at_work(due):
        await trio.sleep(5)
    assert due.left == 0
    # The pause is as long as the batch took.
    assert pauses(due) == [0.2, 0.2]
    assert [since for _, since in due.asked] == [None, BEGAN + timedelta(seconds=10), BEGAN + timedelta(seconds=20)]
    assert [entry["subscriptions"] for entry in log.events("subscriptions_expired")] == [25]


async def test_while_no_period_ends_it_expires_nothing() -> None:
    due = DueSubscriptions(0)
    async with at_work(due):
        await trio.sleep(3600)
    assert len(due.asked) == 1


async def test_what_is_locked_is_tried_again_fifteen_seconds_later_from_the_beginning() -> None:
    class Locked(DueSubscriptions):
        async def expire_due(self, since: datetime | None, most: int) -> tuple[int, datetime | None]:
            await super().expire_due(since, min(most, 0))
            return 0, since

    due = Locked(1)
    async with at_work(due):
        await trio.sleep(100)
    assert pauses(due) == [15.1] * 6
    assert {since for _, since in due.asked} == {None}


async def test_it_wakes_when_a_period_ends_also_one_that_was_made_meanwhile() -> None:
    due = DueSubscriptions(0)
    due.next_at = trio.current_time() + 70
    async with at_work(due):
        await trio.sleep(10)
        due.next_at = ends = trio.current_time() + 20
        due.mailbox.post()
        await trio.sleep(19.9)
        assert all(at < ends for at, _ in due.asked)
        due.left, due.next_at = 1, None
        await trio.sleep(0.3)
        assert due.left == 0


async def test_processes_that_start_together_do_not_look_together() -> None:
    early, late, began = DueSubscriptions(0), DueSubscriptions(0), trio.current_time()
    async with at_work(early, spread=0.1), at_work(late, spread=0.9):
        await trio.sleep(14)
    assert [round(due.asked[0][0] - began, 3) for due in (early, late)] == [1.5, 13.5]


async def test_an_outage_is_waited_out(log: CapturedLog) -> None:
    due = DueSubscriptions(5, away_until=trio.current_time() + 300)
    async with at_work(due):
        await trio.sleep(400)
    assert due.left == 0
    assert len(log.events("actor_waits")) == 1


async def test_a_doubted_clock_expires_nothing_and_a_believed_one_all_of_it() -> None:
    due, doubts = DueSubscriptions(25), ["apart", "unseen", "unseen"]

    async def doubt() -> str | None:
        await trio.lowlevel.checkpoint()
        return doubts.pop() if doubts else None

    expirer = subscription_expirer(due, due.mailbox, doubt=doubt, spread=no_spread, batch=10)  # type: ignore[arg-type]  # all of it that the actor uses
    for _ in range(3):
        assert await expirer.sweep() == 0
    assert due.asked == []
    assert await expirer.sweep() == 25


async def test_many_rings_wake_it_once_in_a_second() -> None:
    due = DueSubscriptions(0)
    async with at_work(due):
        for _ in range(6_000):
            due.mailbox.post()
            await trio.sleep(0.01)
    assert len(due.asked) <= 60
