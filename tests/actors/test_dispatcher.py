"""The dispatcher over made-up receivers: the order in which receivers get slots, and the effect of one receiver's failure on the others."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Any, cast
from uuid import uuid4

import pytest
import trio

from actors.dispatcher import SLOTS, SLOTS_OF_FAILING, SLOTS_OF_ONE, DeliveryDispatcher
from actors.foundation import Mailbox
from core.domain.errors import Unavailable
from core.domain.identifiers import OrganizationId
from core.domain.record.deliveries import LEASE, DeliveryOutcome, DueDelivery
from tests.actors.observed import RememberedMetrics, no_spread
from tests.conftest import CapturedLog

ON_A_JUMPING_CLOCK = True
# From which all deliveries follow.
REQUEST = uuid4()


@dataclass(eq=False)
class To:
    """A receiver. `takes`: the seconds of an attempt. `raises`: the exception of a step, by the step's name."""

    organization: OrganizationId
    due: int = 1
    takes: float = 0.0
    is_failing: bool = False
    refuses: bool = False
    raises: dict[str, Exception] = field(default_factory=dict)
    rest: timedelta | None = None
    until: float = 0.0
    leased: bool = False
    outcomes: list[DeliveryOutcome] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)

    def step(self, name: str) -> None:
        if name in self.raises:
            raise self.raises[name]


class DeliveryQueue:
    """Shares slots out as the database does: an organization gets fewer the more it has, and nobody gets a second before all have one."""

    def __init__(self, *receivers: To) -> None:
        self.receivers = list(receivers)
        self.at_once: Counter[OrganizationId] = Counter()
        self.most_at_once: Counter[OrganizationId] = Counter()
        self.most = 0
        self.claims = self.asked = 0

    async def claim(self, limit: int, *, failing: bool, busy: Sequence[OrganizationId]) -> Sequence[To]:
        await trio.lowlevel.checkpoint()
        self.claims += 1
        held = Counter(busy)
        places: Counter[OrganizationId] = Counter()
        ready: list[tuple[int, To]] = []
        for one in self.receivers:
            if one.due and not one.leased and one.until <= trio.current_time() and one.is_failing == failing:
                places[one.organization] += 1
                if places[one.organization] <= limit - (held[one.organization] + 1) // 2:
                    ready.append((places[one.organization] + held[one.organization], one))
        claimed = [one for _, one in islice(sorted(ready, key=lambda each: each[0]), limit)]
        for one in claimed:
            one.leased = True
        # The claims go to the receivers in turn.
        self.receivers = [one for one in self.receivers if one not in claimed] + list(claimed)
        return claimed

    async def due_in(self) -> float | None:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        now = trio.current_time()
        return min((LEASE.total_seconds() if one.leased else one.until - now for one in self.receivers if one.due), default=None)

    async def due(self, receiver: To) -> Sequence[DueDelivery]:
        await trio.lowlevel.checkpoint()
        receiver.step("due")
        return [DueDelivery(id=uuid4(), attempts=0, request=REQUEST) for _ in range(min(receiver.due, 16))]

    async def attempt(self, receiver: To, due: DueDelivery, _elapsed: Callable[[], float]) -> DeliveryOutcome:
        receiver.begun.append(trio.current_time())
        receiver.step("attempt")
        self.at_once[receiver.organization] += 1
        self.most_at_once |= self.at_once
        self.most = max(self.most, self.at_once.total())
        try:
            await trio.sleep(receiver.takes)
        finally:
            self.at_once[receiver.organization] -= 1
        return DeliveryOutcome(due.id, 0, delivered=not receiver.refuses)

    def broken(self, due: DueDelivery, _elapsed: Callable[[], float]) -> DeliveryOutcome:
        return DeliveryOutcome(due.id, 0, delivered=False, error="internal_error")

    async def settle(self, receiver: To, outcomes: Sequence[DeliveryOutcome]) -> None:
        await trio.lowlevel.checkpoint()
        receiver.step("settle")
        receiver.outcomes += outcomes
        receiver.due -= len(outcomes)

    async def release(self, receiver: To, rest: timedelta | None = None) -> None:
        await trio.lowlevel.checkpoint()
        receiver.step("release")
        receiver.leased, receiver.rest = False, rest
        receiver.until = trio.current_time() + (rest or timedelta(0)).total_seconds()


@asynccontextmanager
async def dispatching(queue: DeliveryQueue) -> AsyncIterator[RememberedMetrics]:
    metrics = RememberedMetrics()
    dispatcher: DeliveryDispatcher[Any, Any] = DeliveryDispatcher(
        "webhooks", cast("Any", queue), Mailbox(), metrics=metrics, spread=no_spread
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(dispatcher.run)
        yield metrics
        nursery.cancel_scope.cancel()


def organization() -> OrganizationId:
    return OrganizationId(uuid4())


MISHAPS = [
    OverflowError("a year"),
    RecursionError("so deep"),
    MemoryError(),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"),
    KeyError("x"),
]


async def test_a_destination_is_given_back_after_an_outage() -> None:
    busy = To(organization(), raises={"release": Unavailable(retry_after=1)})
    async with dispatching(DeliveryQueue(busy)):
        await trio.sleep(20)
        assert (busy.leased, busy.due) == (True, 0)
        busy.raises.clear()
        await trio.sleep(3)
        assert not busy.leased


async def test_at_the_end_nobody_waits_out_an_outage_to_give_a_destination_back() -> None:
    busy = To(organization(), raises={"release": Unavailable(retry_after=1)})
    async with dispatching(DeliveryQueue(busy)):
        await trio.sleep(20)
        ended = trio.current_time()
    assert trio.current_time() - ended < 2


@pytest.mark.parametrize("mishap", [*MISHAPS, ExceptionGroup("parts", MISHAPS)], ids=lambda one: type(one).__name__)
async def test_an_attempt_that_raises_is_a_failure_of_that_one(mishap: Exception, log: CapturedLog) -> None:
    log.allow("work_broken")
    odd, other = To(organization(), raises={"attempt": mishap}), To(organization(), due=40, takes=0.01)
    async with dispatching(DeliveryQueue(odd, other)) as metrics:
        await trio.sleep(5)
        assert (odd.leased, odd.due) == (False, 0)
    (failure,) = odd.outcomes
    assert (failure.delivered, failure.error) == (False, "internal_error")
    assert len(other.outcomes) == 40
    assert metrics.broken == {"webhooks": 1}
    (told,) = log.events("work_broken")
    assert (told["actor"], told["error"], told["request_id"]) == ("webhooks", type(mishap).__name__, str(REQUEST))


@pytest.mark.parametrize("step", ["due", "settle"])
async def test_a_destination_that_we_fail_over_rests_and_others_go_on(step: str, log: CapturedLog) -> None:
    log.allow("work_broken")
    odd, other = To(organization(), raises={step: ValueError("odd")}), To(organization(), due=40, takes=0.01)
    async with dispatching(DeliveryQueue(odd, other)) as metrics:
        await trio.sleep(60)
        assert (odd.leased, odd.rest) == (False, timedelta(minutes=5))
        assert metrics.broken == {"webhooks": 1}
        odd.raises.clear()
        await trio.sleep(5 * 60)
    assert len(odd.outcomes) == 1
    assert len(other.outcomes) == 40


async def test_a_dispatcher_wakes_when_a_destination_is_due_again() -> None:
    """Nobody rings for that, and nobody asks meanwhile."""
    one = To(organization(), due=1)
    queue = DeliveryQueue(one)
    one.until = due = trio.current_time() + 47
    async with dispatching(queue):
        await trio.sleep(46.9)
        asked = queue.claims
        await trio.sleep(0.2)
        assert [round(at - due, 3) for at in one.begun] == [0]
    assert asked == 2


async def test_a_dispatcher_with_nothing_to_deliver_hardly_asks() -> None:
    queue = DeliveryQueue()
    async with dispatching(queue):
        await trio.sleep(3600)
    assert queue.claims == 2
    assert queue.asked <= 31


async def test_what_could_not_be_tried_is_no_failure() -> None:
    away = To(organization(), raises={"attempt": Unavailable(retry_after=1)})
    async with dispatching(DeliveryQueue(away)) as metrics:
        await trio.sleep(10)
        assert away.outcomes == []
        assert 5 < len(away.begun) < 30
        away.raises.clear()
        await trio.sleep(10)
    assert [one.delivered for one in away.outcomes] == [True]
    assert metrics.broken == {}


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("crowds", [1, 3, 12])
async def test_slow_receivers_of_others_leave_slots(crowds: int, failing: bool) -> None:
    """Each organization has fifty receivers that take 9.5 s to answer with success."""
    slots = SLOTS_OF_FAILING if failing else SLOTS
    slow = [To(one, due=50, takes=9.5, is_failing=failing) for one in [organization() for _ in range(crowds)] for _ in range(50)]
    queue = DeliveryQueue(*slow)
    async with dispatching(queue):
        await trio.sleep(3)
        waited = []
        for _ in range(20):
            newcomer = To(organization(), is_failing=failing)
            queue.receivers.append(newcomer)
            came = trio.current_time()
            while not newcomer.outcomes:
                await trio.sleep(0.1)
            waited.append(newcomer.begun[0] - came)
            await trio.sleep(1.3)
    assert queue.most <= slots
    assert max(queue.most_at_once.values()) <= slots // 2
    # Nobody rings here, so one that finds a free slot waits for the next look. Where there are about as many crowds as slots, it is next
    # when an attempt ends.
    assert max(waited) < (5.5 if crowds < slots / 2 else 9.5)


async def test_one_alone_has_several_slots_and_no_more() -> None:
    alone = To(organization(), due=400, takes=0.1)
    queue = DeliveryQueue(alone)
    async with dispatching(queue):
        await trio.sleep(40)
    assert len(alone.outcomes) == 400
    assert queue.most == SLOTS_OF_ONE


async def test_nothing_is_claimed_that_has_no_slot() -> None:
    """A delivery is claimed only when a slot is free, so a member's change before that still counts."""
    queue = DeliveryQueue(*(To(organization(), takes=9.0) for _ in range(SLOTS + 10)))
    async with dispatching(queue):
        await trio.sleep(1)
        assert len([one for one in queue.receivers if one.leased]) == queue.most == SLOTS
        assert len([one for one in queue.receivers if one.begun]) == SLOTS
        await trio.sleep(20)
    assert all(len(one.outcomes) == 1 for one in queue.receivers)


@pytest.mark.parametrize("takes", [0.05, 3.0])
async def test_a_rush_leaves_slots_to_those_whose_last_attempt_failed(takes: float) -> None:
    """More organizations than there are slots have something to send, and there is no end to it."""
    rush = [To(organization(), due=100_000, takes=takes) for _ in range(2 * SLOTS)]
    queue = DeliveryQueue(*rush)
    async with dispatching(queue):
        await trio.sleep(10)
        failed = [To(organization(), is_failing=True) for _ in range(5)]
        queue.receivers += failed
        await trio.sleep(10)
        assert all(one.outcomes for one in failed)
        before = sum(len(one.outcomes) for one in rush)
        # However many of those there are, most slots are the others'.
        queue.receivers += [To(organization(), due=100_000, takes=takes, is_failing=True) for _ in range(2 * SLOTS)]
        await trio.sleep(20)
    assert queue.most <= SLOTS
    assert sum(len(one.outcomes) for one in rush) - before > 20 / takes * (SLOTS - SLOTS_OF_FAILING) * 0.7


async def test_a_rush_of_those_whose_last_attempt_failed_leaves_the_others_their_turn() -> None:
    """Receivers that fail often fail at once. Any number of such receivers leaves slots for the others."""
    queue = DeliveryQueue(*[To(organization(), due=100_000, is_failing=True, refuses=True) for _ in range(2 * SLOTS)])
    async with dispatching(queue):
        await trio.sleep(2)
        others = [To(organization()) for _ in range(5)]
        queue.receivers += others
        before = sum(len(one.outcomes) for one in queue.receivers if one.is_failing)
        await trio.sleep(2)
        assert all(one.outcomes for one in others)
        assert sum(len(one.outcomes) for one in queue.receivers if one.is_failing) > before
