"""Dispatchers: bring what happens to the receivers that organizations have named, events to webhooks and ended sessions to services. The
unit of their work is the destination, and slots are shared out by organization, so that a receiver that is dead, slow or odd is nobody
else's problem.

Delivery is at least once: what was sent when the process died, or lost its lease, is sent again under the same id.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Final, Generic

import structlog
import trio

from actors.failures import Mishaps
from actors.mailbox import Mailbox
from actors.outages import Outage
from core.domain.errors import Overloaded, Unavailable
from core.domain.identifiers import OrganizationId
from core.domain.record.deliveries import LEASE, DeliveryOutcome
from core.usecases.record.deliveries import Deliveries, OpenReceiver
from ports.metrics import Metrics
from ports.record.deliveries import Due, To

log = structlog.get_logger()

# Attempts at once: in this process, of these for destinations whose last attempt failed, and for one destination.
SLOTS: Final = 64
SLOTS_OF_FAILING: Final = 16
SLOTS_OF_ONE: Final = 4
# No ring tells when a delivery is due again.
_POLL: Final = 5.0
# A destination that keeps up may go on for as long as this before it makes room for others. No attempt begins later: what a member has
# changed meanwhile, the secret, the URL or that it is disabled, holds from then on.
_TURN: Final = 1.0
# Between two claims that found as many as they might: those with much to send take a few slots each, and write down together what
# became of it. That is much cheaper than one each for more of them.
_SETTLING: Final = 0.01
# Those whose last attempt failed come after the others, but once in so long before them: in a rush of the others, no slot would ever be
# left.
_FAILING_FIRST: Final = 1.0
# And for so long before the others are looked for again: who fails often fails at once, and gives the slot back for the next.
_AT_A_TIME: Final = 0.1
# For a destination that we failed over ourselves.
_AFTER_MISHAP: Final = timedelta(minutes=5)
# To give leases back at shutdown.
_LAST_WORDS: Final = 1.0


class _Slots:
    """Whoever is claimed has one, from the claim to the end of its turn: nothing waits for a slot with a destination in hand that a member
    may change meanwhile. Of those that are left, an organization gets fewer the more it has: alone it comes to half of them, and however
    many are busy, some stay free for the next one.
    """

    def __init__(self) -> None:
        self._free = {False: SLOTS, True: SLOTS_OF_FAILING}
        self._held: dict[bool, Counter[OrganizationId]] = {False: Counter(), True: Counter()}

    def free(self, *, failing: bool) -> int:
        return min(self._free[False], self._free[True]) if failing else self._free[False]

    def held(self, *, failing: bool) -> Sequence[OrganizationId]:
        """By whom, once for each."""
        return list(self._held[failing].elements())

    def may_add(self, organization: OrganizationId, *, failing: bool) -> bool:
        """One more for a destination in hand: only while more than twice as many are free as the organization has."""
        return 2 * self._held[failing][organization] < self.free(failing=failing)

    @contextmanager
    def kept_free(self, number: int, *, failing: bool) -> Iterator[None]:
        """While it is not known who will have them."""
        self._count(-number, failing=failing)
        try:
            yield
        finally:
            self._count(number, failing=failing)

    def take(self, organization: OrganizationId, *, failing: bool) -> None:
        self._count(-1, failing=failing)
        for kind in self._kinds(failing=failing):
            self._held[kind][organization] += 1

    def give_back(self, organization: OrganizationId, *, failing: bool) -> None:
        self._count(1, failing=failing)
        for kind in self._kinds(failing=failing):
            self._held[kind][organization] -= 1
            if not self._held[kind][organization]:
                del self._held[kind][organization]

    def _count(self, number: int, *, failing: bool) -> None:
        for kind in self._kinds(failing=failing):
            self._free[kind] += number

    @staticmethod
    def _kinds(*, failing: bool) -> tuple[bool, ...]:
        return (False, True) if failing else (False,)


class DeliveryDispatcher(Generic[To, Due]):
    """`mailbox` gets a message when there is something to bring. The dispatcher writes to it, too, when a slot is free."""

    def __init__(
        self,
        name: str,
        deliveries: Deliveries[To, Due],
        mailbox: Mailbox,
        *,
        metrics: Metrics,
        spread: Callable[[], float],
        poll: float = _POLL,
    ) -> None:
        self.name = name
        self._deliveries = deliveries
        self._mailbox = mailbox
        self._spread = spread
        self._poll = poll
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)
        self._slots = _Slots()
        self._failing_asked = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        # Those of an earlier life, if there was one, ended with it.
        self._slots, self._failing_asked = _Slots(), 0.0
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                self._mailbox.empty()
                await self._claim_all(nursery)
                await self._mailbox.wait(self._poll * (1 - self._spread() / 5))

    async def _claim_all(self, nursery: trio.Nursery) -> None:
        for failing in (True, False) if self._is_turn_of_failing() else (False, True):
            began = trio.current_time()
            while await self._claim(nursery, failing=failing):
                await trio.sleep(_SETTLING)
                if self._makes_room(began, failing=failing):
                    self._mailbox.post()
                    break

    def _makes_room(self, began: float, *, failing: bool) -> bool:
        """For the other kind."""
        return trio.current_time() >= began + _AT_A_TIME if failing else self._is_turn_of_failing()

    def _is_turn_of_failing(self) -> bool:
        return trio.current_time() >= self._failing_asked + _FAILING_FIRST

    async def _claim(self, nursery: trio.Nursery, *, failing: bool) -> bool:
        """Whether there may be more."""
        # Half of what is free, so that those who had nothing yet come first when the rest is shared out.
        most = (self._slots.free(failing=failing) + 1) // 2
        if not most:
            return False
        if failing:
            self._failing_asked = trio.current_time()
        claim = partial(self._deliveries.claim, most, failing=failing, busy=self._slots.held(failing=failing))
        with self._slots.kept_free(most, failing=failing):
            claimed = await self._outage.wait_out(claim)
        for receiver in claimed:
            self._slots.take(receiver.organization, failing=failing)
            nursery.start_soon(self._serve, receiver)
        return len(claimed) == most

    async def _serve(self, receiver: OpenReceiver[To]) -> None:
        rest = None
        try:
            # An outage longer than the lease: others have the destination by then, and nothing of ours is written.
            with trio.move_on_after(LEASE.total_seconds()):
                await self._take_turn(receiver)
        except Exception as error:  # noqa: BLE001 - this destination's mishap is nobody else's problem
            self._mishaps.tell(error)
            rest = _AFTER_MISHAP
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_WORDS):
                await self._give_back(receiver, rest)
            self._slots.give_back(receiver.organization, failing=receiver.is_failing)
            self._mailbox.post()

    async def _take_turn(self, receiver: OpenReceiver[To]) -> None:
        until = trio.current_time() + _TURN
        while batch := await self._outage.wait_out(partial(self._deliveries.due, receiver)):
            if not await self._batch(receiver, batch, until).deliver():
                break

    def _batch(self, receiver: OpenReceiver[To], batch: Sequence[Due], until: float) -> "_Batch[To, Due]":
        return _Batch(
            self._deliveries,
            receiver,
            batch,
            until=until,
            slots=self._slots,
            slot_free=self._mailbox.post,
            outage=self._outage,
            mishaps=self._mishaps,
        )

    async def _give_back(self, receiver: OpenReceiver[To], rest: timedelta | None) -> None:
        try:
            await self._deliveries.release(receiver, rest)
        except Exception as error:  # noqa: BLE001 - the lease runs out by itself
            log.warning("destination_left_to_its_lease", dispatcher=self.name, error=type(error).__name__)


class _Batch(Generic[To, Due]):
    """Deliveries of one destination, a few at a time where there are slots to spare. What has ended is written down together, while the
    next are on their way. After a failure the rest is left for the next claim, which has fewer slots for a destination that fails.
    """

    def __init__(
        self,
        deliveries: Deliveries[To, Due],
        receiver: OpenReceiver[To],
        batch: Sequence[Due],
        *,
        until: float,
        slots: _Slots,
        slot_free: Callable[[], None],
        outage: Outage,
        mishaps: Mishaps,
    ) -> None:
        self._deliveries = deliveries
        self._receiver = receiver
        self._until = until
        self._slots = slots
        self._slot_free = slot_free
        self._outage = outage
        self._mishaps = mishaps
        # A destination that fails is tried with as many as go at once.
        self._waiting = deque(batch[:SLOTS_OF_ONE] if receiver.is_failing else batch)
        self._ended: list[DeliveryOutcome] = []
        self._writing = trio.Lock()
        self._whole = True

    async def deliver(self) -> bool:
        """Whether all of them were received, in time."""
        organization, failing = self._receiver.organization, self._receiver.is_failing
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._work, nursery)
            for _ in range(min(SLOTS_OF_ONE, len(self._waiting)) - 1):
                if not self._slots.may_add(organization, failing=failing):
                    break
                self._slots.take(organization, failing=failing)
                nursery.start_soon(self._work_beside, nursery)
        return self._whole and trio.current_time() < self._until

    async def _work_beside(self, nursery: trio.Nursery) -> None:
        try:
            await self._work(nursery)
        finally:
            awaited = not self._slots.free(failing=self._receiver.is_failing)
            self._slots.give_back(self._receiver.organization, failing=self._receiver.is_failing)
            if awaited:
                self._slot_free()

    async def _work(self, nursery: trio.Nursery) -> None:
        # Nothing is waited for between this look at the time and the attempt.
        while self._waiting and trio.current_time() < self._until:
            due = self._waiting.popleft()
            outcome = await self._attempted(due, partial(_since, trio.current_time()))
            if outcome is not None:
                self._ended.append(outcome)
                nursery.start_soon(self._write)
            if outcome is None or not outcome.delivered:
                self._whole = False
                self._waiting.clear()

    async def _attempted(self, due: Due, elapsed: Callable[[], float]) -> DeliveryOutcome | None:
        """None: something that we need is away, and it was not tried."""
        try:
            return await self._deliveries.attempt(self._receiver, due, elapsed)
        except (Unavailable, Overloaded) as error:
            await trio.sleep(self._outage.began(error))
            return None
        except Exception as error:  # noqa: BLE001 - whatever a receiver answers, it is the failure of this attempt
            self._mishaps.tell(error)
            return self._deliveries.broken(due, elapsed)

    async def _write(self) -> None:
        """One that waited for its turn finds its outcome written already."""
        async with self._writing:
            ended, self._ended = self._ended, []
            if ended:
                await self._outage.wait_out(lambda: self._deliveries.settle(self._receiver, ended))


def _since(began: float) -> float:
    return trio.current_time() - began
