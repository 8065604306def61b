"""Callers: who acts by a valid session, in their own name or as an impersonator."""

from datetime import datetime
from enum import Enum, auto
from typing import Final

from core.domain.errors import BadRequest, Forbidden, SecondFactorRequired, TermsRequired
from core.domain.formats import timestamp
from core.domain.identifiers import DeviceId, ImpersonationId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.profiles import NO_PROFILE, OwnProfile
from core.domain.identity.proofs import UNPROVED, Proved
from core.domain.identity.sessions import Context
from core.domain.languages import Language
from core.domain.lines import LONGEST_TYPED, one_line
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen, field

NOT_A_MEMBER: Final = "You are not a member of this organization"


def members_only() -> Forbidden:
    """The sign-in policy of a service does not admit the person."""
    return Forbidden("Only members of the organization, or people with a role of this service, can sign in to it", words="members_only")


def require_admitted(*, is_admitted: bool, owes_second_factor: bool, owes_terms: bool = False) -> None:
    """Refuses people whom the sign-in policy of a service does not admit, members who owe its organization a second factor, and people who
    have not accepted terms in time. Raises `Forbidden`, `SecondFactorRequired`, `TermsRequired`.
    """
    if not is_admitted:
        raise members_only()
    if owes_second_factor:
        raise SecondFactorRequired
    if owes_terms:
        raise TermsRequired


class CallerContext(Enum):
    """The place that a session is for."""

    PLATFORM = auto()
    ORGANIZATION = auto()
    SERVICE = auto()
    """An application holds the session, and acts for the person who signed in there."""


class Caller(Frozen):
    """The caller of a request: the token's claims, confirmed by the database for this request."""

    user: UserId
    email: Email
    session: SessionId
    is_platform_owner: bool
    organization: str = ""
    service: str = ""
    impersonator: UserId | None = None
    authentication_methods: tuple[str, ...] = field(default=())
    device: DeviceId | None = None
    organization_id: OrganizationId | None = None
    role: str = ""
    """The person's role in the organization. Empty when the person is not, or is no longer, a member."""
    organization_is_active: bool = False
    proved: Proved = UNPROVED
    """When the person last gave a proof. Filled for browsers alone; other code looks it up when it needs it."""
    chosen_organization: str = ""
    """The slug of the organization that the person looks after in a browser. The slug opens nothing by itself, as the session is on the
    platform.
    """
    language: Language | None = None
    """The language that the person has chosen."""
    profile: OwnProfile = NO_PROFILE
    email_is_verified: bool = False
    belongs_to_several: bool | None = None
    """Whether the person is a member of several organizations. Only a sign-in fills it; otherwise it is None."""
    is_listed: bool = False
    """Some organization lists the person as its member, and the person has not said yet whether this is right. Filled for browsers alone.
    """
    is_admitted: bool = True
    """The sign-in policy of the session's service admits the person."""
    owes_second_factor: bool = False
    """The organization of the session requires a second factor of this member, and the time to set one up is over. Filled for sessions in a
    service alone.
    """
    owes_terms: bool = False
    """The time to accept terms is over. In a service, of its organization or of the installation; elsewhere, of the installation, and
    filled for platform owners alone.
    """
    scopes: tuple[str, ...] | None = None
    """The scopes of the calling application. None when the session was not given to an application."""
    facts_of: ServiceId | None = None
    """The service of the session, if it may learn more of the person than the account: see `OpenedSession.tells_more`. Filled for userinfo
    alone.
    """

    @property
    def context(self) -> CallerContext:
        if self.service:
            return CallerContext.SERVICE
        return CallerContext.ORGANIZATION if self.organization else CallerContext.PLATFORM


class Participation(Enum):
    """How the caller must relate to the organization that the token names, if the token names one."""

    ACTIVE = auto()
    """The caller is a member and the organization is active. End users of its services need not be members."""
    MEMBER = auto()
    """The caller is a member, and the organization may be active, suspended or pending."""


LONGEST_REASON = 500
# Our own paths are well below this length; a path that is cut off names nothing that exists.
LONGEST_PATH = 500


class Impersonation(Frozen):
    """A platform owner acts in a user's name, for a stated reason, for an hour at most."""

    id: ImpersonationId
    impersonator: UserId
    user: UserId
    reason: str
    session: SessionId
    created_at: datetime
    expires_at: datetime

    def started(self, context: Context, actor: Actor) -> Event:
        details = {"impersonation_session": str(self.id), "expires_at": timestamp(self.expires_at)}
        if context.service is not None:
            details["service_id"] = str(context.service)
        # It must be possible to forget the reason: it is a text that somebody wrote about a person.
        personal = {"reason": self.reason}
        target = Target("user", str(self.user))
        return Event("security.impersonation.started", actor, target, context.organization, details, personal=personal)


def request_made(user: UserId, organization: OrganizationId | None, method: str, path: str, actor: Actor) -> Event:
    """One request in the user's name. Webhooks get only the start of an impersonation; hundreds of these events would tell them nothing
    more.
    """
    details = {"method": method, "path": path[:LONGEST_PATH]}
    return Event("security.impersonation.request", actor, Target("user", str(user)), organization, details)


def reason_of(text: str) -> str:
    """The reason, which is all that a later reader of the audit log has. Raises `BadRequest`."""
    reason = reason_given(text)
    if reason is None:
        raise BadRequest("reason: must not be empty")
    return reason


def reason_given(text: str) -> str | None:
    """The reason as it is stored. None when nothing of it would be visible. Raises `BadRequest` when it is too long."""
    reason = one_line(text) if len(text) <= LONGEST_TYPED else text
    if len(reason) > LONGEST_REASON:
        raise BadRequest(f"reason: at most {LONGEST_REASON} characters")
    return reason or None
