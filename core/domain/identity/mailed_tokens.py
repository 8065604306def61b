"""Mailed tokens: what the links in mails carry. Each works once and is stored as a digest. Holding one proves the address that it was
mailed to.
"""

from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
from core.domain.identity.accounts import Registration
from core.domain.repeats import is_just_past
from core.domain.secrets import Token
from core.frozen import Frozen


class MailedTokenPurpose(StrEnum):
    VERIFY_EMAIL = "verify_email"
    RESET_PASSWORD = "reset_password"  # noqa: S105 - a purpose, not a password
    SET_PASSWORD = "set_password"  # noqa: S105
    CHANGE_EMAIL = "change_email"
    SIGN_IN = "sign_in"
    """Shown to an operator, and never mailed."""
    MAGIC_LINK = "magic_link"
    """A sign-in link that the person asked for."""

    @property
    def lifetime(self) -> timedelta:
        return _LIFETIMES.get(self, timedelta(hours=24))


_LIFETIMES: Final = {
    MailedTokenPurpose.RESET_PASSWORD: timedelta(hours=1),
    MailedTokenPurpose.SIGN_IN: timedelta(minutes=10),
    MailedTokenPurpose.MAGIC_LINK: timedelta(minutes=15),
}

# What a link can be used for.
PROVES_ADDRESS = frozenset({MailedTokenPurpose.VERIFY_EMAIL, MailedTokenPurpose.CHANGE_EMAIL})
CHOOSES_PASSWORD = frozenset({MailedTokenPurpose.RESET_PASSWORD, MailedTokenPurpose.SET_PASSWORD})
SIGNS_IN = frozenset({MailedTokenPurpose.SIGN_IN, MailedTokenPurpose.MAGIC_LINK})


class MailedToken(Frozen):
    """`email` is the address that the token proves."""

    digest: bytes
    purpose: MailedTokenPurpose
    user: UserId
    email: Email
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None

    def is_usable(self, now: datetime) -> bool:
        return self.used_at is None and now < self.expires_at

    def was_just_used(self, now: datetime) -> bool:
        """Perhaps by the first of two equal forms."""
        return is_just_past(self.used_at, now)


def mailed_token(token: Token, purpose: MailedTokenPurpose, user: UserId, email: Email, now: datetime) -> MailedToken:
    return MailedToken(token.digest(), purpose, user, email, created_at=now, expires_at=now + purpose.lifetime)


class LinkRefused(BadRequest):
    """Why a link does nothing, or no longer does anything. Only its holder learns this."""


class LinkUnknown(LinkRefused):
    """There never was such a link, or its account is gone."""


def refusal_of(token: MailedToken | None) -> LinkRefused:
    """Why a link could not be redeemed."""
    if token is None:
        return LinkUnknown("This link is not valid", words="link_invalid")
    if token.used_at is not None:
        return link_used()
    return LinkRefused("This link has expired", words="link_expired")


def link_used() -> LinkRefused:
    """Also where its work has been done in another way."""
    return LinkRefused("This link has been used, or a newer one has replaced it", words="link_used")


class AskedOnPage(Enum):
    """What the page asks for, besides the button."""

    NOTHING = auto()
    PASSWORD = auto()
    """The one that was chosen at the registration; or a new one, before which everything ends that nobody has proved."""
    NEW_PASSWORD = auto()
    """There is none."""


class Doubt(Frozen):
    """A link that works, before anything is done about it."""

    purpose: MailedTokenPurpose
    email: Email
    """The address in question."""
    asked: AskedOnPage


class Settled(Enum):
    """What has become of the address in question."""

    PROVED = auto()
    REFUSED = auto()
    """Its holder said that somebody else had named it."""


def asked_of(link: MailedToken, registration: Registration | None, browser: Token | None) -> AskedOnPage:
    """`registration` is of the link's account, and None once its address is proved. Raises `LinkRefused`."""
    if link.purpose is MailedTokenPurpose.CHANGE_EMAIL:
        return AskedOnPage.NOTHING
    if registration is None:
        raise link_used()
    if registration.was_made_in(browser):
        return AskedOnPage.NOTHING
    return AskedOnPage.NEW_PASSWORD if registration.encoded is None else AskedOnPage.PASSWORD
