"""Where invitations are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.domain.email import Email
from core.domain.identifiers import InvitationId, OrganizationId, SessionId, UserId
from core.domain.invitations import Invitation, InvitationStatus, Inviter, Lapsed, Offer, OwnInvitation, Prospect
from core.domain.pages import Page


@dataclass(frozen=True, slots=True)
class ByToken:
    """By the digest of what its link carries."""

    digest: bytes


@dataclass(frozen=True, slots=True)
class ById:
    """With an organization, only when it is that one's; with a session, only while that one lives."""

    id: InvitationId
    organization: OrganizationId | None = None
    session: SessionId | None = None


@dataclass(frozen=True, slots=True)
class ListedInvitation:
    """`inviter` is None when they are gone."""

    invitation: Invitation
    inviter: Inviter | None


class InvitationStore(Protocol):
    """Part of the unit of work. Knows nothing of organizations that are being deleted."""

    async def prospect(self, organization: OrganizationId, inviter: UserId, email: Email, at: datetime) -> Prospect | None:
        """What is to be known before this address is invited. An invitation to it whose time has passed is closed on the way, as expired.
        The organization and its people stay as they are until the unit of work ends. First in its unit of work. None when the organization
        or the inviter is gone.
        """

    async def add(self, invitation: Invitation) -> bool:
        """False when one to the same address is pending: of two callers, one gets False."""

    async def hold(self, which: ByToken | ById, manager: UserId | None = None) -> Offer | None:
        """It stays as it is until the unit of work ends, and so do its organization and the number of its members. First in its unit of
        work. None when there is none. `manager` is who answers in the invited person's place.
        """

    async def hold_alone(self, which: ByToken | ById) -> Offer | None:
        """The same without the organization, for whoever does not accept it."""

    async def close(self, invitation: InvitationId, status: InvitationStatus, at: datetime) -> None:
        """After it is held, and found pending."""

    async def cancel(self, organization: OrganizationId, invitation: InvitationId, at: datetime) -> Invitation | None:
        """None when the organization has no such invitation, or it is not pending: of two callers, one gets None."""

    async def expire_due(self, at: datetime, since: datetime | None, limit: int) -> Sequence[Lapsed]:
        """Close those as expired whose time has passed, the oldest first, from `since` on. Passes over what somebody holds at the moment,
        so that neither waits for the other.
        """


class InvitationLookup(Protocol):
    """Outside any unit of work."""

    async def find(self, which: ByToken | ById) -> Offer | None: ...

    async def list(
        self, organization: OrganizationId, status: InvitationStatus | None, at: datetime, page: Page
    ) -> Sequence[ListedInvitation]:
        """The newest first."""

    async def list_own(self, user: UserId, at: datetime) -> Sequence[OwnInvitation]:
        """The newest pending ones to the user's own, proven address, of active organizations."""
