"""Own sessions: a person's living sessions, as the person sees them."""

from datetime import datetime

from core.domain.identifiers import DeviceId, SessionId
from core.domain.identity.devices import Location
from core.frozen import Frozen


class OwnSession(Frozen, kw_only=True):
    """One living session. What it is for is told by the names: of an organization, of one of its services, or of none."""

    id: SessionId
    created_at: datetime
    last_seen_at: datetime
    ends_at: datetime
    """When it ends if it is not used again."""
    device: DeviceId | None
    device_name: str
    location: Location | None
    """Where its device last signed in."""
    organization: str
    service: str
    impersonated: bool
    """A platform owner acts in the person's name."""
    opened_here: bool
    """It is the session of the person who looks, or one of its line: those that it was opened from, and those opened from it."""


class OwnSessionList(Frozen):
    """One page of them, the last used first."""

    sessions: tuple[OwnSession, ...]
    total: int
    others: int
    """How many are not of the line of the person who looks. They end with "sign out everywhere else"."""
