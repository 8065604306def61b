"""Mailed tokens: the tokens in the links of mails. Each works once and is stored as a digest. Its holder thereby proves the address that
the mail went to.
"""

from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import FlowId, UserId
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
    """This token is shown to an operator, and never mailed."""
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

# The groups of purposes, by what a link does.
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
    flow: FlowId | None = None
    """The flow whose browser may use the code beside the link. None when the mail has no code."""
    code_digest: bytes | None = None
    """See `code_digest` of `mailed_codes`. Only `MailedTokenStore.try_codes` reads it."""

    def is_usable(self, now: datetime) -> bool:
        return self.used_at is None and now < self.expires_at

    def was_just_used(self, now: datetime) -> bool:
        """The token was used a moment ago, perhaps by the first of two equal forms."""
        return is_just_past(self.used_at, now)


def mailed_token(token: Token, purpose: MailedTokenPurpose, user: UserId, email: Email, now: datetime) -> MailedToken:
    return MailedToken(token.digest(), purpose, user, email, created_at=now, expires_at=now + purpose.lifetime)


class LinkRefused(BadRequest):
    """The reason why a link does not work. Only the holder of the link learns it."""


class LinkUnknown(LinkRefused):
    """Such a link never existed, or its account is gone."""


def refusal_of(token: MailedToken | None) -> LinkRefused:
    """The reason why a link could not be redeemed."""
    if token is None:
        return LinkUnknown("This link is not valid", words="link_invalid")
    if token.used_at is not None:
        return link_used()
    return LinkRefused("This link has expired", words="link_expired")


def link_used() -> LinkRefused:
    """Also the answer when something else has done the link's work."""
    return LinkRefused("This link has been used, or a newer one has replaced it", words="link_used")


class AskedOnPage(Enum):
    """The input that the page asks for, besides the button."""

    NOTHING = auto()
    PASSWORD = auto()
    """The password that was chosen at the registration. A person who does not know it can choose a new one, which first removes everything
    that nobody has proved.
    """
    NEW_PASSWORD = auto()
    """The registration has no password, so the page asks for a new one."""


class Doubt(Frozen):
    """A link that works, before the person has decided about it."""

    purpose: MailedTokenPurpose
    email: Email
    """The address that the person confirms or refuses."""
    asked: AskedOnPage


class Settled(Enum):
    """The decision about the address."""

    PROVED = auto()
    REFUSED = auto()
    """The holder of the address said that somebody else had named it."""


def asked_of(link: MailedToken, registration: Registration | None, browser: Token | None) -> AskedOnPage:
    """`registration` belongs to the link's account, and is None once its address is proved. Raises `LinkRefused`."""
    if link.purpose is MailedTokenPurpose.CHANGE_EMAIL:
        return AskedOnPage.NOTHING
    if registration is None:
        raise link_used()
    if registration.was_made_in(browser):
        return AskedOnPage.NOTHING
    return AskedOnPage.NEW_PASSWORD if registration.encoded is None else AskedOnPage.PASSWORD
