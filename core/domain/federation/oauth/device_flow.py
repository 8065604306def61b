"""The device authorization grant (RFC 8628): a device shows a short code, which the user enters in a browser, and polls for its session."""

import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar, Final, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from core.domain.branding import POSTERN, Branding
from core.domain.claims import NO_PROFILE, StandardProfile
from core.domain.errors import BadRequest, NotFound, OrganizationNotActive, RateLimited
from core.domain.federation.oauth.clients import RegisteredClient
from core.domain.federation.oauth.refusals import InvalidGrant
from core.domain.federation.oauth.resources import NO_DEMAND, SignInDemand
from core.domain.identifiers import ClientId, DeviceCodeId, SessionId, UserId
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import Context
from core.domain.rate_limits import RateLimit
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Secret
from core.domain.tokens import NO_AUDIENCES, TokenAudience, TokenAudiences
from core.frozen import Frozen

# The provider in the login events of such sign-ins.
PROVIDER: Final = "device"
# The page on which people enter the code, unless the service has a page of its own for that.
ACTIVATION_PAGE: Final = "/ui/device"
LIFETIME: Final = timedelta(seconds=300)
INTERVAL: Final = 5
"""In seconds: a device must wait for so long before it polls again."""
SLOWER: Final = 5
"""In seconds: a device that polls too soon must wait so much longer from then on."""
# The time that a request takes varies. A device that waits exactly as long as it must is never slowed down.
LENIENCY: Final = timedelta(seconds=0.5)
SAME_TRY: Final = timedelta(seconds=1)
"""A poll with the credential in the body, so soon after one with the credential in the header, is the same try. A library that does not
know how its client authenticates first uses the header. Any answer but tokens looks like a failure to this library, so it uses the body at
once (golang.org/x/oauth2).
"""
# Letters that nobody mistakes for one another. There are no vowels, so that the letters spell no words. 20 to the 8th is 2 to the 34th (RFC
# 8628 section 6.1).
USER_CODE_ALPHABET: Final = "BCDFGHJKLMNPQRSTVWXZ"
USER_CODE_LENGTH: Final = 8
LONGEST_USER_CODE: Final = 100
"""The limit for typed codes, with everything that people put between the letters."""

# How often one person may enter a code, from all addresses together.
ENTRIES_OF_PERSON: Final = RateLimit("user_code_person", burst=10, seconds_per_request=30)


class DeviceCodePending(BadRequest):
    code = "DEVICE_CODE_PENDING"
    oauth_error: ClassVar = "authorization_pending"
    text = "The device is not approved yet: ask again after the interval"


class SlowDown(DeviceCodePending):
    oauth_error: ClassVar = "slow_down"
    text = f"The device polls too often: from now on, wait {SLOWER} seconds longer each time"


class TooManyPolls(RateLimited):
    """Too many polls from one address, or by one client. The error code is that of `SlowDown`: after any other code but
    `authorization_pending`, a device gives up (RFC 8628 section 3.5).
    """

    oauth_error: ClassVar = "slow_down"


class DeviceCodeExpired(BadRequest):
    code = "DEVICE_CODE_EXPIRED"
    oauth_error: ClassVar = "expired_token"
    text = "The code has expired: start again"


class DeviceDenied(BadRequest):
    oauth_error: ClassVar = "access_denied"
    text = "The device was not approved"


class UserCodeUnknown(NotFound):
    text = "This code is not valid, or has been used"

    def __init__(self) -> None:
        super().__init__(words="user_code_unknown")


class DeviceCodeState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    CONSUMED = "consumed"
    """The device has its session."""


class DeviceStep(StrEnum):
    """The steps of a device flow. A closed list, because it is the label of a metric."""

    STARTED = "started"
    APPROVED = "approved"
    DENIED = "denied"
    LET_IN = "let_in"


class AskingDevice(Frozen, kw_only=True):
    """The device that asks for the code, as far as the request describes it."""

    address: str | None
    user_agent: str | None


class AskingClient(Frozen, kw_only=True):
    """The service as the device names it: by its client id, and, if the device knows them, by its organization's slug and its own."""

    id: ClientId
    organization: str | None = None
    service: str | None = None


class NewDeviceCode(Frozen, kw_only=True):
    """The stored form of a new code. The device alone has the device code, and the user code is only on its screen."""

    id: DeviceCodeId
    digest: bytes
    user_code_hmac: bytes
    scopes: tuple[str, ...]
    audiences: Sequence[TokenAudience] = ()
    """The APIs that the device wants tokens for, with the scopes that it asks for there."""
    asker: AskingDevice
    created_at: datetime

    @property
    def expires_at(self) -> datetime:
        return self.created_at + LIFETIME


class AskedFor(Frozen, kw_only=True):
    """The result of a request for a code."""

    is_open: bool
    """The service's organization is active."""
    activation_uri: str | None
    """The service's own page for entering the code."""
    is_added: bool
    """False when another device shows the same user code at this moment."""
    is_agent: bool = False
    """The client acts for people. It gets no code."""
    holds_fapi2: bool = False
    """It holds the FAPI 2.0 Security Profile, and gets none either."""


class DeviceAuthorization(Frozen, kw_only=True):
    """The answer that the device gets."""

    device_code: Secret
    user_code: Secret
    verification_uri: str
    verification_uri_complete: Secret
    expires_in: int = int(LIFETIME.total_seconds())
    interval: int = INTERVAL


class EnteredResource(NamedTuple):
    """An API that a device wants tokens for, as the page shows it."""

    name: str
    identifier: str
    scopes: Sequence[str]
    """What the scopes allow, in the words of the API's owners."""


class EnteredCode(Frozen, kw_only=True):
    """The data for the page on which a person has entered the user code: which device the person lets in, and to which service."""

    id: DeviceCodeId
    state: DeviceCodeState
    context: Context
    service_name: str
    organization_name: str
    is_open: bool
    scopes: tuple[str, ...]
    resources: Sequence[EnteredResource] = ()
    asker: AskingDevice
    created_at: datetime
    expires_at: datetime
    user: UserId | None = None
    """The person who has decided."""
    branding: Branding = POSTERN
    logo: str | None = None
    """The path of the service's own picture."""
    demand: SignInDemand = NO_DEMAND
    """What the asked scopes of APIs ask of the sign-in. Without it, the device gets none of the scopes that ask for a second factor."""
    session_lifetime: timedelta | None = None
    """How long the organization lets sessions last after the sign-in. None when the organization sets no limit."""

    def outlasts(self, proved: Proved, now: datetime) -> bool:
        """Whether the sign-in is younger than a session of the device may become. With an older sign-in, the session would be over before
        it begins.
        """
        return self.session_lifetime is None or (proved.at is not None and now - proved.at < self.session_lifetime)

    def require_pending(self, now: datetime) -> None:
        """Raises `UserCodeUnknown`, `DeviceCodeExpired`, or `OrganizationNotActive`."""
        if self.state is not DeviceCodeState.PENDING:
            raise UserCodeUnknown
        if now >= self.expires_at:
            raise DeviceCodeExpired
        if not self.is_open:
            raise OrganizationNotActive


class DeviceDecision(Frozen, kw_only=True):
    """The person who has approved a device, and the time."""

    code: DeviceCodeId
    user: UserId
    at: datetime


class PolledCode(Frozen, kw_only=True):
    """A device code as a poll found it."""

    state: DeviceCodeState
    expires_at: datetime
    is_slowed: bool
    """The poll came too soon after the previous one."""
    approved: DeviceDecision | None
    """None unless the state is APPROVED."""


class Poll(Frozen, kw_only=True):
    """The client that polls, and its device code. `code` is None when the code is not this client's."""

    client: RegisteredClient
    code: PolledCode | None


def may_show_nothing(client: RegisteredClient) -> bool:
    """The device code alone is enough, because the client has nothing to authenticate with."""
    return client.is_public or (not client.has_secret and client.keys is None)


def approved(found: PolledCode | None, now: datetime) -> DeviceDecision:
    """The decision that a poll waits for. A decision is given even to a poll that came too soon: nobody waits longer for good news. Only
    the expiry comes first. Raises `DeviceCodePending`, `SlowDown`, `DeviceDenied`, `DeviceCodeExpired`, `InvalidGrant`.
    """
    if found is None or found.state is DeviceCodeState.CONSUMED:
        raise InvalidGrant
    if now >= found.expires_at:
        raise DeviceCodeExpired
    if found.approved is not None:
        return found.approved
    if found.state is DeviceCodeState.DENIED:
        raise DeviceDenied
    raise SlowDown if found.is_slowed else DeviceCodePending


class DeviceApproval(Frozen, kw_only=True):
    """The beginning of a device's session: the person's proof at the moment of the approval."""

    scopes: tuple[str, ...]
    proved: Proved
    authenticated_by: tuple[str, ...]
    role: str
    """The person's role in the organization of the service. Empty for a person who is no member."""
    profile: StandardProfile = NO_PROFILE
    granted: Sequence[TokenAudience] = ()
    """The APIs that the person has approved."""
    audiences: TokenAudiences = NO_AUDIENCES
    session: SessionId | None = None
    """The session in which the person approved."""


def read_user_code(text: str) -> Secret | None:
    """The code that somebody typed: in small letters, with or without the hyphen, with spaces. None when the text cannot be a code."""
    if len(text) > LONGEST_USER_CODE:
        return None
    letters = "".join(character for character in text.upper() if character.isalnum())
    if len(letters) != USER_CODE_LENGTH or not set(letters) <= set(USER_CODE_ALPHABET):
        return None
    return Secret(letters)


def as_shown(user_code: Secret) -> str:
    letters = user_code.reveal()
    return f"{letters[:4]}-{letters[4:]}"


def user_code_hmac(user_code: Secret, key: bytes) -> bytes:
    """The stored form of the user code. The code is too short for a plain digest: all codes can be tried in minutes."""
    return hmac.digest(key, user_code.reveal().encode(), sha256)


def masked(user_code: Secret, browser: Secret, code: DeviceCodeId) -> str:
    """The stored form of the user code during a sign-in. The mask comes from the secret in the browser's cookie, so the database alone
    cannot reveal the code.
    """
    return _shifted(user_code.reveal(), _mask(browser, code))


def unmasked(text: str, browser: Secret, code: DeviceCodeId) -> Secret:
    return Secret(_shifted(text, [-shift for shift in _mask(browser, code)]))


def _mask(browser: Secret, code: DeviceCodeId) -> Sequence[int]:
    digest = hmac.digest(browser.reveal().encode(), b"user code " + code.bytes, sha256)
    return [int.from_bytes(digest[4 * place : 4 * place + 4]) for place in range(USER_CODE_LENGTH)]


def _shifted(letters: str, shifts: Sequence[int]) -> str:
    numbers = (USER_CODE_ALPHABET.index(letter) + shift for letter, shift in zip(letters, shifts, strict=True))
    return "".join(USER_CODE_ALPHABET[number % len(USER_CODE_ALPHABET)] for number in numbers)


def complete_uri(verification_uri: str, user_code: Secret) -> Secret:
    """The page with the code filled in. A device can show this address as a picture to scan."""
    parts = urlsplit(verification_uri)
    query = f"{parts.query}&" if parts.query else ""
    return Secret(urlunsplit(parts._replace(query=f"{query}user_code={quote(as_shown(user_code))}")))


def device_approved(code: EnteredCode, actor: Actor) -> Event:
    target = Target("service", str(code.context.service))
    return Event("user.device.approved", actor, target, code.context.organization, {"device_code_id": str(code.id)})


def device_denied(code: EnteredCode, actor: Actor) -> Event:
    # The organization does not get this event: a person who refuses a device does not become a user of the service.
    details = {"device_code_id": str(code.id), "service_id": str(code.context.service)}
    return Event("user.device.denied", actor, Target("user", str(actor.user)), details=details)
