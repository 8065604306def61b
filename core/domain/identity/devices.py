"""Devices: the browsers and programs that a person signs in with, and how far each is trusted."""

import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import DeviceId, UserId
from core.domain.languages import Language
from core.domain.record.events import ActingKey, Actor, Event, Target
from core.domain.secrets import Token
from core.frozen import Frozen


class DeviceType(StrEnum):
    """The type of client that signs in."""

    BROWSER = "browser"
    MOBILE = "mobile"
    DESKTOP = "desktop"
    CLI = "cli"


class UserAgent(Frozen):
    """The client's description of itself, parsed. A client may make all of it up, so this description gives a device its name and never
    proves anything.
    """

    device_type: DeviceType
    browser: str | None
    browser_version: str | None
    os: str | None
    os_version: str | None

    @property
    def name(self) -> str:
        # A program may have the same name as its system; then the name is used once.
        parts = dict.fromkeys(part for part in (self.browser, self.os) if part)
        return " on ".join(parts) if parts else "Unknown device"


Spot = tuple[int, int]
"""Latitude and longitude in tenths of a degree: some ten kilometres, and no house."""


class Location(Frozen):
    """`country` is a two-letter code (ISO 3166-1)."""

    country: str | None
    city: str | None
    spot: Spot | None = None
    """None where the database has no coordinates."""


def located(country: str | None, city: str | None) -> Location | None:
    return None if country is None and city is None else Location(country, city)


class Device(Frozen):
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
    risk_factors: tuple[str, ...] = ()
    """The reasons of the score, from a closed list."""

    def is_trusted(self, now: datetime) -> bool:
        return self.trusted_until is not None and now < self.trusted_until


LONGEST_NAME: Final = 100
# These characters reverse the text that follows them, on any page that shows the name.
_TURN_TEXT: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def device_name(text: str) -> str:
    """A name that a person gives, without surrounding space. Raises `BadRequest`."""
    name = text.strip()
    if not name:
        raise BadRequest("name: must not be empty", words="name_missing")
    if len(name) > LONGEST_NAME:
        raise BadRequest(f"name: must have at most {LONGEST_NAME} characters", words="name_too_long", values={"longest": LONGEST_NAME})
    if any(character in _TURN_TEXT or unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in name):
        raise BadRequest("name: must not contain control characters", words="name_unprintable")
    return name


LONGEST_TRUST_DAYS: Final = 90
DEFAULT_TRUST_DAYS: Final = 30


def trust_period(organization_days: int | None) -> timedelta:
    """How long a device may skip the second factor. The strictest of the person's organizations decides. With zero days the device may not
    skip it.
    """
    days = DEFAULT_TRUST_DAYS if organization_days is None else organization_days
    return timedelta(days=max(0, min(days, LONGEST_TRUST_DAYS)))


LONGEST_USER_AGENT: Final = 512


class Client(Frozen):
    """The sender of a request, as the request describes it. An earlier answer gave the client the two tokens; a new client has neither."""

    address: str | None
    user_agent: str
    device_token: Token | None = None
    trust_token: Token | None = None
    language: Language | None = None
    """The language that the person prefers, as far as the request says."""

    def actor(self, user: UserId | None = None, impersonator: UserId | None = None, key: ActingKey | None = None) -> Actor:
        return Actor(user, impersonator, self.address, self.user_agent[:LONGEST_USER_AGENT] or None, key, self.language)


class Remembered(Frozen):
    """The device of a successful sign-in, and the tokens that its client should keep. `device_token` is None for a device that only looks
    like a trusted one. `trust_token` is None when the person did not ask for trust, or did not get it.
    """

    device: DeviceId
    is_new: bool
    device_token: Token | None
    trust_token: Token | None = None
    trusted_for: timedelta | None = None


def device_renamed(device: Device, name: str, actor: Actor) -> Event:
    return _event("user.device.renamed", device, actor, {}, {"old_name": device.name, "name": name})


def device_revoked(device: Device, sessions: int, actor: Actor) -> Event:
    return _event("user.device.revoked", device, actor, {"sessions": sessions}, {"name": device.name})


def _event(name: str, device: Device, actor: Actor, details: Mapping[str, Json], personal: Mapping[str, str]) -> Event:
    target = Target("user", str(device.user))
    # A device's name often contains the name of a person.
    return Event(name, actor, target, details={"device_id": str(device.id), **details}, personal=personal)
