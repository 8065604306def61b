"""Risk: which of a person's devices a sign-in comes from, and how unusual it looks."""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from core.domain.identifiers import DeviceId
from core.domain.identity.devices import Client, Location, UserAgent
from core.domain.identity.login_events import LoginFailure
from core.frozen import Frozen, field


class Approach(Frozen):
    """The start of a sign-in: what the request tells, and what follows from it before anyone knows who the person is."""

    client: Client
    agent: UserAgent
    location: Location | None = None
    through_proxy: bool | None = None


class KnownDevice(Frozen):
    """`brings_trust`: the request carries the newest trust token of this device."""

    id: DeviceId
    trusted_until: datetime | None = None
    brings_trust: bool = False


# The last `HISTORY` sign-ins show a person's habits. Fewer than `LEAST_HISTORY` show none.
HISTORY: Final = 50
LEAST_HISTORY: Final = 10
# An hour of the day is usual when a sign-in of the history was at most this many hours before or after it.
USUAL_WITHIN: Final = 2
# These failures mean that somebody guesses, or mistypes. A right password that is refused for another reason says nothing about the next
# sign-in.
FAILED_ATTEMPTS: Final = frozenset({LoginFailure.WRONG_PASSWORD, LoginFailure.NO_PASSWORD, LoginFailure.WRONG_CODE, LoginFailure.THROTTLED})


class Knowledge(Frozen):
    """The known devices and habits of a person, at the start of a sign-in.

    The habits come from the last `HISTORY` successful sign-ins that were not flagged: an attacker who got in must not make unusual sign-ins
    look normal. Hours are hours of the day in UTC.
    """

    by_token: KnownDevice | None = None
    by_agent: KnownDevice | None = None
    sign_ins: int = 0
    hours: frozenset[int] = field(default_factory=frozenset)
    countries: frozenset[str] = field(default_factory=frozenset)
    failed_attempts: int = 0
    trust_days: int | None = None
    """The lowest number that one of the person's active organizations allows. None when the person is in no organization, or at the first
    look of a sign-in, before anyone can ask for trust.
    """


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
# Above this score, even a trusted device needs a second factor.
DEMANDS_MORE: Final = 0.7


class Risk(Frozen):
    score: float
    factors: tuple[RiskFactor, ...]

    @property
    def demands_more(self) -> bool:
        return self.score > DEMANDS_MORE


class Circumstances(Frozen):
    """The signals of a sign-in. None means unknown, and an unknown signal does not count."""

    known_device: bool
    known_location: bool | None
    usual_hour: bool | None
    through_proxy: bool | None
    failed_attempts: int


def assess(circumstances: Circumstances) -> Risk:
    """The sum of the weights of everything unusual, at most 1."""
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
    # Rounded: in floating point 0.1 and three times 0.2 are slightly more than 0.7, and the API specification says exactly 0.7.
    return Risk(round(min(score, 1.0), 2), tuple(factors))


class Recognition(StrEnum):
    TOKEN = "token"  # noqa: S105 - a way to recognise, not a token
    """The device brought its device token, which nobody else has."""
    AGENT = "agent"
    """The device looks like one of the person's devices. Any device can look like that, so it is never trusted."""
    NEW = "new"


class Sighting(Frozen):
    """A sign-in compared with what is known. `device` is None for a new device."""

    approach: Approach
    recognition: Recognition
    device: DeviceId | None
    trusted: bool
    needs_token: bool
    risk: Risk
    trust_days: int | None = None

    @property
    def is_proven(self) -> bool:
        """The device is certainly one of the person's own. Wrong guesses by a stranger must not lock this device out."""
        return self.recognition is Recognition.TOKEN

    @property
    def may_skip_second_factor(self) -> bool:
        return self.trusted and not self.risk.demands_more


def judge(approach: Approach, known: Knowledge, now: datetime) -> Sighting:
    """Finds out which device this is and whether it is trusted, and assesses the risk. A token that belongs to somebody else counts as no
    token.
    """
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
        # A device that only looks like a trusted one must not replace it: the owner would lose the trust.
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
    """Whether the person has signed in from this country before. None while this country, or the earlier ones, are unknown."""
    if location is None or location.country is None or not known.countries:
        return None
    return location.country in known.countries


def is_usual_hour(now: datetime, known: Knowledge) -> bool | None:
    """Whether the person has signed in at about this time of day before. None while there is too little history."""
    if known.sign_ins < LEAST_HISTORY:
        return None
    hour = now.astimezone(UTC).hour
    return any(min((hour - other) % 24, (other - hour) % 24) <= USUAL_WITHIN for other in known.hours)
