"""Alerts: what a platform owner should look at among the sign-ins and second factors of the last day. The rules are data."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.identity.login_events import LoginFailure
from core.domain.json import Json
from core.frozen import Frozen


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
LOOKED_BACK: Final = timedelta(hours=24)

# People who mistype give up or reset their password before they reach this number. The throttles leave a guesser about seventy tries an
# hour.
SIGN_IN_FAILURES: Final = Burst(10, timedelta(hours=1))
# Failures that suggest guessing. Wrong codes have a rule of their own below.
GUESSES: Final = (LoginFailure.WRONG_PASSWORD, LoginFailure.NO_PASSWORD, LoginFailure.THROTTLED)
# A wrong code means that somebody knows the password.
MFA_FAILURES: Final = Burst(5, timedelta(hours=1))
# One backup code means a lost telephone. Several in a day mean that somebody else has found the sheet.
BACKUP_CODES: Final = Burst(3, timedelta(hours=24))
# The time between sign-ins from two countries. Sign-ins through a known proxy do not count, since they do not show where the person is.
IMPOSSIBLE_WITHIN: Final = timedelta(hours=2)

# Limits for each type of alert; the newest are shown. An installation with more alerts needs other tools, and this answer has to stay
# small.
MOST_EVENTS: Final = 100_000
MOST_ALERTS: Final = 100


class Alert(Frozen):
    """One alert of each type per person, with the latest event behind it."""

    user: UserId
    email: Email
    type: AlertType
    details: Mapping[str, Json]
    detected_at: datetime
    name: str | None = None
