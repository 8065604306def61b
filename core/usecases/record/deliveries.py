"""Deliveries, as dispatchers make them: a receiver is claimed, sent what is due for it, and given back."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

import structlog

from core.domain.identifiers import OrganizationId
from core.domain.outbound.destinations import OutboundDestination
from core.domain.record.deliveries import ATTEMPT_TIMEOUT, BATCH, BROKEN, LEASE, UNREADABLE, DeliveryOutcome, DeliveryRules, DueDelivery
from core.domain.secrets import Secret
from core.frozen import Frozen
from ports.clock import Clock
from ports.outbound import Outbound, OutboundFailed, OutboundRequest
from ports.record.deliveries import DeliveryQueue, Due, To

log = structlog.get_logger()

Due_contra = TypeVar("Due_contra", bound=DueDelivery, contravariant=True)


class OpenReceiver(Frozen, Generic[To]):
    """A claimed receiver that can be called. Deliveries are signed with the receiver's `secrets`, if it has any."""

    claimed: To
    destination: OutboundDestination
    secrets: Sequence[Secret] = ()

    @property
    def organization(self) -> OrganizationId:
        return self.claimed.organization

    @property
    def is_failing(self) -> bool:
        return self.claimed.is_failing


class Receivers(Protocol[To, Due_contra]):
    """The behavior that each kind of receiver (webhooks, logout notices) defines for itself. `attempted` is the name of the log event for
    an attempt. `unreadable` is the name of the log event for a receiver whose stored address or secret cannot be read.
    """

    rules: DeliveryRules
    attempted: str
    unreadable: str

    def opened(self, claimed: To) -> OpenReceiver[To] | None:
        """Returns None when the receiver cannot be called now; the log says why. Any error counts as unreadable."""

    async def request(self, receiver: OpenReceiver[To], due: Due_contra) -> OutboundRequest:
        """Makes the request of one attempt. Another attempt makes its own request."""

    def logged(self, claimed: To, due: Due_contra | None = None) -> Mapping[str, str]:
        """Returns the log fields of a receiver, or of a delivery to this receiver."""

    def count(self, due: Due_contra, outcome: DeliveryOutcome, seconds: float) -> None:
        """Counts the outcome in the metrics."""

    async def settled(self, claimed: To, failing_since: datetime | None) -> None:
        """Called after outcomes were stored, possibly twice. `failing_since` is the time since which the receiver has only failed, if it
        has.
        """


class Deliveries(Frozen, Generic[To, Due]):
    receivers: Receivers[To, Due]
    queue: DeliveryQueue[To, Due]
    outbound: Outbound
    clock: Clock
    spread: Callable[[], float]

    async def claim(self, limit: int, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[OpenReceiver[To]]:
        """Claims receivers for the dispatcher, which releases each of them again."""
        return [
            receiver
            for claimed in await self.queue.claim(limit, LEASE, failing=failing, busy=busy)
            if (receiver := await self._opened(claimed)) is not None
        ]

    async def due(self, receiver: OpenReceiver[To]) -> Sequence[Due]:
        return await self.queue.due(receiver.claimed, BATCH)

    async def attempt(self, receiver: OpenReceiver[To], due: Due, elapsed: Callable[[], float]) -> DeliveryOutcome:
        """`elapsed` tells the seconds of the attempt so far."""
        rules = self.receivers.rules
        request = await self.receivers.request(receiver, due)
        try:
            answer = await self.outbound.post(request, ATTEMPT_TIMEOUT)
        except OutboundFailed as failed:
            outcome = rules.unanswered(due, failed.failure.value, self.spread())
        else:
            asked = answer.headers.get("retry-after")
            outcome = rules.answered(due, answer.status, answer.body, retry_after=asked, now=self.clock.now(), spread=self.spread())
        self.receivers.count(due, outcome, elapsed())
        log.info(
            self.receivers.attempted,
            **self.receivers.logged(receiver.claimed, due),
            outcome=outcome.word,
            status=outcome.status_code,
            error=outcome.error,
            attempts=due.attempts + 1,
        )
        return outcome

    def broken(self, due: Due, elapsed: Callable[[], float]) -> DeliveryOutcome:
        """Returns the outcome of an attempt that raised an unexpected error."""
        outcome = self.receivers.rules.unanswered(due, BROKEN, self.spread())
        self.receivers.count(due, outcome, elapsed())
        return outcome

    async def settle(self, receiver: OpenReceiver[To], outcomes: Sequence[DeliveryOutcome]) -> None:
        """Stores the outcomes of attempts. May be repeated while the lease lasts."""
        await self.receivers.settled(receiver.claimed, await self.queue.settle(receiver.claimed, outcomes))

    async def release(self, receiver: OpenReceiver[To], rest: timedelta | None = None) -> None:
        await self.queue.release(receiver.claimed, rest)

    async def _opened(self, claimed: To) -> OpenReceiver[To] | None:
        receiver = None
        try:
            receiver = self.receivers.opened(claimed)
        except Exception:
            log.exception(self.receivers.unreadable, **self.receivers.logged(claimed))
        if receiver is None:
            await self.queue.release(claimed, UNREADABLE)
        return receiver
