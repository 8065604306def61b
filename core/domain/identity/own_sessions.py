"""Own sessions: a person's living sessions, as the person sees them."""

from datetime import datetime

from core.domain.identifiers import DeviceId, SessionId
from core.domain.identity.devices import Location
from core.frozen import Frozen


class OwnSession(Frozen, kw_only=True):
    """One living session. Its names say what it is for: an organization, one of its services, or, without names, the platform."""

    id: SessionId
    created_at: datetime
    last_seen_at: datetime
    ends_at: datetime
    """When the session ends if nobody uses it again."""
    device: DeviceId | None
    device_name: str
    location: Location | None
    """The place of the device's last sign-in."""
    organization: str
    service: str
    impersonated: bool
    """A platform owner acts in the person's name in this session."""
    opened_here: bool
    """The session of the person who looks, or a session that it was opened from, or one that was opened from it."""


class OwnSessionList(Frozen):
    """One page of a person's sessions, the last used first."""

    sessions: tuple[OwnSession, ...]
    total: int
    others: int
    """The number of sessions that have nothing to do with the session of the person who looks. "Sign out everywhere else" ends these."""
