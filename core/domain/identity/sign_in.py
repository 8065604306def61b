"""Signing in: what is looked up before a password is verified, the outcomes, and the rate limits."""

from collections import OrderedDict
from datetime import datetime
from enum import IntEnum
from hashlib import sha256
from typing import Final

from core.domain.errors import BadRequest, Forbidden, NotFound, OrganizationNotActive
from core.domain.identifiers import DeviceId, FlowId, IdentityId, OrganizationId, PreauthenticationId, ServiceId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.callers import require_admitted
from core.domain.identity.devices import Remembered
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.mfa import MfaMethod
from core.domain.identity.passkeys import KEY_METHODS
from core.domain.identity.passwords import AtSignIn
from core.domain.identity.realms import Realm
from core.domain.identity.risk import Knowledge, Sighting
from core.domain.identity.risk_policies.verdicts import AskedRules
from core.domain.identity.sessions import NO_SUBSCRIPTION, PLATFORM, Context, SubscriptionState, TokenPair
from core.domain.identity.terms import PendingTerms
from core.domain.key_proofs import KeyThumbprint, lacks_key
from core.domain.mail import Email
from core.domain.rate_limits import RateLimit, client_key
from core.domain.secrets import Token
from core.frozen import Frozen

# Values of `LoginEvent.provider`. Other modules have the rest.
PASSWORD_PROVIDER: Final = "password"  # noqa: S105 - a way in, not a password
LINK_PROVIDER: Final = "link"
# Of an application's sign-in that rests on an existing browser session.
SESSION_PROVIDER: Final = "session"

# How often anyone may try one account's password, from all addresses together. A successful try does not count. A device that has shown its
# token has a bucket of its own: a stranger who empties the shared bucket does not affect this device.
TRIES_FROM_ANYWHERE: Final = RateLimit("sign_in_account", burst=10, seconds_per_request=60)
TRIES_FROM_DEVICE: Final = RateLimit("sign_in_device", burst=10, seconds_per_request=60)


def account_key(email: Email) -> str:
    """Names the bucket of tries from anywhere. Addresses without an account get such a key too, and nobody can read the address from it."""
    return sha256(email.key.encode("utf-8", "surrogatepass")).hexdigest()


class Tries(Frozen):
    """The bucket that a try has taken its token from. `wait` is the number of seconds to wait when the bucket was empty."""

    limit: RateLimit
    key: str
    wait: float


TOKENS_BOUND: Final = (
    "The tokens of this service are bound to a key: sign in through /oauth/authorize, and redeem the code with a DPoP proof"
)


class ServiceName(Frozen):
    """A service, by two slugs: its organization's and its own."""

    organization: str
    service: str


def service_named(organization: str, service: str) -> ServiceName | None:
    """None when the request names no service: nobody can sign in to an organization alone. Raises `BadRequest`."""
    if not service:
        return None
    if not organization:
        raise BadRequest("service_slug: needs org_slug, the organization of the service")
    return ServiceName(organization, service)


class Destination(Frozen):
    """A service that somebody wants to sign in to."""

    context: Context
    is_open: bool
    """The organization of the service is active."""
    admits: bool = True
    """The sign-in policy of the service admits the person. True as long as nobody knows who the person is."""
    owes_second_factor: bool = False
    """The organization requires a second factor of this member, and the time to set one up is over."""
    owes_terms: bool = False
    """The time to accept terms of the organization, or of the installation, is over for this person."""
    is_agent: bool = False
    """The service acts for people, and signs nobody in."""
    binds_tokens: bool = False
    """The service gets only tokens that are bound to a key."""


def context_in(named: ServiceName | None, found: Destination | None, *, gives_tokens: bool = True) -> Context:
    """The place of the new session. Raises the errors of `open_context`."""
    return PLATFORM if named is None else open_context(found, gives_tokens=gives_tokens)


def open_context(destination: Destination | None, *, key: KeyThumbprint | None = None, gives_tokens: bool = True) -> Context:
    """The place of a new session at the destination, if the session may be opened there. `key` is the key that the session's tokens will be
    bound to, and None binds them to nothing; without `gives_tokens`, this step gives no tokens. Raises `NotFound` for no destination,
    `OrganizationNotActive`, `Forbidden` when the service is an agent, wants its tokens bound and gets no key, or does not admit the person,
    `SecondFactorRequired`, and `TermsRequired`.
    """
    if destination is None:
        raise NotFound("Service not found", words="service_unknown")
    if not destination.is_open:
        raise OrganizationNotActive
    if destination.is_agent:
        raise Forbidden(
            "This service is an agent: it acts for people at APIs, and people cannot sign in to it", words="agent_signs_nobody_in"
        )
    if gives_tokens and lacks_key(binds_tokens=destination.binds_tokens, key=key):
        raise Forbidden(TOKENS_BOUND)
    require_admitted(is_admitted=destination.admits, owes_second_factor=destination.owes_second_factor, owes_terms=destination.owes_terms)
    return destination.context


class NamedAccount(Frozen):
    """The account that an e-mail address names, with everything that a sign-in needs to know about it."""

    account: Account
    encoded: str | None
    mfa_enabled: bool
    knowledge: Knowledge
    may_know_of_failures: bool = False
    """The person is a member of the service's organization by their own act, or has signed in to this service before. An addition by the
    service's servers does not count.
    """
    breached_at_sign_in: AtSignIn = AtSignIn.OFF
    """The strictest rule of the organizations that the person belongs to by their own act. No organization rules over platform owners."""


class Attempt(Frozen):
    """The result of a sign-in's first look. `named` is None when no account has the address."""

    tries: Tries
    named: NamedAccount | None
    destination: Destination | None = None
    """None when the request names no service, or when no service has that name."""
    realm: Realm | None = None
    """The realm of the address's domain. It does not depend on `named`, except for whether the person could become a member by the realm.
    """
    pressure: float = 0.0
    """How many times as many failures as are usual came from the places that the look asked for. 0 in quiet times."""


class LastLook(Frozen, kw_only=True):
    """The one question before a session: does all that the sign-in rests on still stand? Making a proof takes time, in which the account,
    the service or the browser's flow may have changed.
    """

    user: UserId
    encoded: str | None = None
    """The hash that the password was checked against. None: no password was checked."""
    since: datetime | None = None
    """Nobody may have set a password after this. None: `encoded` is the condition."""
    identity: IdentityId | None = None
    """The connected account by which a provider knows the person."""
    email: Email | None = None
    """The address of the account, whose domain an organization's own provider must still vouch for."""
    device: DeviceId | None = None
    """The device that may be trusted to do without a second factor."""
    service: ServiceId | None = None
    """The service that the sign-in leads to."""
    flow: FlowId | None = None
    """The browser's flow, by which a person signs in once."""
    organization: OrganizationId | None = None
    """The organization that the sign-in leads to, whose rules for risk are asked."""
    offers_passkey: bool = False
    """Whether a page can offer a passkey after this sign-in."""


class Confirmed(Frozen, kw_only=True):
    """The answer to `LastLook`: the account as it is now, and what stands beside it until the unit of work ends."""

    account: Account
    one_factor_is_enough: bool = True
    """The account has no second factor, or the device is trusted."""
    is_connected: bool = True
    """The connected account is still there, and its provider may vouch for this person. True when the question had no `identity`."""
    flow_is_open: bool = True
    """Nobody has signed in by the flow. True when the question had no `flow`."""
    destination: Destination | None = None
    may_know_of_failures: bool = False
    subscription: SubscriptionState = NO_SUBSCRIPTION
    tells_more: bool = False
    """See `OpenedSession.tells_more`."""
    belongs_to_several: bool = False
    """The person is a member of several organizations."""
    is_listed: bool = False
    """See `Caller.is_listed`."""
    owes_answers: bool = False
    """A page may have fields to ask the person for. False without a browser's flow."""
    offers_passkey: bool = False
    """A page is to offer a passkey. False where the question did not ask."""
    is_made_elsewhere: bool = False
    """Another organization than the service's has made the account: see `core.domain.identity.made_accounts`."""
    rules_asked: tuple[AskedRules, ...] = ()
    """The rules for risk that this sign-in is judged by."""
    has_hooks: bool = False
    """Hooks are to be asked at the service that the sign-in leads to."""
    terms: tuple[PendingTerms, ...] = ()
    """What the person has not accepted: of the installation, of the organization that the sign-in leads to, and of their own ones."""


def failure_of(named: NamedAccount | None, *, matches: bool) -> LoginFailure | None:
    """The reason for a refusal. None when the password is right and the account may sign in."""
    if named is None:
        return LoginFailure.UNKNOWN_ACCOUNT
    if named.encoded is None:
        return LoginFailure.NO_PASSWORD
    if not matches:
        return LoginFailure.WRONG_PASSWORD
    if named.account.deactivated_at is not None:
        return LoginFailure.DEACTIVATED
    if not named.account.address_is_proved:
        return LoginFailure.EMAIL_NOT_VERIFIED
    return None


class SignedIn(Frozen):
    """The client keeps the tokens, and the device's tokens for its next sign-in."""

    tokens: TokenPair
    remembered: Remembered
    user: UserId
    session: SessionId
    terms: tuple[PendingTerms, ...] = ()
    """What the person has not accepted yet."""


class AwaitingSecondFactor(Frozen):
    """The password was right. The client exchanges the pre-auth token and a code for tokens."""

    preauth_token: Token
    expires_in: int


class Preauthenticated(Frozen):
    """The claims of a pre-auth token."""

    id: PreauthenticationId
    user: UserId
    state: str = ""
    """The client's own name for the purpose of the sign-in. Empty when the client signs in for itself."""


def methods(first: tuple[str, ...], second: MfaMethod) -> tuple[str, ...]:
    """How a person gave both proofs, in the words of RFC 8176 section 2."""
    return (*first, *_SECOND.get(second, ()), "mfa")


_SECOND: Final = {MfaMethod.TOTP: ("otp",), **KEY_METHODS}


def is_unusual(sighting: Sighting, *, mfa_enabled: bool) -> bool:
    """A person who has a second factor must give it. For other people an unusual sign-in is flagged, and they get a mail."""
    return sighting.risk.demands_more and not mfa_enabled


def preauthentication_claims(
    user: UserId, token_id: str, *, issuer: str, now: datetime, expires_at: datetime, state: str = ""
) -> dict[str, str | int]:
    """The token has an audience of its own. So a server that checks only the audience and the signature does not take it for an access
    token.
    """
    return {
        "iss": issuer,
        "sub": str(user),
        "aud": "mfa",
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "jti": token_id,
        "sid": token_id,
        "token_use": "mfa_preauth",
        **({"state": state} if state else {}),
    }


class Priority(IntEnum):
    """The priority of a caller who wants a password verified: it decides who waits when many callers wait. Higher numbers go first.

    The priority must reveal nothing about an account to a stranger. So it comes from what the caller holds (a device token, a session, a
    mailed link), or from the caller's IP address, if anyone has signed in from there. It never comes from the account that the caller
    names.
    """

    STRANGER = 0
    FAMILIAR = 1
    """The caller comes from an address that somebody has signed in from."""
    PROVEN = 2
    """The caller shows the token of one of the account's own devices, a session, or a mailed link."""


MOST_FAMILIAR: Final = 20_000


class FamiliarAddresses:
    """Addresses that people have signed in from, as far as this process remembers: a limited number of the latest. An IPv6 /64 counts as
    one.
    """

    def __init__(self, most: int = MOST_FAMILIAR) -> None:
        self._most = most
        self._keys: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, address: str | None) -> bool:
        return address is not None and client_key(address) in self._keys

    def add(self, address: str | None) -> None:
        if address is None:
            return
        key = client_key(address)
        self._keys[key] = None
        self._keys.move_to_end(key)
        if len(self._keys) > self._most:
            self._keys.popitem(last=False)

    def priority(self, address: str | None, named: NamedAccount | None) -> Priority:
        """The priority of a caller at this address who signs in to the named account."""
        if named is not None and named.knowledge.by_token is not None:
            return Priority.PROVEN
        return Priority.FAMILIAR if address in self else Priority.STRANGER
