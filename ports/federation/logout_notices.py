"""Where logout notices are kept, and the queue that they are taken from. The unit of claim is the service: however many notices wait for
one, they take no place from those for others. They are written by the statements that end sessions.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from core.domain.federation.logout_notices import DueNotice, LogoutNotice
from core.domain.identifiers import ClientId, OrganizationId, ServiceId
from core.domain.pages import Listed, Page
from core.domain.services.services import IdTokenAlgorithm
from core.domain.tenancy.webhook_deliveries import Outcome
from core.frozen import Frozen


class ClaimedService(Frozen, kw_only=True):
    """A service under a lease. `is_failing`: its last attempt failed."""

    service: ServiceId
    organization: OrganizationId
    uri: str
    client: ClientId
    algorithm: IdTokenAlgorithm
    is_failing: bool
    lease: UUID


class LogoutNoticeLookup(Protocol):
    """Outside any unit of work, one statement."""

    async def list(self, organization: OrganizationId, slug: str, page: Page, *, delivered: bool | None) -> Listed[LogoutNotice] | None:
        """Newest first. The total is counted up to `MOST_COUNTED`. None when the organization has no such service."""


class LogoutQueue(Protocol):
    """Each call is one statement. What a process had claimed when it died is free again when its lease has run out."""

    async def claim(self, limit: int, lease: timedelta, *, failing: bool, busy: Sequence[OrganizationId] = ()) -> Sequence[ClaimedService]:
        """Up to `limit` services with something due, of those whose last attempt failed or of all others. Of one organization, as
        many fewer as half of how often it is among the `busy`.
        """

    async def due(self, claimed: ClaimedService, limit: int) -> Sequence[DueNotice]:
        """Longest due first. None of them when the lease is lost, or the service is no longer to be called."""

    async def settle(self, claimed: ClaimedService, outcomes: Sequence[Outcome]) -> None: ...

    async def release(self, claimed: ClaimedService, rest: timedelta | None = None) -> None:
        """Gives the lease back. After `rest` it can be claimed again; after None at once."""
