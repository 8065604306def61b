"""Where requests to become a member are kept, and what decides whether somebody becomes one by the domain of their address."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import JoinRequestId, OrganizationId, UserId
from core.domain.pages import Page
from core.domain.tenancy.join_requests import Asking, JoinCandidate, JoinRequest, JoinRequestStatus, OwnJoinRequest
from ports.tenancy.webhooks import Owner


class JoinRequestStore(Protocol):
    """Outside a unit of work, `list` and `list_own` are one statement and one round trip each. The other methods need a unit of work. Only
    PostgreSQL implements it.
    """

    async def list(self, organization: OrganizationId, status: JoinRequestStatus | None, page: Page) -> Sequence[JoinRequest]:
        """Newest first."""

    async def list_own(self, user: UserId) -> Sequence[OwnJoinRequest]:
        """Those that nobody has answered, newest first."""

    async def hold_candidate(self, user: UserId, domain: str) -> JoinCandidate | None:
        """Holds the organization, as `OrganizationStore.hold` does, and then the account's address. None when no active organization has
        proved the domain, or there is no such account.
        """

    async def add(self, request: JoinRequest) -> bool:
        """After `hold_candidate`. In place of one that waits with another address. False when they have asked before."""

    async def find(self, organization: OrganizationId, request: JoinRequestId) -> Asking | None:
        """After the organization is held. The account's address stays as it is."""

    async def close(self, request: JoinRequestId, status: JoinRequestStatus, by: UserId, at: datetime) -> None: ...

    async def administrators(self, organization: OrganizationId) -> Sequence[Owner]:
        """Some of those whom a request is for: its owner and its admins."""
