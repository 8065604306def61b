"""Mailed tokens: what the links in mails carry. Each works once and is stored as a digest. Holding one proves the address that it was
mailed to.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import UserId
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


def refusal_of(token: MailedToken | None) -> LinkRefused:
    """Why a link could not be redeemed."""
    if token is None:
        return LinkRefused("This link is not valid", words="link_invalid")
    if token.used_at is not None:
        return LinkRefused("This link has been used, or a newer one has replaced it", words="link_used")
    return LinkRefused("This link has expired", words="link_expired")
