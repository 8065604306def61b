"""Dispatchers: bring what happens to the receivers that organizations have named, events to webhooks and ended sessions to services. The
unit of their work is the destination, so that a receiver that is dead or slow is nobody else's problem.

Delivery is at least once: what was sent when the process died, or lost its lease, is sent again under the same id.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import structlog
import trio

from actors.outages import Outage
from core.domain.tenancy.webhook_deliveries import Outcome
from core.usecases.tenancy.webhook_deliveries import LEASE
from ports.jobs import Doorbell

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
# To give leases back at shutdown.
_LAST_WORDS: Final = 1.0


class Receiver(Protocol):
    """A claimed destination. `is_failing`: its last attempt failed."""

    @property
    def is_failing(self) -> bool: ...


To = TypeVar("To", bound=Receiver)
Due = TypeVar("Due")


class Deliveries(Protocol[To, Due]):
    """What is brought, and to whom."""

    async def claim(self, limit: int, *, failing: bool) -> Sequence[To]: ...
    async def due(self, receiver: To) -> Sequence[Due]: ...
    async def attempt(self, receiver: To, due: Due, elapsed: Callable[[], float]) -> Outcome: ...
    async def settle(self, receiver: To, outcomes: Sequence[Outcome]) -> None: ...
    async def release(self, receiver: To) -> None: ...


class Dispatcher(Generic[To, Due]):
    """`topic`: whose doorbell tells that there is something to bring."""

    def __init__(
        self,
        name: str,
        deliveries: Deliveries[To, Due],
        doorbell: Doorbell,
        topic: str,
        *,
        spread: Callable[[], float],
        poll: float = _POLL,
    ) -> None:
        self.name = name
        self._deliveries = deliveries
        self._doorbell = doorbell
        self._topic = topic
        self._spread = spread
        self._poll = poll
        self._outage = Outage(self.name, spread)
        self._slots = trio.CapacityLimiter(SLOTS)
        self._slots_of_failing = trio.CapacityLimiter(SLOTS_OF_FAILING)
        # Destinations in hand. One attempt at each is the least, so there are no more of them than slots.
        self._hands = {True: 0, False: 0}
        self._look = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._heed_bell)
            task_status.started()
            while True:
                self._look = trio.Event()
                for failing, most in ((False, SLOTS), (True, SLOTS_OF_FAILING)):
                    free = most - self._hands[failing]
                    if free:
                        for receiver in await self._outage.wait_out(partial(self._deliveries.claim, free, failing=failing)):
                            self._hands[failing] += 1
                            nursery.start_soon(self._serve, receiver)
                with trio.move_on_after(self._poll * (1 - self._spread() / 5)):
                    await self._look.wait()

    async def _heed_bell(self) -> None:
        while True:
            await self._doorbell.wait(self._topic)
            self._look.set()

    async def _serve(self, receiver: To) -> None:
        failing = receiver.is_failing
        try:
            # An outage longer than the lease: others have the destination by then, and nothing of ours is written.
            with trio.move_on_after(LEASE.total_seconds()):
                until = trio.current_time() + _TURN
                while batch := await self._outage.wait_out(partial(self._deliveries.due, receiver)):
                    whole = await _Batch(self._deliveries, receiver, batch, self._outage, until).deliver(
                        [self._slots_of_failing, self._slots] if failing else [self._slots]
                    )
                    if not whole:
                        break
        finally:
            self._hands[failing] -= 1
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _LAST_WORDS):
                await self._give_back(receiver)
            self._look.set()

    async def _give_back(self, receiver: To) -> None:
        try:
            await self._deliveries.release(receiver)
        except Exception as error:  # noqa: BLE001 - the lease runs out by itself
            log.warning("destination_left_to_its_lease", dispatcher=self.name, error=type(error).__name__)


class _Batch(Generic[To, Due]):
    """Deliveries of one destination, a few at a time. What has ended is written down together, while the next are on their way. After a
    failure the rest is left for the next claim, which has fewer slots for a destination that fails.
    """

    def __init__(self, deliveries: Deliveries[To, Due], receiver: To, batch: Sequence[Due], outage: Outage, until: float) -> None:
        self._deliveries = deliveries
        self._receiver = receiver
        self._outage = outage
        self._until = until
        # A destination that fails is tried with as many as go at once.
        self._waiting = deque(batch[:SLOTS_OF_ONE] if receiver.is_failing else batch)
        self._ended: list[Outcome] = []
        self._writing = trio.Lock()
        self._whole = True

    async def deliver(self, slots: Sequence[trio.CapacityLimiter]) -> bool:
        """Whether all of them were received, in time."""
        async with trio.open_nursery() as nursery:
            for _ in range(min(SLOTS_OF_ONE, len(self._waiting))):
                nursery.start_soon(self._work, slots, nursery)
        return self._whole and trio.current_time() < self._until

    async def _work(self, slots: Sequence[trio.CapacityLimiter], nursery: trio.Nursery) -> None:
        while self._waiting and trio.current_time() < self._until:
            due = self._waiting.popleft()
            async with AsyncExitStack() as taken:
                # Those of failing destinations take their own kind of slot first, and wait for it without one of the others.
                for limiter in slots:
                    await taken.enter_async_context(limiter)
                outcome = await self._deliveries.attempt(self._receiver, due, partial(_since, trio.current_time()))
            self._ended.append(outcome)
            if not outcome.delivered:
                self._whole = False
                self._waiting.clear()
            nursery.start_soon(self._write)

    async def _write(self) -> None:
        """One that waited for its turn finds its outcome written already."""
        async with self._writing:
            ended, self._ended = self._ended, []
            if ended:
                await self._outage.wait_out(lambda: self._deliveries.settle(self._receiver, ended))


def _since(began: float) -> float:
    return trio.current_time() - began
