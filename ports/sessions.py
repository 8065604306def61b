"""Where sessions are kept."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.sessions import Caller, Presented, Session


class SessionStore(Protocol):
    """Part of the unit of work."""

    async def add(self, session: Session) -> None: ...

    async def issue(self, session: SessionId, token_digest: bytes, at: datetime) -> None:
        """The first refresh token of a session."""

    async def revoke(self, session: SessionId, user: UserId, at: datetime) -> bool:
        """False when this person has no such session, or it is revoked already: of two callers, one gets True."""

    async def revoke_all(self, user: UserId, *, but: SessionId | None) -> int:
        """Their own, and those that they opened in others' names. Returns how many there were."""

    async def revoke_of_device(self, device: DeviceId) -> int:
        """Those of the device, and all that its person opened in others' names. Returns how many there were."""

    async def revoke_impersonations(self, impersonator: UserId) -> int:
        """Those that this person opened in others' names. Returns how many there were."""


class RefreshTokens(Protocol):
    """Outside any unit of work: one statement, one round trip."""

    async def rotate(self, digest: bytes, successor: bytes, by: bytes, at: datetime) -> Presented | None:
        """Exchange the token for its successor if it is a live session's current one, and move the session's end. Of many callers, one
        rotates. None when nobody has such a token.
        """


class CallerLookup(Protocol):
    """Outside any unit of work: one statement, one round trip, on every authenticated request."""

    async def find(self, session: SessionId, user: UserId) -> Caller | None:
        """The caller of a live session of an active user, in the session's context. None when the session is revoked or has ended, the user
        is deactivated, either is unknown, or whoever acts in the user's name may no longer do so.
        """


class PresenceStore(Protocol):
    async def mark_seen(self, sessions: Mapping[SessionId, datetime]) -> None:
        """Move last-seen forward for many sessions in one statement. Never moves it back; unknown sessions are passed over."""


class Presence(Protocol):
    """What a request calls: never waits, never fails. When the buffer is full the mark is dropped and counted."""

    def seen(self, session: SessionId, at: datetime) -> None: ...
