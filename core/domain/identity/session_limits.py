"""Limits of sessions: their bounds, what a change of them would reach, and the oldest session, which a sign-in displaces."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.devices import Location
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.rate_limits import RateLimit
from core.domain.record.events import SYSTEM, Event, Target
from core.frozen import Frozen

# Ninety days. Sessions last at most so long, unless the operator configures otherwise.
LONGEST_SESSION_HOURS: Final = 90 * 24
SHORTEST_IDLE_MINUTES: Final = 5
"""The use of a session is written once a minute."""
LONGEST_IDLE_MINUTES: Final = 30 * 24 * 60
"""Thirty days, which no session outlives without a use."""
MOST_SESSIONS: Final = 100


def require_session_bounds(hours: int | None, minutes_idle: int | None, most: int | None) -> None:
    """None says nothing. Raises `BadRequest`, with the name of the field."""
    require_within("session_lifetime_hours", hours, 1, LONGEST_SESSION_HOURS)
    require_within("session_idle_minutes", minutes_idle, SHORTEST_IDLE_MINUTES, LONGEST_IDLE_MINUTES)
    require_within("most_sessions", most, 1, MOST_SESSIONS)


def require_within(name: str, number: int | None, least: int, most: int) -> None:
    """Raises `BadRequest`."""
    if number is not None and not least <= number <= most:
        raise BadRequest(f"{name}: {least} to {most}", words="field_bounds", values={"least": least, "most": most})


# The statement that ends the sessions queues the job. The trigger `end_oldest_sessions` names it, too.
DISPLACED_JOB: Final = "sessions.displaced"
# A program may sign in every minute. The log has each time; the person hears of it three times, and then once a day.
DISPLACED_MAILS: Final = RateLimit("displaced_mails", burst=3, seconds_per_request=86_400)


class NoDisplacement(Exception):
    """The payload names no sessions."""


class Displacement(Frozen):
    """The sessions that ended, and the one that was opened then."""

    by: SessionId
    sessions: tuple[SessionId, ...]

    @classmethod
    def of_job(cls, payload: Mapping[str, Json]) -> "Displacement":
        """Raises `NoDisplacement`."""
        by, ended = payload.get("by"), payload.get("sessions")
        if not (isinstance(by, str) and isinstance(ended, Sequence)):
            raise NoDisplacement
        return cls(SessionId(UUID(by)), tuple(SessionId(UUID(str(one))) for one in ended))


class DisplacedPerson(Frozen, kw_only=True):
    """Whose sessions ended, and what the person is told of the oldest."""

    user: UserId
    email: Email
    language: Language | None
    is_active: bool
    organization: OrganizationId | None
    """The organization in which they ended. None for the person's own sign-ins."""
    organization_name: str
    service_name: str
    """Of the oldest. Empty if it was in no service."""
    device_name: str
    location: Location | None
    last_seen_at: datetime

    @property
    def place(self) -> str:
        """Where the person was signed in. Empty for their own sign-ins."""
        return self.service_name or self.organization_name


def sessions_displaced(person: DisplacedPerson, displacement: Displacement) -> Event:
    details: Mapping[str, Json] = {"sessions": len(displacement.sessions), "because": "most_sessions", "session_id": str(displacement.by)}
    return Event("security.sessions.revoked", SYSTEM, Target("user", str(person.user)), person.organization, details)


class SessionLimits(Frozen):
    """What an organization, or one of its services, says about sessions. None says nothing."""

    hours: int | None
    minutes_idle: int | None
    most: int | None


class SessionReach(Frozen):
    """Each number is counted up to a limit."""

    outlasted_sessions: int = 0
    """Sessions that work today, and that the change would end."""
    people_beyond: int = 0
    """People with more open sign-ins than the new number. The oldest go at the person's next sign-in."""
    includes_you: bool = False
    """A session of the person who asks is among them."""


NOBODY_REACHED = SessionReach()


def reaches_anybody(before: SessionLimits, after: SessionLimits) -> bool:
    """Whether the change can end sessions: something becomes shorter, or less."""
    return any(
        new is not None and (old is None or new < old)
        for old, new in ((before.hours, after.hours), (before.minutes_idle, after.minutes_idle), (before.most, after.most))
    )
