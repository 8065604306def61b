"""Where invitations are kept."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import InvitationId, OrganizationId, SessionId, UserId
from core.domain.pages import Page
from core.domain.tenancy.invitations import Invitation, InvitationOffer, InvitationStatus, Inviter, Lapsed, OwnInvitation, Prospect
from core.frozen import Frozen


class ByToken(Frozen):
    """By the digest of what the link carries."""

    digest: bytes


class ById(Frozen):
    """With an organization, only if the invitation belongs to it. With a session, only while that session lives."""

    id: InvitationId
    organization: OrganizationId | None = None
    session: SessionId | None = None


class ListedInvitation(Frozen):
    """`inviter` is None when the account is gone."""

    invitation: Invitation
    inviter: Inviter | None


class InvitationStore(Protocol):
    """Outside a unit of work, `find`, `list` and `list_own` are one statement and one round trip each. The other methods need a unit of
    work. Organizations that are being deleted do not exist here. Only PostgreSQL implements it.
    """

    async def find(self, which: ByToken | ById) -> InvitationOffer | None: ...

    async def list(
        self, organization: OrganizationId, status: InvitationStatus | None, at: datetime, page: Page
    ) -> Sequence[ListedInvitation]:
        """Newest first."""

    async def list_own(self, user: UserId, at: datetime) -> Sequence[OwnInvitation]:
        """The newest pending ones to the user's own, verified address, from active organizations."""

    async def prospect(self, organization: OrganizationId, inviter: UserId, email: Email, at: datetime) -> Prospect | None:
        """What has to be known before this address is invited. An overdue invitation to it is closed on the way. The organization and its
        people stay as they are until the unit of work ends. First in its unit of work. None when the organization or the inviter is gone.
        """

    async def add(self, invitation: Invitation) -> bool:
        """False when another one to the same address is pending: of two callers, one gets False."""

    async def hold(self, which: ByToken | ById, manager: UserId | None = None) -> InvitationOffer | None:
        """It stays as it is until the unit of work ends, and so do its organization and the number of its members. First in its unit of
        work. None when there is none. `manager` is the person who answers in the invited person's place.
        """

    async def hold_alone(self, which: ByToken | ById) -> InvitationOffer | None:
        """The same without the organization, for callers who do not accept it."""

    async def close(self, invitation: InvitationId, status: InvitationStatus, at: datetime) -> None:
        """After it was held and found pending."""

    async def cancel(self, organization: OrganizationId, invitation: InvitationId, at: datetime) -> Invitation | None:
        """None when the organization has no such invitation, or it is not pending: of two callers, one gets None."""

    async def cancel_to(self, organization: OrganizationId, users: Collection[UserId], at: datetime) -> Sequence[Invitation]:
        """All that are pending to the addresses of these people."""

    async def expire_due(self, at: datetime, since: datetime | None, limit: int) -> Sequence[Lapsed]:
        """Close overdue invitations as expired, oldest first, from `since` on. Rows that another transaction holds are left for the next
        time, so that neither waits for the other.
        """
