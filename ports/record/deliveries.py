"""The queues that deliveries are taken from. The unit of claim is the receiver: however many deliveries wait for one, they take no place
from those for others.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar
from uuid import UUID

from core.domain.identifiers import OrganizationId
from core.domain.record.deliveries import DeliveryOutcome, DueDelivery
from core.frozen import Frozen


class ClaimedReceiver(Frozen, kw_only=True):
    """A receiver under a lease. `is_failing`: its last attempt failed."""

    id: UUID
    organization: OrganizationId
    url: str
    is_failing: bool
    lease: UUID


To = TypeVar("To", bound=ClaimedReceiver)
Due = TypeVar("Due", bound=DueDelivery)
Due_co = TypeVar("Due_co", bound=DueDelivery, covariant=True)


class DeliveryQueue(Protocol[To, Due_co]):
    """Each call is one statement. If a process dies, its claims are free again when their leases have run out. PostgreSQL keeps one queue
    for each kind of delivery; a broker could keep them as well.
    """

    async def claim(self, limit: int, lease: timedelta, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[To]:
        """Up to `limit` receivers with something due, either those whose last attempt failed or all others. An organization that is named
        among the `busy` gets fewer of them: one fewer for every two times, rounded up.
        """

    async def due(self, claimed: To, limit: int) -> Sequence[Due_co]:
        """Longest due first. Empty when the lease is lost, or the receiver must no longer be called."""

    async def settle(self, claimed: To, outcomes: Sequence[DeliveryOutcome]) -> datetime | None:
        """Returns since when every attempt at the receiver has failed; None when the last one succeeded, or the lease was lost."""

    async def release(self, claimed: To, rest: timedelta | None = None) -> None:
        """Gives the lease back. The receiver can be claimed again after `rest`, and at once when `rest` is None."""
