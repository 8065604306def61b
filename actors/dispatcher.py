"""Dispatchers, which send events to the webhooks of organizations, and logout notices to applications."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Final, Generic

import structlog
import trio

from actors.foundation import Mailbox, Mishaps, Outage, turned
from core.domain.causes import caused_by
from core.domain.errors import Overloaded, Unavailable
from core.domain.identifiers import OrganizationId
from core.domain.record.deliveries import LEASE, DeliveryOutcome
from core.usecases.record import Deliveries, OpenReceiver
from ports.metrics import Metrics
from ports.record import Due, SpanKind, To, Traces, traced

log = structlog.get_logger()

# Attempts at once: in this process; among them, for destinations whose last attempt failed; and for one destination.
SLOTS: Final = 64
SLOTS_OF_FAILING: Final = 16
SLOTS_OF_ONE: Final = 4
# After this silence the dispatcher asks when a delivery is due again. Under load it never asks: the next claim comes before.
_POLL: Final = 5.0
# The seconds that a destination may go on before it makes room for others. No attempt begins later, so a member's change to the secret or
# the URL, or the disabling of the destination, takes effect after this time at the latest.
_TURN: Final = 1.0
# The pause after a claim that found as many destinations as it asked for. During the pause, destinations with much to send take a few slots
# each, and write their outcomes in one statement. That is much cheaper than one slot each for more destinations.
_SETTLING: Final = 0.01
# Failing destinations are claimed after the others, but once in this many seconds before the others. Without that, a rush of the others
# would never leave a slot to a failing destination.
_FAILING_FIRST: Final = 1.0
# Failing destinations are claimed for this many seconds before the others are looked for again. A failing destination often fails at once
# and gives its slot back for the next.
_AT_A_TIME: Final = 0.1
# The pause of a destination after an unforeseen exception in our own code.
_AFTER_MISHAP: Final = timedelta(minutes=5)
# The seconds at shutdown in which leases are given back.
_LAST_WORDS: Final = 1.0


class _Slots:
    """The slots of one process. A claimed destination holds a slot from the claim to the end of its turn. So no claimed destination waits
    for a slot while a member changes that destination. The more slots an organization has, the fewer of the free slots it gets: a single
    busy organization reaches about half of the slots, and however many organizations are busy, some slots stay free for the next.
    """

    def __init__(self) -> None:
        self._free = {False: SLOTS, True: SLOTS_OF_FAILING}
        self._held: dict[bool, Counter[OrganizationId]] = {False: Counter(), True: Counter()}

    def free(self, *, failing: bool) -> int:
        return min(self._free[False], self._free[True]) if failing else self._free[False]

    def held(self, *, failing: bool) -> Sequence[OrganizationId]:
        """The organizations that hold slots, named once for each slot."""
        return list(self._held[failing].elements())

    def may_add(self, organization: OrganizationId, *, failing: bool) -> bool:
        """Whether a claimed destination may have one more slot: only while more than twice as many slots are free as its organization
        holds.
        """
        return 2 * self._held[failing][organization] < self.free(failing=failing)

    @contextmanager
    def kept_free(self, number: int, *, failing: bool) -> Iterator[None]:
        """Reserves slots during a claim, before the claim tells which organizations get the slots."""
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
    """Claims one destination at a time and shares its slots out by organization, so that a receiver that is dead, slow or odd delays no
    other organization. Delivery is at least once: when a process dies or loses its lease during an attempt, the delivery is sent again
    under the same ID.

    `mailbox` gets a message when there is something to deliver. The dispatcher also posts to `mailbox` when a slot is free.
    """

    def __init__(
        self,
        name: str,
        deliveries: Deliveries[To, Due],
        mailbox: Mailbox,
        *,
        metrics: Metrics,
        spread: Callable[[], float],
        poll: float = _POLL,
        traces: Traces | None = None,
    ) -> None:
        self.name = name
        self._traces = traces
        self._deliveries = deliveries
        self._mailbox = mailbox
        self._spread = spread
        self._poll = poll
        self._outage = Outage(self.name, spread)
        self._mishaps = Mishaps(self.name, metrics)
        self._slots = _Slots()
        self._failing_asked = 0.0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        # After a restart, no slot is held: the attempts of the earlier run ended with that run.
        self._slots, self._failing_asked = _Slots(), 0.0
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                turned(pause=self._poll)
                self._mailbox.empty()
                await self._claim_all(nursery)
                if not await self._mailbox.wait(self._poll * (1 - self._spread() / 5)):
                    await self._outage.until_due(self._mailbox, self._deliveries.due_in)

    async def _claim_all(self, nursery: trio.Nursery) -> None:
        for failing in (True, False) if self._is_turn_of_failing() else (False, True):
            began = trio.current_time()
            while await self._claim(nursery, failing=failing):
                await trio.sleep(_SETTLING)
                if self._makes_room(began, failing=failing):
                    self._mailbox.post()
                    break

    def _makes_room(self, began: float, *, failing: bool) -> bool:
        """Whether the other kind of destination, failing or not, is to be claimed now."""
        return trio.current_time() >= began + _AT_A_TIME if failing else self._is_turn_of_failing()

    def _is_turn_of_failing(self) -> bool:
        return trio.current_time() >= self._failing_asked + _FAILING_FIRST

    async def _claim(self, nursery: trio.Nursery, *, failing: bool) -> bool:
        """Claims destinations. Returns whether there may be more."""
        # Half of the free slots, so that organizations without a slot come first when the other half is shared out.
        most = (self._slots.free(failing=failing) + 1) // 2
        if not most:
            return False
        if failing:
            self._failing_asked = trio.current_time()
        claim = partial(self._deliveries.claim, most, failing=failing, busy=self._slots.held(failing=failing))
        with self._slots.kept_free(most, failing=failing):
            claimed = await self._outage.wait_out(claim)
        turned(pause=self._poll)
        for receiver in claimed:
            self._slots.take(receiver.organization, failing=failing)
            nursery.start_soon(self._serve, receiver)
        return len(claimed) == most

    async def _serve(self, receiver: OpenReceiver[To]) -> None:
        rest = None
        given_back = False
        try:
            try:
                # After an outage longer than the lease, another process has the destination, and this process writes no outcome.
                with trio.move_on_after(LEASE.total_seconds()):
                    await self._take_turn(receiver)
            except Exception as error:  # noqa: BLE001 - a mishap of this destination must not stop the others
                self._mishaps.tell(error)
                rest = _AFTER_MISHAP
            given_back = await self._give_back(receiver, rest)
        finally:
            if not given_back:
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
            traced=self._traced,
        )

    def _traced(self, due: Due) -> AbstractContextManager[None]:
        if self._traces is None:
            return nullcontext()
        about = (("postern.delivery.id", str(due.id)), ("postern.delivery.attempt", due.attempts + 1))
        return traced(self._traces, SpanKind.CONSUMER, f"attempt of {self.name}", (("messaging.destination.name", self.name),), own=about)

    async def _give_back(self, receiver: OpenReceiver[To], rest: timedelta | None) -> bool:
        """Waits out an outage, since a destination that is not given back waits for as long as its lease holds. Returns whether there is
        nothing left to try.
        """
        try:
            with trio.move_on_after(LEASE.total_seconds()) as waiting:
                await self._outage.wait_out(partial(self._deliveries.release, receiver, rest))
        except Exception as error:  # noqa: BLE001 - the lease runs out by itself
            log.warning("destination_left_to_its_lease", dispatcher=self.name, error=type(error).__name__)
            return True
        return not waiting.cancelled_caught


class _Batch(Generic[To, Due]):
    """Deliveries to one destination, a few at a time if there are slots to spare. The outcomes of ended attempts are written in one
    statement while the next attempts run. After a failure the rest of the batch is left for the next claim, which has fewer slots for a
    destination that fails.
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
        traced: Callable[[Due], AbstractContextManager[None]],
    ) -> None:
        self._traced = traced
        self._deliveries = deliveries
        self._receiver = receiver
        self._until = until
        self._slots = slots
        self._slot_free = slot_free
        self._outage = outage
        self._mishaps = mishaps
        # A failing destination is tried with only as many deliveries as may run at once.
        self._waiting = deque(batch[:SLOTS_OF_ONE] if receiver.is_failing else batch)
        self._ended: list[DeliveryOutcome] = []
        self._writing = trio.Lock()
        self._whole = True

    async def deliver(self) -> bool:
        """Attempts the deliveries. Returns whether the destination received all of them in time."""
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
        # There is no `await` between this look at the time and the attempt.
        while self._waiting and trio.current_time() < self._until:
            due = self._waiting.popleft()
            with caused_by(due.request):
                outcome = await self._attempted(due, partial(_since, trio.current_time()))
            if outcome is not None:
                self._ended.append(outcome)
                nursery.start_soon(self._write)
            if outcome is None or not outcome.delivered:
                self._whole = False
                self._waiting.clear()

    async def _attempted(self, due: Due, elapsed: Callable[[], float]) -> DeliveryOutcome | None:
        """The outcome of an attempt. None when the attempt was not made, because the database or another dependency is away."""
        try:
            with self._traced(due):
                return await self._deliveries.attempt(self._receiver, due, elapsed)
        except (Unavailable, Overloaded) as error:
            await trio.sleep(self._outage.began(error))
            return None
        except Exception as error:  # noqa: BLE001 - whatever a receiver answers, it is the failure of this attempt
            self._mishaps.tell(error)
            return self._deliveries.broken(due, elapsed)

    async def _write(self) -> None:
        """Writes the outcomes that have gathered. A call that waited for the lock may find its outcome written already."""
        async with self._writing:
            ended, self._ended = self._ended, []
            if ended:
                await self._outage.wait_out(lambda: self._deliveries.settle(self._receiver, ended))


def _since(began: float) -> float:
    return trio.current_time() - began
