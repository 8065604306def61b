"""Displaced sessions: a sign-in ended the person's oldest, because only so many may be open at once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from core.domain.email import Email
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.identity.devices import Location
from core.domain.json import Json
from core.domain.languages import Language
from core.domain.rate_limits import RateLimit
from core.domain.record.events import SYSTEM, Event, Target
from core.frozen import Frozen

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
