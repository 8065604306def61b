"""Mailed tokens: the tokens in the links of mails. Each works once and is stored as a digest. Its holder thereby proves the address that
the mail went to.

Beside the link, a mail may carry a code of eight digits, to type in the browser that asked for the mail. A code belongs to the link's row
and does what the link does. The first use of one of the two ends both.
"""

import hmac
import unicodedata
from base64 import urlsafe_b64encode
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from hashlib import sha256
from typing import Final

from core.domain.email import Email
from core.domain.errors import BadRequest
from core.domain.identifiers import FlowId, UserId
from core.domain.identity.accounts import Registration
from core.domain.identity.upstream.vouching import AddedWay
from core.domain.rate_limits import RateLimit
from core.domain.repeats import is_just_past
from core.domain.secrets import Secret, Token
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
    PROVE = "prove"
    """A code that renews the proof of one session. The mail has no link."""

    @property
    def lifetime(self) -> timedelta:
        return _LIFETIMES.get(self, timedelta(hours=24))


_LIFETIMES: Final = {
    MailedTokenPurpose.RESET_PASSWORD: timedelta(hours=1),
    MailedTokenPurpose.SIGN_IN: timedelta(minutes=10),
    MailedTokenPurpose.MAGIC_LINK: timedelta(minutes=15),
    MailedTokenPurpose.PROVE: timedelta(minutes=15),
}

# The groups of purposes, by what a link does.
PROVES_ADDRESS = frozenset({MailedTokenPurpose.VERIFY_EMAIL, MailedTokenPurpose.CHANGE_EMAIL})
CHOOSES_PASSWORD = frozenset({MailedTokenPurpose.RESET_PASSWORD, MailedTokenPurpose.SET_PASSWORD})
SIGNS_IN = frozenset({MailedTokenPurpose.SIGN_IN, MailedTokenPurpose.MAGIC_LINK})

CODE_DIGITS: Final = "0123456789"
CODE_LENGTH: Final = 8
LONGEST_TYPED_CODE: Final = 32
"""A form may send this many characters, since a pasted code may come with spaces and hyphens."""
MOST_CODE_TRIES: Final = 5
"""For each mail, the right code included. Afterwards only the link works."""

# For each address, over all of its mails and whether or not it has an account. Right codes count too; the links have no such limit.
MAILED_CODES: Final = RateLimit("mailed_codes", burst=10, seconds_per_request=300)


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
    """The flow whose browser may use the code beside the link; for a proof, the id of the session. None when the mail has no code."""
    code_digest: bytes | None = None
    """See the function `code_digest`. Only `MailedTokenStore.try_codes` reads it."""

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
    """The registration has no password, or an organization's own provider has vouched for the address and nobody is signed in here. The
    page asks for a new one, before which everything goes that nobody has proved.
    """
    WHAT_STAYS = auto()
    """An organization's own provider has vouched for the address, and the person is signed in in this browser: what was not made here stays
    only if the person says so.
    """


class Doubt(Frozen):
    """A link that works, before the person has decided about it."""

    purpose: MailedTokenPurpose
    email: Email
    """The address that the person confirms or refuses."""
    asked: AskedOnPage
    is_vouched: bool = False
    """An organization's own provider has vouched for the address."""
    added: tuple[AddedWay, ...] = ()
    """What stays only if the person says so."""


class Settled(Enum):
    """The decision about the address."""

    PROVED = auto()
    REFUSED = auto()
    """The holder of the address said that somebody else had named it."""


def asked_of(link: MailedToken, registration: Registration | None, browser: Token | None, signed_in: UserId | None = None) -> AskedOnPage:
    """`registration` belongs to the link's account, and is None once its address is proved. `signed_in` is the person whose session the
    browser has. Raises `LinkRefused`.
    """
    if link.purpose is MailedTokenPurpose.CHANGE_EMAIL:
        return AskedOnPage.NOTHING
    if registration is None:
        raise link_used()
    if registration.is_vouched:
        return AskedOnPage.WHAT_STAYS if signed_in == link.user else AskedOnPage.NEW_PASSWORD
    if registration.was_made_in(browser):
        return AskedOnPage.NOTHING
    return AskedOnPage.NEW_PASSWORD if registration.encoded is None else AskedOnPage.PASSWORD


class CodeRefused(BadRequest):
    """The code is wrong, or no longer works. The answer is the same for every address, also for one without an account."""

    def __init__(self) -> None:
        super().__init__("This code is wrong, or it no longer works", words="mailed_code_refused")


def read_code(typed: str) -> Secret:
    """Reads what a person has typed or pasted. Spaces and hyphens do not matter. Raises `BadRequest`, which is no try."""
    kept = "".join(character for character in typed if not character.isspace() and unicodedata.category(character) not in {"Pd", "Cf"})
    if len(kept) != CODE_LENGTH or not set(kept) <= set(CODE_DIGITS):
        raise BadRequest(f"code: must have {CODE_LENGTH} digits", words="mailed_code_malformed")
    return Secret(kept)


def code_digest(code: Secret, link: bytes, flow: FlowId, email: Email, key: bytes) -> bytes:
    """The keyed digest of a code, for the link with this digest. All codes can be tried in a minute, so the key is one that the database
    alone does not give away. The code counts only in this flow, and only while the flow is about this address.
    """
    bound = link + flow.bytes + code.reveal().encode() + email.key.encode("utf-8", "surrogatepass")
    return hmac.digest(key, b"code " + bound, sha256)


def exchanged_token(code: Secret, link: bytes, browser: Secret, key: bytes) -> Token:
    """The token that takes the link's place, for a page that goes on with a token. It is derived, because a browser that sends its form
    twice drops the first answer, and must find the same token in the second.
    """
    bound = link + browser.reveal().encode("utf-8", "surrogatepass") + code.reveal().encode()
    return Token(urlsafe_b64encode(hmac.digest(key, b"exchange " + bound, sha256)).rstrip(b"=").decode())
