"""Mails about an account: who may request one, and the links, tokens and codes in it."""

import hmac
import unicodedata
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from hashlib import sha256
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json, timestamp
from core.domain.identifiers import FlowId, OrganizationId, PasskeyId, ProposalId, SetupLinkId, UserId
from core.domain.identity.accounts import Account, Registration
from core.domain.identity.upstream.claims import AddedWay
from core.domain.jobs import CAN_WAIT, NewJob
from core.domain.languages import Language
from core.domain.mail import Email, named_account, naming
from core.domain.rate_limits import RateLimit
from core.domain.requests import is_just_past
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
    """The token in the link of a mail. It works once and is stored as a digest. Its holder thereby proves `email`, the address that the
    mail went to.

    Beside the link, a mail may carry a code of eight digits, to type in the browser that requested the mail. A code belongs to the link's
    row and does what the link does. The first use of one of the two ends both.
    """

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


ACCOUNT_MAIL_JOB: Final = "account.mail"


class AccountMail(StrEnum):
    """The values are the names of the templates."""

    VERIFICATION = "verification"
    RESET = "reset"
    SET_PASSWORD = "set_password"  # noqa: S105 - a kind of mail, not a password
    SIGN_IN_LINK = "sign_in_link"

    @property
    def purpose(self) -> MailedTokenPurpose:
        return _PURPOSES[self]

    @property
    def opens_a_way_of_ours(self) -> bool:
        """The link of such a mail signs a person in, now or with the password that the person chooses there."""
        return self is not AccountMail.VERIFICATION

    def is_due(self, account: Account, asked_at: datetime | None) -> bool:
        """A deactivated account gets no link, unless the link opens the account: somebody has to ask for the link after the deactivation. A
        verified account has nothing to verify. An unverified account gets no sign-in link, because a stranger may have registered its
        address. A locked account gets a link for a new password alone.
        """
        if account.awaits_new_password and self is not AccountMail.RESET:
            return False
        if account.is_shut or (account.deactivated_at is not None and (asked_at is None or asked_at <= account.deactivated_at)):
            return False
        match self:
            case AccountMail.VERIFICATION:
                # Verifying the address alone would not open a deactivated account.
                return not account.address_is_proved and account.deactivated_at is None
            case AccountMail.SIGN_IN_LINK:
                return account.address_is_proved
            case _:
                return True


_PURPOSES: Final = {
    AccountMail.VERIFICATION: MailedTokenPurpose.VERIFY_EMAIL,
    AccountMail.RESET: MailedTokenPurpose.RESET_PASSWORD,
    AccountMail.SET_PASSWORD: MailedTokenPurpose.SET_PASSWORD,
    AccountMail.SIGN_IN_LINK: MailedTokenPurpose.MAGIC_LINK,
}


class NoAccountMail(Exception):
    """The payload of this job asks for no account mail."""


class Onward(Frozen):
    """The place that a link leads to after its work is done: the flow in which the person asked for the link, an application, or the
    account pages.
    """

    flow: str = ""
    service: str = ""
    """The slug of a service of the organization whose looks the mail has."""
    redirect_uri: str = ""
    state: str = ""

    @property
    def asking(self) -> FlowId | None:
        """The flow in whose browser a code counts. None when no browser asked, and the mail has a link alone."""
        return FlowId(UUID(self.flow)) if self.flow else None


NOWHERE: Final = Onward()


class Waiting(Frozen):
    """A budget of mails has held the mail back until a moment. `network` is where the request came from."""

    until: datetime
    network: str

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "Waiting | None":
        until, network = payload.get("waits_until"), payload.get("network")
        return cls(datetime.fromisoformat(until), network) if isinstance(until, str) and isinstance(network, str) else None


class MailWaits(Exception):
    """A budget of mails holds the mail back until a moment."""

    def __init__(self, until: datetime) -> None:
        self.until = until
        super().__init__("a budget of mails holds it back")


class AskedMail(Frozen):
    """An account mail that anyone may request by naming an email address. The request only queues a job, and the job looks the account up.
    So a request costs the same for known and unknown addresses.

    `organization` is a slug; the mail takes its branding from that organization. `language` applies unless the account has another. A mail
    with `can_wait` goes after the mails that users wait for: a directory may cause a hundred thousand of them. `account` is None when a
    stranger asks, because strangers name only an address. `asked_at` is None when nobody has asked for the mail: an organization sends it.
    A mail that `waits` is one that an email rate limit has held back.
    """

    kind: AccountMail
    email: Email
    organization: str = ""
    language: Language | None = None
    onward: Onward = NOWHERE
    can_wait: bool = False
    account: UserId | None = None
    asked_at: datetime | None = None
    waits: Waiting | None = None

    def as_job(self) -> NewJob:
        """The job is sealed, because the addresses that strangers ask about are private."""
        asked = {"mail": self.kind.value, "email": self.email.address, "organization": self.organization, "language": self.language or ""}
        onward = {name: value for name in _ONWARD if (value := getattr(self.onward, name))}
        wait = {"can_wait": True} if self.can_wait else {}
        when = {} if self.asked_at is None else {"asked_at": timestamp(self.asked_at)}
        held = {} if self.waits is None else {"waits_until": timestamp(self.waits.until), "network": self.waits.network}
        payload = {**asked, **onward, **wait, **when, **held, **naming(self.account)}
        return NewJob(ACCOUNT_MAIL_JOB, payload, sealed=True, priority=self.priority)

    @property
    def priority(self) -> int:
        return CAN_WAIT if self.can_wait else 0

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "AskedMail":
        """Reads a payload that `as_job` made. Processes of older releases made payloads without a language or a time. Raises
        `NoAccountMail`.
        """
        kind, email, organization = (payload.get(part) for part in ("mail", "email", "organization"))
        if not (kind in set(AccountMail) and isinstance(email, str) and isinstance(organization, str)):
            raise NoAccountMail
        onward = Onward(**{name: str(payload.get(name, "")) for name in _ONWARD})
        language, can_wait = Language.of(str(payload.get("language"))), payload.get("can_wait") is True
        when = payload.get("asked_at")
        asked_at = datetime.fromisoformat(when) if isinstance(when, str) else None
        return cls(
            AccountMail(str(kind)),
            Email(email),
            organization,
            language,
            onward,
            can_wait,
            named_account(payload),
            asked_at,
            Waiting.of_job(payload),
        )


_ONWARD: Final = ("flow", "service", "redirect_uri", "state")


class Links(Frozen):
    """The links in mails. They lead to the configured URLs of this installation, never to a URL from a request. `base_url` is the URL of
    the installation, `frontend_url` the URL of its pages for users.
    """

    base_url: str
    frontend_url: str

    @property
    def sign_in(self) -> str:
        """The page for a person who can sign in now."""
        return f"{self.frontend_url}/sign-in" if self.frontend_url == f"{self.base_url}/ui" else self.frontend_url

    def redeeming(self, purpose: MailedTokenPurpose, token: Token, onward: Mapping[str, str] = MappingProxyType({})) -> str:
        """`onward` says where the person goes on after the link has signed them in, or has proved an address."""
        if purpose in PROVES_ADDRESS:
            return f"{self.base_url}/ui/verify-email?{urlencode({'token': token.reveal(), **onward})}"
        if purpose in SIGNS_IN:
            return f"{self.base_url}/ui/sign-in/link?{urlencode({'token': token.reveal(), **onward})}"
        page = "reset-password" if purpose is MailedTokenPurpose.RESET_PASSWORD else "set-password"
        return f"{self.frontend_url}/{page}?token={token.reveal()}"

    def lock(self, token: Token) -> str:
        """The page on which the reader of a mail locks the account."""
        return f"{self.base_url}/ui/lock-account?{urlencode({'token': token.reveal()})}"

    def passkey_removal(self, passkey: PasskeyId) -> str:
        """The page on which a person removes a passkey, once they are signed in."""
        return f"{self.base_url}/ui/passkeys/{passkey}/remove"

    def risk_way_back(self, organization: str, token: Token) -> str:
        """The page on which an owner lifts the rules that refuse."""
        return f"{self.base_url}/ui/organizations/{organization}/risk-rules?{urlencode({'token': token.reveal()})}"

    def installation_way_back(self, token: Token) -> str:
        """The page on which a platform owner lifts the rules of the installation that refuse."""
        return f"{self.base_url}/ui/lift-rules?{urlencode({'token': token.reveal()})}"

    def setup(self, token: Token) -> str:
        return f"{self.base_url}/ui/setup/{token.reveal()}"

    def setup_in_console(self, organization: str, link: SetupLinkId) -> str:
        """The page on which an owner decides."""
        return f"{self.base_url}/ui/o/{organization}/directories/setup-links/{link}/drafts"

    def proposal(self, organization: str, proposal: ProposalId) -> str:
        """The page on which an owner applies a proposal."""
        return f"{self.base_url}/ui/o/{organization}/settings/proposals/{proposal}"

    def ownership(self, organization: str) -> str:
        """The page on which a new owner says whether the organization is theirs."""
        return f"{self.base_url}/ui/organizations/{organization}/ownership"

    def organization(self, organization: str) -> str:
        """The page of an organization for its members."""
        return f"{self.base_url}/ui/organizations/{organization}"

    def organization_of_platform(self, organization: OrganizationId) -> str:
        """The page on which platform owners decide about the organization."""
        return f"{self.base_url}/ui/platform/organizations/{organization}"

    def invitation(self, token: Token) -> str:
        """The mailed link is short. When it is opened, it redirects to the configured frontend."""
        return f"{self.base_url}/invitations/accept?token={token.reveal()}"
