"""The store of requests to join, and what decides whether the domain of an address makes somebody a member."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import JoinRequestId, OrganizationId, UserId
from core.domain.pages import Page
from core.domain.tenancy.join_requests import Asking, JoinCandidate, JoinRequest, JoinRequestStatus, OwnJoinRequest
from ports.tenancy.webhooks import Owner


class JoinRequestStore(Protocol):
    """Outside a unit of work, `list` and `list_own` are one statement and one round trip each. The other methods need a unit of work."""

    async def list(self, organization: OrganizationId, status: JoinRequestStatus | None, page: Page) -> Sequence[JoinRequest]:
        """Newest first."""

    async def list_own(self, user: UserId) -> Sequence[OwnJoinRequest]:
        """The person's requests that nobody has answered, newest first."""

    async def hold_candidate(self, user: UserId, domain: str) -> JoinCandidate | None:
        """Holds the organization, as `OrganizationStore.hold` does, and then the account's address. None when no active organization has
        proved the domain, or there is no such account.
        """

    async def add(self, request: JoinRequest) -> bool:
        """After `hold_candidate`. Replaces a waiting request of the person that has another address. False when the person has asked
        before.
        """

    async def find(self, organization: OrganizationId, request: JoinRequestId) -> Asking | None:
        """After the organization is held. The address of the account stays as it is."""

    async def close(self, request: JoinRequestId, status: JoinRequestStatus, by: UserId | None, at: datetime) -> None: ...

    async def administrators(self, organization: OrganizationId) -> Sequence[Owner]:
        """Some of the people who decide on a request: the owner and admins of the organization."""
