"""Becoming a member by the domain of one's address: at once, or by a request that somebody who manages the members answers."""

from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import Final

from core.domain.branding import Branding
from core.domain.email import Email
from core.domain.errors import BadRequest, TeamLimitExceeded
from core.domain.identifiers import JoinRequestId, OrganizationId, UserId
from core.domain.identity.accounts import Account
from core.domain.json import Json
from core.domain.record.events import Actor, Event, Target
from core.domain.tenancy.domain_routes import JoinPolicy
from core.domain.tenancy.tiers import UserLimit
from core.frozen import Frozen

# Of the requests of a day, the first is mailed: on the morning when a company comes to Postern, its administrators need one mail.
TOLD_EVERY: Final = timedelta(days=1)
# In a person's own list. Few domains are anybody's.
MOST_LISTED: Final = 20
_CANNOT_BE_APPROVED: Final = "This request cannot be approved"


class JoinRequestStatus(StrEnum):
    """The state of a request."""

    PENDING = "pending"
    APPROVED = "approved"
    DECLINED = "declined"


class JoinRequest(Frozen, kw_only=True):
    """`email` is the address by which the person could ask; after the answer, their account may have another. `decided_by` is None while
    nobody has answered, when they became a member otherwise, and when the account of whoever answered is gone.
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
    """What a sign-in came to. A closed list, because it is the label of a metric."""

    MEMBER = auto()
    ASKED = auto()
    FULL = auto()
    """The organization has no room: the person has asked instead."""


class JoinCandidate(Frozen, kw_only=True):
    """Somebody who has signed in, and the active organization that has proved the domain of their address."""

    account: Account
    organization: OrganizationId
    branding: Branding
    domain: str
    policy: JoinPolicy
    member_count: int
    user_limit: UserLimit
    is_member: bool
    was_turned_away: bool
    """They were removed by a member who may, or declined, by this account or by one that has had its address. They come back by an
    invitation only.
    """
    awaits_role: bool
    """An invitation waits for them that offers more than the domain does."""
    request: JoinRequest | None
    told_at: datetime | None
    """When somebody asked last."""

    def owns(self, email: Email) -> bool:
        """Whether it is known that the address is theirs."""
        return _has_proved(self.account, email)

    def outcome(self) -> Joined | None:
        """None: nothing happens. No organization makes an owner of the platform its member."""
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

    def is_told(self, now: datetime) -> bool:
        """Whether the administrators get a mail."""
        return self.told_at is None or self.told_at + TOLD_EVERY <= now


class Asking(Frozen, kw_only=True):
    """A request, with everything that decides what becomes of it."""

    request: JoinRequest
    account: Account
    branding: Branding
    member_count: int
    user_limit: UserLimit
    awaits_role: bool
    """An invitation waits for the person that offers more."""

    def require_pending(self) -> None:
        """Raises `BadRequest`."""
        if self.request.status is not JoinRequestStatus.PENDING:
            raise BadRequest(f"This request has been {self.request.status} already")

    def require_approvable(self) -> None:
        """The request must be pending. Raises `BadRequest`, `TeamLimitExceeded`."""
        # The organization must not learn what became of an account.
        if self.account.deactivated_at is not None:
            raise BadRequest(_CANNOT_BE_APPROVED, detail="the account is deactivated")
        if self.account.is_platform_owner:
            raise BadRequest(_CANNOT_BE_APPROVED, detail="the account is a platform owner's by now")
        if not _has_proved(self.account, self.request.email):
            # Somebody else may have the account by now: a service or a directory that made it has moved it.
            raise BadRequest(_CANNOT_BE_APPROVED, detail="the account has not proved the address of the request any more")
        if self.awaits_role:
            raise BadRequest("This person has a pending invitation with another role: let them accept it, or revoke it first")
        if self.member_count >= self.user_limit.max_users:
            raise TeamLimitExceeded


class OwnJoinRequest(Frozen):
    """A pending request as the person sees it who asked."""

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


def _has_proved(account: Account, email: Email) -> bool:
    return account.email_verified_at is not None and account.email.key == email.key


def _themselves(user: UserId) -> Actor:
    """Without the place and the device of their sign-in, which may have led somewhere that is none of the organization's business."""
    return Actor(user)


def _about(name: str, request: JoinRequest, actor: Actor, **details: Json) -> Event:
    told: dict[str, Json] = {"join_request_id": str(request.id), **details}
    personal = {"email": request.email.address}
    target = Target("user", str(request.user))
    return Event(name, actor, target, request.organization, told, personal=personal, person=request.user)
