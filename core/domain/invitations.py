"""Invitations: somebody is asked, by e-mail, to become a member in a certain role. One is pending until it is accepted, declined or
cancelled, or a week has passed; after that it is over for good.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.accounts import Account
from core.domain.branding import Branding
from core.domain.email import Email
from core.domain.errors import BadRequest, Forbidden, InvitationExpired, OrganizationNotActive, TeamLimitExceeded
from core.domain.events import SYSTEM, Actor, Event, Target
from core.domain.identifiers import InvitationId, OrganizationId, RoleId, SessionId, UserId
from core.domain.roles import Assignable, BuiltInRole, Capability, require_grantable
from core.domain.secrets import Token
from core.domain.tiers import UserLimit

LIFETIME: Final = timedelta(days=7)
# A person's own list is looked at and answered at once; whoever takes longer lists again.
LISTED_TOKEN_LIFETIME: Final = timedelta(minutes=15)
# Of one organization to one address. A mailbox must not be buried by inviting and cancelling.
MOST_TO_ONE_ADDRESS: Final = 5
# Of one organization to anybody. Enough to invite a large company within the day, too few for a list of addresses that somebody bought.
MOST_IN_ALL: Final = 1000
WITHIN: Final = timedelta(hours=1)
# In a person's own list, the newest.
MOST_LISTED: Final = 100

UNKNOWN: Final = "This invitation is not valid"


class InvitationStatus(StrEnum):
    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


_CLOSED: Final = {
    InvitationStatus.ACCEPTED: "This invitation has been accepted already",
    InvitationStatus.REJECTED: "This invitation has been declined",
    InvitationStatus.CANCELLED: "This invitation has been withdrawn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """`role` is the role's slug; `role_id` says which of the organization's own it is, if it is one. `invited_by` is None when they are
    gone.
    """

    id: InvitationId
    organization: OrganizationId
    email: Email
    role: str
    role_id: RoleId | None
    invited_by: UserId | None
    token_digest: bytes
    status: InvitationStatus
    expires_at: datetime
    created_at: datetime

    def is_overdue(self, now: datetime) -> bool:
        """Its time has passed, and nobody has written that down yet."""
        return self.status is InvitationStatus.PENDING and self.expires_at <= now

    def status_at(self, now: datetime) -> InvitationStatus:
        return InvitationStatus.EXPIRED if self.is_overdue(now) else self.status

    def lapsed(self) -> "Lapsed":
        return Lapsed(self.id, self.organization, self.email, self.role, self.expires_at)


@dataclass(frozen=True, slots=True)
class Lapsed:
    """What is said of an invitation whose time has passed when that is written down."""

    id: InvitationId
    organization: OrganizationId
    email: Email
    role: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Inviter:
    id: UserId
    email: Email
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Prospect:
    """An organization and an address that it wants to invite."""

    branding: Branding
    inviter: Inviter
    capabilities: frozenset[Capability]
    """The inviter's, now that nothing about the organization changes."""
    is_member: bool
    lapsed: Lapsed | None
    """An invitation to the same address whose time has passed."""
    to_address: datetime | None
    """When the organization invited this address, the `MOST_TO_ONE_ADDRESS`th time before now."""
    to_anybody: datetime | None
    """When it invited anybody, the `MOST_IN_ALL`th time before now, if that was within the time that counts."""

    def seconds_to_wait(self, now: datetime) -> float:
        """0 when there may be another one at once."""
        counting = [earlier for earlier in (self.to_address, self.to_anybody) if earlier is not None]
        return max((0.0, *((earlier + WITHIN - now).total_seconds() for earlier in counting)))


@dataclass(frozen=True, slots=True)
class Offer:
    """An invitation, with everything that decides what becomes of it."""

    invitation: Invitation
    organization_slug: str
    organization_name: str
    organization_is_active: bool
    member_count: int
    user_limit: UserLimit
    capabilities: frozenset[Capability]
    """What its role permits."""
    account: Account | None
    """Whose address it goes to."""
    is_member: bool
    backing: frozenset[Capability]
    """What whoever stands behind it holds, as things are now: who answers in the person's place, or else who invited them. Nothing when
    they have left, or their account is deactivated.
    """

    @property
    def offered(self) -> Assignable:
        return Assignable(self.invitation.role, self.invitation.role_id, self.capabilities)

    def require_backed(self) -> None:
        """Who may give a role no more has given it nobody who has not come yet: they may have invited themselves. Raises `BadRequest`."""
        try:
            require_may_offer(self.offered, self.backing)
        except Forbidden:
            # What has become of whoever invited is not for everybody to know who holds a link.
            raise BadRequest("This invitation holds no more", detail="whoever invited may not give this role any more") from None

    def require_acceptable(self) -> None:
        """For one that is pending. Raises `OrganizationNotActive`, `TeamLimitExceeded`, `BadRequest`."""
        if not self.organization_is_active:
            raise OrganizationNotActive
        if self.is_member:
            raise BadRequest("The invited person is a member already")
        if self.account is not None and self.account.deactivated_at is not None:
            # What has become of an account is not for the organization to know.
            raise BadRequest("This invitation cannot be accepted", detail="the account is deactivated")
        if self.member_count >= self.user_limit.max_users:
            raise TeamLimitExceeded


def require_may_offer(role: Assignable, held: frozenset[Capability]) -> None:
    """Whoever manages members brings in plain ones. Other roles are for those who manage roles, and nobody gives what they do not hold."""
    if Capability.MEMBERS_MANAGE not in held or (role.slug != BuiltInRole.MEMBER and Capability.ROLES_MANAGE not in held):
        raise Forbidden
    require_grantable(role.capabilities, held)


def require_pending(invitation: Invitation) -> None:
    """Raises `BadRequest`, or `InvitationExpired` when that was written down."""
    if invitation.status is InvitationStatus.EXPIRED:
        raise InvitationExpired
    if invitation.status is not InvitationStatus.PENDING:
        raise BadRequest(_CLOSED[invitation.status])


@dataclass(frozen=True, slots=True)
class OwnInvitation:
    """As the person sees it whom it is for."""

    id: InvitationId
    email: Email
    role: str
    organization_slug: str
    organization_name: str
    expires_at: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ListedToken:
    """What the tokens in a person's own list say: this invitation, for this person, as long as this session of theirs lives, until then;
    and who asked for it in their name.
    """

    invitation: InvitationId
    user: UserId
    session: SessionId
    impersonator: UserId | None
    expires_at: datetime

    def signed(self, key: bytes) -> Token:
        """Nothing of it is stored: who can derive it has the key."""
        said = b"".join(
            (
                self.invitation.bytes,
                self.user.bytes,
                self.session.bytes,
                (self.impersonator or _NOBODY).bytes,
                int(self.expires_at.timestamp()).to_bytes(_TIME_BYTES),
            )
        )
        return Token(urlsafe_b64encode(said + _signature(key, said)).rstrip(b"=").decode())


_NOBODY: Final = UUID(int=0)
_TIME_BYTES: Final = 8
_SAID: Final = 4 * 16 + _TIME_BYTES
_LENGTH: Final = -(-(_SAID + sha256().digest_size) * 4 // 3)


def read_listed_token(token: Token, key: bytes) -> ListedToken | None:
    """None when it is none of ours: then it may be one that was mailed. Whether its time has passed is for the caller to see."""
    text = token.reveal()
    if len(text) != _LENGTH or not text.isascii():
        return None
    try:
        read = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:  # it skips what is not of its alphabet, and then misses it
        return None
    said, signature = read[:_SAID], read[_SAID:]
    if not hmac.compare_digest(signature, _signature(key, said)):
        return None
    invitation, user, session, impersonator = (UUID(bytes=said[at : at + 16]) for at in (0, 16, 32, 48))
    return ListedToken(
        InvitationId(invitation),
        UserId(user),
        SessionId(session),
        None if impersonator == _NOBODY else UserId(impersonator),
        datetime.fromtimestamp(int.from_bytes(said[64:]), UTC),
    )


def _signature(key: bytes, said: bytes) -> bytes:
    return hmac.digest(key, said, sha256)


class Way(StrEnum):
    """How an invitation was answered, for the audit log: whoever holds the link need not be the person, since the inviter has seen it."""

    LINK = "link"
    OWN_LIST = "own_list"
    ON_BEHALF = "on_behalf"


def invited(invitation: Invitation, actor: Actor) -> Event:
    # The interface says that the target is a user. Who has the address, and whether anybody, must not be told to the organization.
    target = Target("user", str(invitation.id))
    details = {"invitation_id": str(invitation.id), "role": invitation.role}
    return Event("user.invited", actor, target, invitation.organization, details, personal=_whom(invitation))


def joined(invitation: Invitation, user: UserId, actor: Actor) -> Event:
    details = {"invitation_id": str(invitation.id), "role": invitation.role}
    return Event("user.joined", actor, Target("user", str(user)), invitation.organization, details)


def accepted(invitation: Invitation, user: UserId, way: Way, actor: Actor) -> Event:
    # Of whom it tells is known, even where it is not who did it.
    return replace(_about("invitation.accepted", invitation, actor, user_id=str(user), way=way.value), person=user)


def declined(invitation: Invitation, way: Way, actor: Actor) -> Event:
    return _about("invitation.declined", invitation, actor, way=way.value)


def revoked(invitation: Invitation, actor: Actor) -> Event:
    return _about("invitation.revoked", invitation, actor)


def expired(lapsed: Lapsed) -> Event:
    """Nobody does it, whoever may notice first."""
    return _about("invitation.expired", lapsed, SYSTEM)


def _about(name: str, invitation: Invitation | Lapsed, actor: Actor, **details: str) -> Event:
    told = {"role": invitation.role, **details}
    return Event(name, actor, Target("invitation", str(invitation.id)), invitation.organization, told, personal=_whom(invitation))


def _whom(invitation: Invitation | Lapsed) -> dict[str, str]:
    return {"invited_email": invitation.email.address}
