"""Joining an organization by the domain of one's address: at once, or by a request that a manager of the members answers."""

from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import Final

from core.domain.branding import Branding
from core.domain.errors import BadRequest, TeamLimitExceeded
from core.domain.formats import Json
from core.domain.identifiers import JoinRequestId, OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.domains import JoinPolicy
from core.domain.tenancy.tiers import UserLimit
from core.frozen import Frozen

# Only the first request in this time causes a mail: when a whole company begins with Postern, its administrators need one mail.
MAILED_EVERY: Final = timedelta(days=1)
# The limit of a person's own list. A person's addresses have few domains.
MOST_LISTED: Final = 20
_CANNOT_BE_APPROVED: Final = "This request cannot be approved"


class JoinRequestStatus(StrEnum):
    """The state of a request."""

    PENDING = "pending"
    APPROVED = "approved"
    DECLINED = "declined"


class JoinRequest(Frozen, kw_only=True):
    """`email` is the address by which the person could ask; after the answer, the account may have another. `decided_by` is None while the
    request is pending, when the person became a member otherwise, and when the account of the deciding manager is deleted.
    """

    id: JoinRequestId
    organization: OrganizationId
    user: UserId
    email: Email
    status: JoinRequestStatus
    created_at: datetime
    decided_at: datetime | None = None
    decided_by: UserId | None = None


class Joined(StrEnum):
    """The result of a sign-in for the membership. A closed list, because it is the label of a metric."""

    MEMBER = auto()
    ASKED = auto()
    FULL = auto()
    """The organization has no room for a member, so a request is made instead."""


class JoinCandidate(Frozen, kw_only=True):
    """A person who has signed in, and the active organization that has proved the domain of the person's address."""

    account: Account
    organization: OrganizationId
    branding: Branding
    domain: str
    policy: JoinPolicy
    member_count: int
    user_limit: UserLimit
    is_member: bool
    was_turned_away: bool
    """A manager has removed the person or declined the request, for this account or one that has had its address. The person can come back
    by an invitation only.
    """
    awaits_role: bool
    """An invitation waits for the person. It offers more than the domain does."""
    request: JoinRequest | None
    told_at: datetime | None
    """The time of the latest request by anybody."""

    def owns(self, email: Email) -> bool:
        """Whether the account has proved that the address is its own."""
        return _may_join(self.account, email, self.organization)

    def outcome(self) -> Joined | None:
        """The result of this sign-in. None when nothing happens. No organization can make a platform owner its member in this way."""
        if self.is_member or self.was_turned_away or self.awaits_role:
            return None
        if self.account.is_platform_owner or self.account.deactivated_at is not None:
            return None
        asked = None if self.request is None else self.request.status
        if self.policy is JoinPolicy.ON and asked in (None, JoinRequestStatus.PENDING):
            if self.member_count < self.user_limit.max_users:
                return Joined.MEMBER
            return Joined.FULL if asked is None else None
        return Joined.ASKED if self.policy is JoinPolicy.ASK and asked is None else None

    def is_mailed(self, now: datetime) -> bool:
        """Whether the administrators get a mail."""
        return self.told_at is None or self.told_at + MAILED_EVERY <= now


class Asking(Frozen, kw_only=True):
    """A request, with all data that decide whether it can be approved."""

    request: JoinRequest
    account: Account
    branding: Branding
    member_count: int
    user_limit: UserLimit
    awaits_role: bool
    """An invitation waits for the person. It offers more than the request does."""

    def require_pending(self) -> None:
        """Raises `BadRequest`."""
        if self.request.status is not JoinRequestStatus.PENDING:
            raise BadRequest(f"This request has been {self.request.status} already", words="request_decided")

    def require_approvable(self) -> None:
        """The request must be pending. Raises `BadRequest`, `TeamLimitExceeded`."""
        # The organization must not learn that the account is deactivated.
        if self.account.deactivated_at is not None:
            raise BadRequest(_CANNOT_BE_APPROVED, words="request_not_approvable", detail="the account is deactivated")
        if self.account.is_platform_owner:
            raise BadRequest(_CANNOT_BE_APPROVED, words="request_not_approvable", detail="the account is a platform owner's by now")
        if not _may_join(self.account, self.request.email, self.request.organization):
            # The account may belong to somebody else by now: the service or directory that made it can change its address.
            raise BadRequest(
                _CANNOT_BE_APPROVED, words="request_not_approvable", detail="the account has not proved the address of the request any more"
            )
        if self.awaits_role:
            raise BadRequest(
                "This person has a pending invitation with another role: wait until it is accepted, or revoke it first",
                words="invited_with_another_role",
            )
        if self.member_count >= self.user_limit.max_users:
            raise TeamLimitExceeded


class OwnJoinRequest(Frozen):
    """A pending request, as the requesting person sees it."""

    organization_name: str
    created_at: datetime


def joined_by_domain(organization: OrganizationId, user: UserId, domain: str) -> Event:
    details: dict[str, Json] = {"role": "member", "domain": domain}
    return Event("user.joined", _themselves(user), Target("user", str(user)), organization, details)


def joined_by_request(request: JoinRequest, actor: Actor) -> Event:
    details: dict[str, Json] = {"role": "member", "join_request_id": str(request.id)}
    return Event("user.joined", actor, Target("user", str(request.user)), request.organization, details)


def join_requested(request: JoinRequest, domain: str) -> Event:
    return _about("join_request.created", request, _themselves(request.user), domain=domain)


def join_approved(request: JoinRequest, actor: Actor) -> Event:
    return _about("join_request.approved", request, actor)


def join_declined(request: JoinRequest, actor: Actor) -> Event:
    return _about("join_request.declined", request, actor)


def _may_join(account: Account, email: Email, organization: OrganizationId) -> bool:
    """The address that the person asked by is still theirs: proved, or vouched for by this very organization's provider."""
    return account.address_is_verified_for(organization) and account.email.key == email.key


def _themselves(user: UserId) -> Actor:
    """The actor without the address and the client of the sign-in. The sign-in may have led to a place that is none of the organization's
    business.
    """
    return Actor(user)


def _about(name: str, request: JoinRequest, actor: Actor, **details: Json) -> Event:
    facts: dict[str, Json] = {"join_request_id": str(request.id), **details}
    personal = {"email": request.email.address}
    target = Target("user", str(request.user))
    return Event(name, actor, target, request.organization, facts, personal=personal, person=request.user)
