"""Callers: the person that a valid session stands for."""

from enum import Enum, auto
from typing import Final

from core.domain.email import Email
from core.domain.errors import Forbidden, SecondFactorRequired
from core.domain.identifiers import DeviceId, OrganizationId, SessionId, UserId
from core.domain.identity.proofs import UNPROVED, Proved
from core.domain.languages import Language
from core.frozen import Frozen, field

NOT_A_MEMBER: Final = "You are not a member of this organization"


def members_only() -> Forbidden:
    """The sign-in policy of a service does not admit the person."""
    return Forbidden("This service lets in only members of its organization", words="members_only")


def require_admitted(*, is_admitted: bool, owes_second_factor: bool) -> None:
    """To a service: by its sign-in policy, and by the second factor that its organization may require. Raises `Forbidden`,
    `SecondFactorRequired`.
    """
    if not is_admitted:
        raise members_only()
    if owes_second_factor:
        raise SecondFactorRequired


class CallerContext(Enum):
    """What a session is for."""

    PLATFORM = auto()
    ORGANIZATION = auto()
    SERVICE = auto()
    """An application holds it and acts for the person who signed in there."""


class Caller(Frozen):
    """Who is calling: the token's claims, confirmed by the database for this request."""

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
    """In the organization; empty for a person who is not, or is no longer, a member."""
    organization_is_active: bool = False
    proved: Proved = UNPROVED
    """When they last proved who they are. Looked up for browsers alone; others ask when something needs it."""
    chosen_organization: str = ""
    """The slug of the one whose affairs they look after in their browser. It opens nothing by itself, as the session is on the platform."""
    language: Language | None = None
    """The one that the person has chosen."""
    email_is_verified: bool = False
    belongs_to_several: bool | None = None
    """Organizations. None: nobody looked. Known to whoever has just signed in."""
    is_listed: bool = False
    """Some organization lists them as its member, and they have not said yet whether they belong there. Looked up for browsers alone."""
    is_admitted: bool = True
    """The sign-in policy of the session's service lets them in."""
    owes_second_factor: bool = False
    """The organization of the session requires one of its members, and the time in which to set it up is over. Looked up for sessions in a
    service alone.
    """
    scopes: tuple[str, ...] | None = None
    """What the calling application was given. None: no application was given this session."""

    @property
    def context(self) -> CallerContext:
        if self.service:
            return CallerContext.SERVICE
        return CallerContext.ORGANIZATION if self.organization else CallerContext.PLATFORM


class Participation(Enum):
    """How a caller must relate to the organization that their token names, if it names one."""

    ACTIVE = auto()
    """The caller is a member and the organization is active. End users of its services need not be members."""
    MEMBER = auto()
    """The same, but the organization may be suspended or still pending."""
