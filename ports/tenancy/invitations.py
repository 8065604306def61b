"""The store of invitations."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import InvitationId, ManagementKeyId, OrganizationId, SessionId, UserId
from core.domain.pages import Page
from core.domain.tenancy.invitations import (
    Invitation,
    InvitationOffer,
    InvitationStatus,
    Inviter,
    InvitingKey,
    Lapsed,
    OwnInvitation,
    Prospect,
)
from core.frozen import Frozen


class ByToken(Frozen):
    """Names an invitation by the digest of the token in its link."""

    digest: bytes


class ById(Frozen):
    """Names an invitation by its id. With an organization, only if the invitation belongs to it. With a session, only while the session
    lives.
    """

    id: InvitationId
    organization: OrganizationId | None = None
    session: SessionId | None = None


class ListedInvitation(Frozen):
    """`inviter` is None when the inviter's account is gone."""

    invitation: Invitation
    inviter: Inviter | None
    key: InvitingKey | None = None
    """The management key that sent the invitation in the inviter's name."""


class InvitationStore(Protocol):
    """Outside a unit of work, `find`, `list` and `list_own` are one statement and one round trip each. The other methods need a unit of
    work. Organizations that are being deleted do not exist here.
    """

    async def find(self, which: ByToken | ById) -> InvitationOffer | None: ...

    async def list(
        self, organization: OrganizationId, status: InvitationStatus | None, at: datetime, page: Page
    ) -> Sequence[ListedInvitation]:
        """Newest first."""

    async def list_own(self, user: UserId, session: SessionId, at: datetime) -> Sequence[OwnInvitation]:
        """The newest pending invitations to the user's own, verified address, from active organizations."""

    async def prospect(self, organization: OrganizationId, inviter: UserId, email: Email, at: datetime) -> Prospect | None:
        """The facts that decide whether this address may be invited. An overdue invitation to the address is closed on the way. The
        organization and its people stay as they are until the unit of work ends. Comes first in its unit of work. None when the
        organization or the inviter is gone.
        """

    async def add(self, invitation: Invitation) -> bool:
        """False when another invitation to the same address is pending: of two callers, one gets False."""

    async def hold(self, which: ByToken | ById, manager: UserId | None = None) -> InvitationOffer | None:
        """The invitation stays as it is until the unit of work ends, and so do its organization and the number of members. Comes first in
        its unit of work. None when there is no such invitation. `manager` is a member who answers in the invited person's place.
        """

    async def hold_alone(self, which: ByToken | ById) -> InvitationOffer | None:
        """As `hold` without the organization, for callers who do not accept the invitation."""

    async def close(self, invitation: InvitationId, status: InvitationStatus, at: datetime) -> None:
        """Called after the invitation was held and found pending."""

    async def cancel(self, organization: OrganizationId, invitation: InvitationId, at: datetime) -> Invitation | None:
        """None when the organization has no such invitation, or the invitation is not pending: of two callers, one gets None."""

    async def cancel_to(self, organization: OrganizationId, users: Collection[UserId], at: datetime) -> Sequence[Invitation]:
        """Cancels all pending invitations to the addresses of these people."""

    async def cancel_made(self, organization: OrganizationId, key: ManagementKeyId, most: int, at: datetime) -> Sequence[Invitation]:
        """Cancels the newest pending invitations that this management key has sent, and no more than `most`."""

    async def expire_due(self, at: datetime, since: datetime | None, limit: int) -> Sequence[Lapsed]:
        """Closes overdue invitations as expired, oldest first, from `since` on. Rows that another transaction holds are left for the next
        time, so that neither waits for the other.
        """
