"""Alerts: what in the sign-ins and second factors of the last day a platform owner should look at. The rules, as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.identifiers import UserId
from core.domain.json import Json
from core.domain.login_events import LoginFailure


class AlertType(StrEnum):
    REPEATED_SIGN_IN_FAILURES = "repeated_sign_in_failures"
    REPEATED_MFA_FAILURES = "repeated_mfa_failures"
    BACKUP_CODE_BURST = "backup_code_burst"
    IMPOSSIBLE_TRAVEL = "impossible_travel"
    UNUSUAL_HOUR = "unusual_hour"
    HIGH_RISK_SIGN_IN = "high_risk_sign_in"


@dataclass(frozen=True, slots=True)
class Burst:
    """So many of a kind of one person, at most so long apart from the first to the last."""

    count: int
    within: timedelta


# Older ones are in the logs. An alert goes when what it is about has.
LOOKED_BACK: Final = timedelta(hours=24)

# One who mistypes gives up, or asks for a new password, before that; the throttles let a guesser have some seventy an hour.
SIGN_IN_FAILURES: Final = Burst(10, timedelta(hours=1))
# Tries that say somebody guesses. A wrong code is counted by the rule below.
GUESSES: Final = (LoginFailure.WRONG_PASSWORD, LoginFailure.NO_PASSWORD, LoginFailure.THROTTLED)
# Whoever gets so far knows the password.
MFA_FAILURES: Final = Burst(5, timedelta(hours=1))
# One is a lost telephone. Nobody who has lost it uses several in a day, unless somebody else has found the sheet.
BACKUP_CODES: Final = Burst(3, timedelta(hours=24))
# Between two countries. Sign-ins through a known proxy say nothing about where their person is.
IMPOSSIBLE_WITHIN: Final = timedelta(hours=2)

# The newest of each kind that are looked at: beyond these an installation has other means of looking, and this must stay an answer.
MOST_EVENTS: Final = 100_000
MOST_ALERTS: Final = 100


@dataclass(frozen=True, slots=True)
class Alert:
    """One of a type for a person, with the latest that speaks for it."""

    user: UserId
    email: Email
    type: AlertType
    details: Mapping[str, Json]
    detected_at: datetime
