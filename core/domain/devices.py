"""Devices: what a person signs in with, how far it is trusted, and how unusual a sign-in from it looks."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.domain.events import Actor, Event, Target
from core.domain.identifiers import DeviceId, UserId
from core.domain.json import Json
from core.domain.login_events import LoginFailure
from core.domain.secrets import Token


class DeviceType(StrEnum):
    BROWSER = "browser"
    MOBILE = "mobile"
    DESKTOP = "desktop"
    CLI = "cli"


@dataclass(frozen=True, slots=True)
class UserAgent:
    """What the client says of itself, parsed. Any of it may be made up: it names a device, it never proves one."""

    device_type: DeviceType
    browser: str | None
    browser_version: str | None
    os: str | None
    os_version: str | None

    @property
    def name(self) -> str:
        # Once, for a program that is named after its system.
        parts = dict.fromkeys(part for part in (self.browser, self.os) if part)
        return " on ".join(parts) if parts else "Unknown device"


@dataclass(frozen=True, slots=True)
class Location:
    """`country` by its two letters (ISO 3166-1)."""

    country: str | None
    city: str | None


@dataclass(frozen=True, slots=True)
class Device:
    id: DeviceId
    user: UserId
    name: str
    agent: UserAgent
    last_used_at: datetime
    last_address: str | None
    last_location: Location | None
    risk_score: float
    trusted_until: datetime | None
    created_at: datetime
    updated_at: datetime
    revoked_at: datetime | None = None

    def is_trusted(self, now: datetime) -> bool:
        return self.trusted_until is not None and now < self.trusted_until


LONGEST_NAME: Final = 100
# They turn round the text that follows them, on whatever page shows the name.
_TURN_TEXT: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def device_name(text: str) -> str:
    """A name that a person gives, without the space around it. Raises `BadRequest`."""
    name = text.strip()
    if not name:
        raise BadRequest("name: must not be empty")
    if len(name) > LONGEST_NAME:
        raise BadRequest(f"name: must have at most {LONGEST_NAME} characters")
    if any(character in _TURN_TEXT or unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in name):
        raise BadRequest("name: must not contain control characters")
    return name


LONGEST_TRUST_DAYS: Final = 90
DEFAULT_TRUST_DAYS: Final = 30


def trust_period(organization_days: int | None) -> timedelta:
    """How long a device may skip the second factor: as the strictest of the person's organizations says. Zero: it may not."""
    days = DEFAULT_TRUST_DAYS if organization_days is None else organization_days
    return timedelta(days=max(0, min(days, LONGEST_TRUST_DAYS)))


LONGEST_USER_AGENT: Final = 512


@dataclass(frozen=True, slots=True)
class Client:
    """What a request tells of whoever sent it. The tokens are what it was given earlier, if it was."""

    address: str | None
    user_agent: str
    device_token: Token | None = None
    trust_token: Token | None = None

    def actor(self, user: UserId | None = None, impersonator: UserId | None = None) -> Actor:
        return Actor(user, impersonator, self.address, self.user_agent[:LONGEST_USER_AGENT] or None)


@dataclass(frozen=True, slots=True)
class Approach:
    """Somebody comes to sign in: what their request tells, and what can be made of it before anybody knows who they are."""

    client: Client
    agent: UserAgent
    location: Location | None = None
    through_proxy: bool | None = None


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """`brings_trust`: the request carries the trust token that this device was given last."""

    id: DeviceId
    trusted_until: datetime | None = None
    brings_trust: bool = False


# So many sign-ins tell a person's habits, and fewer than the second number tell none.
HISTORY: Final = 50
LEAST_HISTORY: Final = 10
# An hour of the day is usual when a sign-in of the history fell at most so many hours before or after it.
USUAL_WITHIN: Final = 2
# Somebody guesses, or mistypes. A right password that is refused for another reason says nothing about the next sign-in.
FAILED_ATTEMPTS: Final = frozenset({LoginFailure.WRONG_PASSWORD, LoginFailure.NO_PASSWORD, LoginFailure.WRONG_CODE, LoginFailure.THROTTLED})


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known of a person when somebody comes to sign in as them: which devices of theirs it may be, and their habits.

    The habits are those of the last `HISTORY` successful sign-ins that were not flagged: whoever got in against all appearances does not
    teach us that it looks normal. Hours are those of the day in UTC.
    """

    by_token: KnownDevice | None = None
    by_agent: KnownDevice | None = None
    sign_ins: int = 0
    hours: frozenset[int] = field(default_factory=frozenset)
    countries: frozenset[str] = field(default_factory=frozenset)
    failed_attempts: int = 0
    trust_days: int | None = None
    """The fewest that one of the person's active organizations allows. None: they are in none."""


NOTHING_KNOWN: Final = Knowledge()


class RiskFactor(StrEnum):
    NEW_DEVICE = "new_device"
    UNKNOWN_LOCATION = "unknown_location"
    UNUSUAL_TIME = "unusual_time"
    PROXY = "proxy"
    FAILED_ATTEMPTS = "failed_attempts"


WEIGHTS: Final[Mapping[RiskFactor, float]] = {
    RiskFactor.NEW_DEVICE: 0.3,
    RiskFactor.UNKNOWN_LOCATION: 0.2,
    RiskFactor.UNUSUAL_TIME: 0.1,
    RiskFactor.PROXY: 0.1,
}
PER_FAILED_ATTEMPT: Final = 0.2
# Above this a second factor is demanded even from a trusted device.
DEMANDS_MORE: Final = 0.7


@dataclass(frozen=True, slots=True)
class Risk:
    score: float
    factors: tuple[RiskFactor, ...]

    @property
    def demands_more(self) -> bool:
        return self.score > DEMANDS_MORE


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known of a sign-in. None: not known, and then it counts for nothing."""

    known_device: bool
    known_location: bool | None
    usual_hour: bool | None
    through_proxy: bool | None
    failed_attempts: int


def assess(circumstances: Circumstances) -> Risk:
    """The sum of what is unusual, at most 1."""
    factors = []
    if not circumstances.known_device:
        factors.append(RiskFactor.NEW_DEVICE)
    if circumstances.known_location is False:
        factors.append(RiskFactor.UNKNOWN_LOCATION)
    if circumstances.usual_hour is False:
        factors.append(RiskFactor.UNUSUAL_TIME)
    if circumstances.through_proxy:
        factors.append(RiskFactor.PROXY)
    score = sum(WEIGHTS[factor] for factor in factors)
    if circumstances.failed_attempts > 0:
        factors.append(RiskFactor.FAILED_ATTEMPTS)
        score += PER_FAILED_ATTEMPT * circumstances.failed_attempts
    # Rounded: 0.1 and three times 0.2 are a hair above 0.7 in floating point, and exactly 0.7 in the interface.
    return Risk(round(min(score, 1.0), 2), tuple(factors))


class Recognition(StrEnum):
    TOKEN = "token"  # noqa: S105 - a way to recognise, not a token
    """It brought its device token: nobody else has that."""
    AGENT = "agent"
    """It looks like one that the person has. Anybody can look like that: it is never trusted."""
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A sign-in as it looks against what is known. `device` is None for a new one."""

    approach: Approach
    recognition: Recognition
    device: DeviceId | None
    trusted: bool
    needs_token: bool
    risk: Risk
    trust_days: int | None = None

    @property
    def is_proven(self) -> bool:
        """A device of the person's own beyond doubt. A stranger's wrong guesses must not lock it out."""
        return self.recognition is Recognition.TOKEN

    @property
    def may_skip_second_factor(self) -> bool:
        return self.trusted and not self.risk.demands_more


def judge(approach: Approach, known: Knowledge, now: datetime) -> Sighting:
    """Which device it is, whether it is trusted, and the risk. A token that is not the person's own counts as none."""
    if known.by_token is not None:
        recognition, device = Recognition.TOKEN, known.by_token
    elif known.by_agent is not None:
        recognition, device = Recognition.AGENT, known.by_agent
    else:
        recognition, device = Recognition.NEW, None
    trust_lasts = device is not None and device.trusted_until is not None and now < device.trusted_until
    return Sighting(
        approach=approach,
        recognition=recognition,
        device=None if device is None else device.id,
        trusted=recognition is Recognition.TOKEN and trust_lasts and device is not None and device.brings_trust,
        # A look-alike does not take the place of a device that is trusted: the owner of that would lose the trust by it.
        needs_token=recognition is Recognition.NEW or (recognition is Recognition.AGENT and not trust_lasts),
        risk=assess(
            Circumstances(
                known_device=device is not None,
                known_location=is_known_location(approach.location, known),
                usual_hour=is_usual_hour(now, known),
                through_proxy=approach.through_proxy,
                failed_attempts=known.failed_attempts,
            )
        ),
        trust_days=known.trust_days,
    )


def is_known_location(location: Location | None, known: Knowledge) -> bool | None:
    """Whether the person has signed in from this country before. None while it, or where they were before, is not known."""
    if location is None or location.country is None or not known.countries:
        return None
    return location.country in known.countries


def is_usual_hour(now: datetime, known: Knowledge) -> bool | None:
    """Whether the person has signed in at about this time of day before. None while there is too little history to tell."""
    if known.sign_ins < LEAST_HISTORY:
        return None
    hour = now.astimezone(UTC).hour
    return any(min((hour - other) % 24, (other - hour) % 24) <= USUAL_WITHIN for other in known.hours)


@dataclass(frozen=True, slots=True)
class Remembered:
    """The device of a sign-in that has happened, and what its client is to keep. `device_token` is None for a look-alike of a trusted one;
    `trust_token` is None where no trust was asked for or given.
    """

    device: DeviceId
    is_new: bool
    device_token: Token | None
    trust_token: Token | None = None
    trusted_for: timedelta | None = None


def device_renamed(device: Device, name: str, actor: Actor) -> Event:
    return _event("user.device.renamed", device, actor, {"old_name": device.name, "name": name})


def device_revoked(device: Device, sessions: int, actor: Actor) -> Event:
    return _event("user.device.revoked", device, actor, {"name": device.name, "sessions": sessions})


def _event(name: str, device: Device, actor: Actor, details: Mapping[str, Json]) -> Event:
    target = Target("user", str(device.user))
    return Event(name, actor, target, details={"device_id": str(device.id), **details}, published=False)
