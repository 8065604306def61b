"""Invitations of users to become a member of an organization, by email or in the user's own list."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from core.domain.branding import Branding, NamedApplication
from core.domain.errors import BadRequest, Forbidden, InvitationExpired, OrganizationNotActive, TeamLimitExceeded
from core.domain.identifiers import InvitationId, ManagementKeyId, OrganizationId, RoleId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.passwords import PasswordStanding
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.domain.requests import is_just_past
from core.domain.secrets import Token
from core.domain.tenancy.roles import Assignable, BuiltInRole, Capability, require_grantable
from core.domain.tenancy.sign_in_rules import is_invitable
from core.domain.tenancy.tiers import UserLimit
from core.frozen import Frozen, replace

LIFETIME: Final = timedelta(days=7)
# The limit from one organization to one address. Inviting and cancelling in turn must not flood a mailbox.
MOST_TO_ONE_ADDRESS: Final = 5
# The limit from one organization to all addresses. Enough to invite a large company in a day, too few for a list of addresses that somebody
# bought.
MOST_IN_ALL: Final = 1000
WITHIN: Final = timedelta(hours=1)
# The limit of a person's own list, which shows the newest.
MOST_LISTED: Final = 100

UNKNOWN: Final = "This invitation is not valid"


class InvitationStatus(StrEnum):
    """The state of an invitation."""

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


class Invitation(Frozen, kw_only=True):
    """An organization invites someone by email to become a member in a certain role. An invitation is pending until it is accepted,
    declined or cancelled, or until a week has passed. After that it is closed for good. `role` is the role's slug. `role_id` names the role
    if it is one of the organization's own. `invited_by` is None when the inviter's account is gone.
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
    mailed_digest: bytes | None = None
    """The digest of the token in the mail. The inviter gets another token, so the mailed one proves that its holder has read the mail."""
    closed_at: datetime | None = None
    made_by_key: ManagementKeyId | None = None
    """The management key that sent the invitation, in the name of the person who answered for the key."""

    def has_just_become(self, status: InvitationStatus, now: datetime) -> bool:
        """The invitation got this status a moment ago, perhaps by the first of two equal forms."""
        return self.status is status and is_just_past(self.closed_at, now)

    def is_overdue(self, now: datetime) -> bool:
        """Its time has passed, but nobody has closed it yet."""
        return self.status is InvitationStatus.PENDING and self.expires_at <= now

    def status_at(self, now: datetime) -> InvitationStatus:
        return InvitationStatus.EXPIRED if self.is_overdue(now) else self.status

    def lapsed(self) -> "Lapsed":
        return Lapsed(self.id, self.organization, self.email, self.role, self.expires_at)


class Lapsed(Frozen):
    """The data of an invitation for the audit log, when its time has passed and it is closed."""

    id: InvitationId
    organization: OrganizationId
    email: Email
    role: str
    expires_at: datetime


class Inviter(Frozen):
    id: UserId
    email: Email
    created_at: datetime
    name: str | None = None
    """None unless the organization may see it."""


class InvitingKey(Frozen):
    """The management key that sent an invitation. Name and prefix are empty once the key has ended."""

    id: ManagementKeyId
    name: str = ""
    prefix: str = ""


class Prospect(Frozen):
    """An organization, and an address that it wants to invite."""

    branding: Branding
    inviter: Inviter
    capabilities: frozenset[Capability]
    """The capabilities that the inviter may give, read while the organization's row is locked. Empty when the inviter has left or is
    deactivated.
    """
    is_member: bool
    language: Language | None
    """The language that the invited person has chosen. None when there is no account, or no choice."""
    lapsed: Lapsed | None
    """An earlier invitation to the same address whose time has passed."""
    to_address: datetime | None
    """The time of the `MOST_TO_ONE_ADDRESS`th invitation from the organization to this address, counted back from now. None when there are
    fewer, or when it is too long ago to count.
    """
    to_anybody: datetime | None
    """The time of the organization's `MOST_IN_ALL`th invitation to anybody, counted back from now. None when there are fewer, or when it is
    too long ago to count.
    """
    domains: Sequence[str] = ()
    """The domains that the organization sends invitations to. Empty when it sends them to any domain."""
    has_mail_server: bool = False
    """Whether the organization's mails go through a server of its own."""
    inviter_is_own: bool = False
    """The inviter's membership is their own: see `Membership`."""

    def seconds_to_wait(self, now: datetime) -> float:
        """0 when the next invitation may be sent at once."""
        counting = [earlier for earlier in (self.to_address, self.to_anybody) if earlier is not None]
        return max((0.0, *((earlier + WITHIN - now).total_seconds() for earlier in counting)))


class InvitationOffer(Frozen):
    """An invitation, with all data that decide whether it can be accepted."""

    invitation: Invitation
    organization_slug: str
    organization: Branding
    organization_is_active: bool
    member_count: int
    user_limit: UserLimit
    capabilities: frozenset[Capability]
    """The capabilities of the offered role."""
    account: Account | None
    """The account that has the invited address."""
    is_member: bool
    backing: frozenset[Capability]
    """The present capabilities of the person behind the invitation: the manager who answers for the invited person, otherwise the inviter.
    Empty when that person has left or is deactivated. If a management key sent the invitation, only what the key may do today, which is
    nothing once the key has ended.
    """
    domains: Sequence[str] = ()
    """The domains that the organization sends invitations to. Empty when it sends them to any domain."""
    by_mail: bool = False
    """The invitation was presented with the mailed token."""
    role_name: str = ""
    """The name of the role, if it is one of the organization's own."""
    gives_service_roles: bool = False
    """Roles of services are assigned to the offered role, which is one of the organization's own."""
    is_in_use: bool = False
    """Somebody can sign in to the account, or has signed in to it before."""
    inviter: str = ""
    """The name of the person who invites, if the organization may see it, otherwise the address. Empty when the account is gone."""
    shortest_password: int | None = None
    """How long the organization's members' passwords must be. None for what the installation asks for."""
    application: NamedApplication | None = None
    """The application that the offered role is for, if it is for one."""

    @property
    def password_standing(self) -> PasswordStanding:
        """Who accepts becomes a member by their own act, so the organization's rule counts at once."""
        return PasswordStanding(self.shortest_password, (self.organization.name,))

    @property
    def chooses_password(self) -> bool:
        """The person who accepts may choose the account's first password at once. Like a link that is mailed for this, the token of our own
        mail server proves the address; and nothing that somebody else set up lies behind the account.
        """
        return self.by_mail and not self.is_in_use

    @property
    def opens_account(self) -> bool:
        """Accepting activates the account. A directory has deactivated it, and the person who accepts is the first to prove its address, by
        a mail that our own server has sent since. Nobody has asked for this mail, so it opens no account whose address somebody had proved.
        """
        shut = self.account
        if not self.by_mail or shut is None or shut.deactivated_at is None:
            return False
        return shut.opens_by_first_proof and self.invitation.created_at > shut.deactivated_at

    @property
    def is_shut(self) -> bool:
        """Others have deactivated the account, and accepting changes nothing about that."""
        return self.account is not None and self.account.deactivated_at is not None and not self.opens_account

    @property
    def offered(self) -> Assignable:
        return Assignable(self.invitation.role, self.invitation.role_id, self.capabilities, self.gives_service_roles)

    def require_backed(self) -> None:
        """An inviter who may no longer give the role cannot bring in anybody with it. Otherwise a former admin could come back by an
        invitation to their own address. Raises `BadRequest`.
        """
        try:
            require_may_offer(self.offered, self.backing)
        except Forbidden:
            # The holder of the link must not learn why the inviter lost the right.
            raise BadRequest(
                "This invitation is no longer valid", words="invitation_unbacked", detail="the inviter may not give this role any more"
            ) from None

    def require_acceptable(self, *, by_themselves: bool) -> None:
        """The invitation must be pending. `by_themselves`: the person accepts, and nobody else can have. Nobody whose
        account is deactivated does; but the organization lists them as it lists anybody, and must not learn of it. Raises
        `OrganizationNotActive`, `TeamLimitExceeded`, `BadRequest`.
        """
        if not self.organization_is_active:
            raise OrganizationNotActive
        if self.is_member:
            raise BadRequest("The invited person is already a member", words="invitation_to_member")
        require_invitable(self.invitation.email, self.domains)
        if by_themselves and self.is_shut:
            raise BadRequest("This invitation cannot be accepted", words="invitation_unacceptable", detail="the account is deactivated")
        if self.member_count >= self.user_limit.max_users:
            raise TeamLimitExceeded


def require_invitable(email: Email, domains: Sequence[str]) -> None:
    """Raises `BadRequest` for an address whose domain the organization's sign-in rules do not allow."""
    if not is_invitable(email, domains):
        message = f"email: this organization invites only email addresses of {', '.join(domains)}"
        raise BadRequest(message, words="invitation_domain", values={"domains": ", ".join(domains)})


def require_may_offer(role: Assignable, held: frozenset[Capability]) -> None:
    """The right to manage members is enough to bring in plain members. Other roles need the right to manage roles. Nobody can give
    capabilities that they do not have, nor roles of services that they may not assign.
    """
    if Capability.MEMBERS_MANAGE not in held or (role.slug != BuiltInRole.MEMBER and Capability.ROLES_MANAGE not in held):
        raise Forbidden
    require_grantable(role.needed, held)


def require_may_admit(held: frozenset[Capability]) -> None:
    """The right to add plain members in another way than by an invitation: by a request, a domain or a directory. Raises `Forbidden`."""
    require_may_offer(Assignable(BuiltInRole.MEMBER, None, BuiltInRole.MEMBER.capabilities), held)


def require_pending(invitation: Invitation) -> None:
    """Raises `BadRequest`, or `InvitationExpired` if the invitation was closed as expired."""
    if invitation.status is InvitationStatus.EXPIRED:
        raise InvitationExpired
    if invitation.status is not InvitationStatus.PENDING:
        raise BadRequest(_CLOSED[invitation.status], words=f"invitation_{invitation.status}")


class OwnInvitation(Frozen):
    """An invitation as the invited person sees it."""

    id: InvitationId
    email: Email
    role: str
    organization_slug: str
    organization_name: str
    expires_at: datetime
    created_at: datetime
    role_name: str = ""
    """The name of the role, if it is one of the organization's own."""


class Way(StrEnum):
    """The way in which an invitation was answered, for the audit log. A link alone does not prove who answered: the inviter has one too."""

    LINK = "link"
    OWN_LIST = "own_list"
    ON_BEHALF = "on_behalf"


def invited(invitation: Invitation, actor: Actor) -> Event:
    # The interface says that the target is a user. The organization must not learn whether the address has an account, so the target is the
    # invitation's id.
    target = Target("user", str(invitation.id))
    details = {"invitation_id": str(invitation.id), "role": invitation.role}
    return Event("user.invited", actor, target, invitation.organization, details, personal=_whom(invitation))


def joined(invitation: Invitation, user: UserId, actor: Actor) -> Event:
    details = {"invitation_id": str(invitation.id), "role": invitation.role}
    return Event("user.joined", actor, Target("user", str(user)), invitation.organization, details)


def accepted(invitation: Invitation, user: UserId, way: Way, actor: Actor) -> Event:
    # The event is about this person, even when nobody knows who answered.
    return replace(_about("invitation.accepted", invitation, actor, user_id=str(user), way=way.value), person=user)


def declined(invitation: Invitation, way: Way, actor: Actor) -> Event:
    return _about("invitation.declined", invitation, actor, way=way.value)


def revoked(invitation: Invitation, actor: Actor) -> Event:
    return _about("invitation.revoked", invitation, actor)


def expired(lapsed: Lapsed) -> Event:
    """The time ended the invitation, and the first request or job that notices it only records that. So the actor is the system."""
    return _about("invitation.expired", lapsed, SYSTEM)


def _about(name: str, invitation: Invitation | Lapsed, actor: Actor, **details: str) -> Event:
    facts = {"role": invitation.role, **details}
    return Event(name, actor, Target("invitation", str(invitation.id)), invitation.organization, facts, personal=_whom(invitation))


def _whom(invitation: Invitation | Lapsed) -> dict[str, str]:
    return {"invited_email": invitation.email.address}


# People answer soon after they have looked at the list. After this time they can open the list again.
LISTED_TOKEN_LIFETIME: Final = timedelta(minutes=15)


class ListedToken(Frozen):
    """The content of a token in a user's own list of invitations. It is signed, and not stored. It is for this invitation and this user,
    and works as long as their session lives, until `expires_at`. `impersonator` is None when no impersonator asked for it.
    """

    invitation: InvitationId
    user: UserId
    session: SessionId
    impersonator: UserId | None
    expires_at: datetime

    def signed(self, key: bytes) -> Token:
        """The token is checked with the key alone, so nothing is stored."""
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
    """None when we did not sign the token; then it may be a mailed token. The caller checks the expiry."""
    text = token.reveal()
    if len(text) != _LENGTH or not text.isascii():
        return None
    try:
        read = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:  # The decoder skips characters outside its alphabet, and then finds too few.
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
