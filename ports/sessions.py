"""Where sessions are kept."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.sessions import Caller, Session


class SessionStore(Protocol):
    """Part of the unit of work."""

    async def add(self, session: Session) -> None: ...


class CallerLookup(Protocol):
    """Outside any unit of work: one statement, one round trip, on every authenticated request."""

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        """The caller of a live session of an active user. None when the session is revoked or expired, the user deactivated, or either
        unknown.
        """


class PresenceStore(Protocol):
    async def mark_seen(self, sessions: Mapping[SessionId, datetime]) -> None:
        """Move last-seen forward for many sessions in one statement. Never moves it back; unknown sessions are passed over."""


class Presence(Protocol):
    """What a request calls: never waits, never fails. When the buffer is full the mark is dropped and counted."""

    def seen(self, session: SessionId, at: datetime) -> None: ...
