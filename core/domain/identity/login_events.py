"""Login events, and the alerts that platform owners see about suspicious ones."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.formats import Json
from core.domain.identifiers import DeviceId, LoginEventId, OrganizationId, ServiceId, UserId
from core.domain.identity.devices import Spot
from core.domain.identity.guards.hook_verdicts import HookVerdict
from core.domain.identity.risk_policies.policies import Decided
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen


class LoginFailure(StrEnum):
    """Why a sign-in failed."""

    # A closed list: it is the label of a metric.

    UNKNOWN_ACCOUNT = "unknown_account"
    WRONG_PASSWORD = "wrong_password"  # noqa: S105 - a reason, not a password
    NO_PASSWORD = "no_password"  # noqa: S105
    DEACTIVATED = "deactivated"
    EMAIL_NOT_VERIFIED = "email_not_verified"
    PROVIDER_REQUIRED = "provider_required"
    THROTTLED = "throttled"
    BREACHED_PASSWORD = "breached_password"  # noqa: S105
    """The password was right, stands in a list of stolen ones, and therefore opens nothing."""
    REFUSED_BY_RULE = "refused_by_rule"
    """A rule for risk of the organization that the sign-in led to refused it."""
    WRONG_CODE = "wrong_code"
    WRONG_PASSKEY = "wrong_passkey"
    COPIED_PASSKEY = "copied_passkey"
    NOT_VOUCHED = "not_vouched"
    """The provider's answer lets nobody in. This login event names no account."""
    NOT_MEMBER = "not_member"
    """See `REFUSED_VISITS`."""
    NO_ROLE = "no_role"
    REFUSED_BY_HOOK = "refused_by_hook"
    HOOK_WANTS_FACTOR = "hook_wants_factor"
    HOOK_SILENT = "hook_silent"


# Visits of people who have given every proof, and whom the application or a hook does not admit. They are no failed sign-ins: no alert,
# figure of failures, metric or webhook counts them. Otherwise a tenant's hook could raise alarms of the installation.
REFUSED_VISITS: Final = frozenset(
    {
        *(LoginFailure.NOT_MEMBER, LoginFailure.NO_ROLE),
        *(LoginFailure.REFUSED_BY_HOOK, LoginFailure.HOOK_WANTS_FACTOR, LoginFailure.HOOK_SILENT),
    }
)


def refused_by_hook(verdict: HookVerdict) -> LoginFailure | None:
    """How the log calls it. None for whoever comes in, or gives the factor that a hook asks for next."""
    if verdict.no is not None:
        return LoginFailure.REFUSED_BY_HOOK
    if verdict.is_silent:
        return LoginFailure.HOOK_SILENT
    return LoginFailure.HOOK_WANTS_FACTOR if verdict.owes is not None and not verdict.can_show else None


SIGN_IN_TOPIC: Final = "sign_ins"
"""The doorbell's topic for sign-ins that wait for a number."""


class LoginEvent(Frozen):
    """An attempt to sign in, with its outcome. Analytics, exports and alerts read the login events. The webhook event about an attempt is
    made of its login event, here and nowhere else.
    """

    id: LoginEventId
    user: UserId | None
    provider: str
    failure: LoginFailure | None
    address: str | None
    user_agent: str | None
    created_at: datetime
    organization: OrganizationId | None = None
    service: ServiceId | None = None
    device: DeviceId | None = None
    risk_score: float = 0.0
    risk_factors: tuple[str, ...] = ()
    flagged: bool = False
    country: str | None = None
    city: str | None = None
    spot: Spot | None = None
    decision: Decided | None = None
    """The rule for risk that decided, of the organization that the sign-in led to."""


def login_event(
    id: LoginEventId,  # noqa: A002 - the noun's own word
    actor: Actor,
    at: datetime,
    *,
    user: UserId | None,
    provider: str,
    context: Context = PLATFORM,
    failure: LoginFailure | None = None,
) -> LoginEvent:
    """Says who came, from where, when and to what. Risk is judged when a person gives a proof, and not again when the session leads to an
    application.
    """
    return LoginEvent(
        id=id,
        user=user,
        provider=provider,
        failure=failure,
        address=actor.address,
        user_agent=actor.user_agent,
        created_at=at,
        organization=context.organization,
        service=context.service,
    )


def login_tried(event: LoginEvent, actor: Actor) -> Event:
    """The event for the webhooks. The login events themselves are the log; an audit entry would only repeat them. A statement that finds
    out only by itself who signs in, and to what, completes this event: `tell_login` of `adapters/postgres/identity/proofs/login_events.py`.
    """
    service = {} if event.service is None else {"service_id": str(event.service)}
    return Event(
        "user.login.success" if event.failure is None else "user.login.failed",
        actor,
        Target("user", "unknown" if event.user is None else str(event.user)),
        event.organization,
        {
            "login_event_id": str(event.id),
            "provider": event.provider,
            **service,
            "risk_score": event.risk_score,
            "risk_factors": list(event.risk_factors),
            **({} if event.failure is None else {"reason": event.failure.value}),
            **({} if event.decision is None else {"risk_policy": event.decision.name, "risk_action": event.decision.action.value}),
        },
    )


class OwnLogin(Frozen):
    """An attempt to sign in to a person's account, as the person sees it."""

    event: LoginEvent
    device_name: str
    """The name that the person gave the device. Without such a name, it is made of the client's description of itself."""
    organization: str
    service: str
    """The names of the organization and the service that the attempt led to. Empty when it led to the platform, or when they are deleted.
    """


class AlertType(StrEnum):
    """Why a sign-in looks suspicious."""

    REPEATED_SIGN_IN_FAILURES = "repeated_sign_in_failures"
    REPEATED_MFA_FAILURES = "repeated_mfa_failures"
    BACKUP_CODE_BURST = "backup_code_burst"
    IMPOSSIBLE_TRAVEL = "impossible_travel"
    UNUSUAL_HOUR = "unusual_hour"
    HIGH_RISK_SIGN_IN = "high_risk_sign_in"
    MANY_PASSWORDS_OVER_ONE_ACCOUNT = "many_passwords_over_one_account"
    ONE_PASSWORD_OVER_MANY_ACCOUNTS = "one_password_over_many_accounts"  # noqa: S105 - a pattern, not a password
    """This one and the next are about no one person: `core/domain/identity/guards/guesses.py`."""
    MANY_ACCOUNTS_FROM_ONE_NETWORK = "many_accounts_from_one_network"


class Burst(Frozen):
    """At least `count` events of one kind for one person, with at most `within` between the first and the last."""

    count: int
    within: timedelta


# Older events are in the logs. An alert disappears together with its events.
ALERTS_LOOKED_BACK: Final = timedelta(hours=24)

# People who mistype give up or reset their password before they reach this number. The throttles leave a guesser about seventy tries an
# hour.
SIGN_IN_FAILURES: Final = Burst(10, timedelta(hours=1))
# Failures that suggest guessing. Wrong codes have a rule of their own below.
ALERTING_GUESSES: Final = (LoginFailure.WRONG_PASSWORD, LoginFailure.NO_PASSWORD, LoginFailure.THROTTLED)
# A wrong code means that somebody knows the password.
ALERTING_MFA_FAILURES: Final = Burst(5, timedelta(hours=1))
# One backup code means a lost telephone. Several in a day mean that somebody else has found the sheet.
ALERTING_BACKUP_CODES: Final = Burst(3, timedelta(hours=24))
# The time between sign-ins from two countries. Sign-ins through a known proxy do not count, since they do not show where the person is.
IMPOSSIBLE_WITHIN: Final = timedelta(hours=2)

# Limits for each type of alert; the newest are shown. An installation with more alerts needs other tools, and this answer has to stay
# small.
MOST_EVENTS: Final = 100_000
MOST_ALERTS: Final = 100


class Alert(Frozen):
    """Something that a platform owner should investigate among the sign-ins and second factors of the last day. There is one alert of each
    type per user, with the latest event behind it. The rules are data.
    """

    user: UserId
    email: Email
    type: AlertType
    details: Mapping[str, Json]
    detected_at: datetime
    name: str | None = None
