"""Signing in: what is looked up before a password is checked, what the check comes to, and how often one may try."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from core.domain.accounts import Account
from core.domain.devices import Knowledge, Remembered, Risk, Sighting
from core.domain.email import Email
from core.domain.errors import BadRequest, NotFound, OrganizationNotActive
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import DeviceId, UserId
from core.domain.login_events import LoginEvent, LoginFailure
from core.domain.mfa import MfaMethod
from core.domain.rate_limits import RateLimit
from core.domain.secrets import Token
from core.domain.sessions import NO_SUBSCRIPTION, PLATFORM, Context, SubscriptionState, TokenPair

# The last two of `LoginEvent.provider`'s words are other nouns' business.
PASSWORD_PROVIDER: Final = "password"  # noqa: S105 - a way in, not a password

# How often somebody may try one account's password, whatever the addresses it comes from. A try that gets in does not count.
# The devices that have shown their token draw from buckets of their own: a stranger who uses up the first leaves those alone.
TRIES_FROM_ANYWHERE: Final = RateLimit("sign_in_account", burst=10, seconds_per_request=60)
TRIES_FROM_DEVICE: Final = RateLimit("sign_in_device", burst=10, seconds_per_request=60)


def account_key(email: Email) -> str:
    """Of the bucket of tries from anywhere: the same for addresses that nobody has, and readable by nobody."""
    return sha256(email.key.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Tries:
    """The bucket that a try has taken its token from, and the seconds to wait when there was none."""

    limit: RateLimit
    key: str
    wait: float


@dataclass(frozen=True, slots=True)
class ServiceName:
    """A service, as somebody names it who wants to get in: by the slug of its organization and its own."""

    organization: str
    service: str


def service_named(organization: str, service: str) -> ServiceName | None:
    """None when no service is named: an organization alone is no place to sign in to. Raises `BadRequest`."""
    if not service:
        return None
    if not organization:
        raise BadRequest("service_slug: a service is named with its organization, as org_slug")
    return ServiceName(organization, service)


@dataclass(frozen=True, slots=True)
class Destination:
    """A service that somebody wants to sign in to."""

    context: Context
    is_open: bool
    """Its organization is active."""


def context_in(named: ServiceName | None, found: Destination | None) -> Context:
    """Where the session will be. Raises `NotFound`, `OrganizationNotActive`."""
    return PLATFORM if named is None else open_context(found)


def open_context(destination: Destination | None) -> Context:
    """Raises `NotFound`, `OrganizationNotActive`."""
    if destination is None:
        raise NotFound("There is no such service")
    if not destination.is_open:
        raise OrganizationNotActive
    return destination.context


@dataclass(frozen=True, slots=True)
class Applicant:
    """Whom an e-mail address names, with all that a sign-in needs to know of them."""

    account: Account
    encoded: str | None
    mfa_enabled: bool
    knowledge: Knowledge
    has_been_there: bool = False
    """Signed in to the service that they want to get in to now. Being made its user by its servers does not count."""


@dataclass(frozen=True, slots=True)
class Application:
    """What is known when somebody tries to sign in. Nobody has the address: `applicant` is None."""

    tries: Tries
    applicant: Applicant | None
    destination: Destination | None = None
    """None: no service is named, or there is none of that name."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The last look before a session: nothing has changed that would forbid it. The account, as it is now; and of the service that it leads
    to, if it does, whether that is still there and open, and what its tokens say of this person.
    """

    account: Account
    destination: Destination | None = None
    has_been_there: bool = False
    subscription: SubscriptionState = NO_SUBSCRIPTION


def failure_of(applicant: Applicant | None, *, matches: bool) -> LoginFailure | None:
    """None: the password is right, and the account may be signed in to."""
    if applicant is None:
        return LoginFailure.UNKNOWN_ACCOUNT
    if applicant.encoded is None:
        return LoginFailure.NO_PASSWORD
    if not matches:
        return LoginFailure.WRONG_PASSWORD
    if applicant.account.deactivated_at is not None:
        return LoginFailure.DEACTIVATED
    if applicant.account.email_verified_at is None:
        return LoginFailure.EMAIL_NOT_VERIFIED
    return None


@dataclass(frozen=True, slots=True)
class Alone:
    """A sign-in by the password alone: the account has no second factor, or this device of its person's is trusted."""

    device: DeviceId | None


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The client keeps the tokens, and what it is to be recognised by."""

    tokens: TokenPair
    remembered: Remembered


@dataclass(frozen=True, slots=True)
class AwaitingSecondFactor:
    """The password was right. The pre-auth token is exchanged together with a code."""

    preauth_token: Token
    expires_in: int


def methods(second: MfaMethod | None) -> tuple[str, ...]:
    """How somebody proved who they are, in the words of RFC 8176 section 2."""
    match second:
        case None:
            return ("pwd",)
        case MfaMethod.TOTP:
            return ("pwd", "otp", "mfa")
        case _:
            return ("pwd", "mfa")


def login_tried(event: LoginEvent, risk: Risk | None, actor: Actor) -> Event:
    """For the webhooks. The rows of the login events are the log: an audit entry would say the same once more."""
    service = {} if event.service is None else {"service_id": str(event.service)}
    success = event.failure is None
    return Event(
        "user.login.success" if success else "user.login.failed",
        actor,
        Target("user", "unknown" if event.user is None else str(event.user)),
        event.organization,
        {
            "login_event_id": str(event.id),
            "provider": event.provider,
            **service,
            "risk_score": 0.0 if risk is None else risk.score,
            "risk_factors": [] if risk is None else [factor.value for factor in risk.factors],
            **({} if event.failure is None else {"reason": event.failure.value}),
        },
        success=success,
        audited=False,
    )


def is_unusual(sighting: Sighting, *, mfa_enabled: bool) -> bool:
    """Whoever has a second factor is asked for it. Of the others an unusual sign-in is flagged, and they are told."""
    return sighting.risk.demands_more and not mfa_enabled


def preauthentication_claims(user: UserId, token_id: str, *, issuer: str, now: datetime, expires_at: datetime) -> dict[str, str | int]:
    """An audience of its own: nobody who checks but the audience and the signature takes it for an access token."""
    return {
        "iss": issuer,
        "sub": str(user),
        "aud": "mfa",
        "exp": int(expires_at.timestamp()),
        "iat": int(now.timestamp()),
        "jti": token_id,
        "sid": token_id,
        "token_use": "mfa_preauth",
    }
