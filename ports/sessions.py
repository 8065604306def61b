"""Where sessions are kept."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.domain.accounts import Account
from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.members import Standing
from core.domain.sessions import Caller, Presented, Session


@dataclass(frozen=True, slots=True)
class Opener:
    """The living session that another one is opened from, and whose it is."""

    account: Account
    ends_at: datetime
    """The other one's end at the latest: nobody stays signed in by going from one to the next."""


class SessionStore(Protocol):
    """Part of the unit of work."""

    async def hold_opener(self, session: SessionId, user: UserId) -> Opener | None:
        """Before another session is opened from this one: it has not ended since the request came in, and whoever ends it, or deactivates
        the account, waits until the other one is there to be ended too. One at a time for each account. First in its unit of work,
        but for a membership. None when it has ended.
        """

    async def add(self, session: Session) -> None: ...

    async def issue(self, session: SessionId, token_digest: bytes, at: datetime) -> None:
        """The first refresh token of a session."""

    async def revoke(self, session: SessionId, user: UserId, at: datetime) -> bool:
        """False when this person has no such session, or it is revoked already: of two callers, one gets True."""

    async def revoke_all(self, user: UserId, *, but: SessionId | None) -> int:
        """Their own, and those that they opened in others' names. Returns how many there were."""

    async def end_all(self, user: UserId) -> None:
        """The same for whoever need not know how many there were: nobody waits for it."""

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

    async def find_member(self, session: SessionId, user: UserId, slug: str) -> tuple[Caller, Standing | None] | None:
        """The same caller, and how they stand to the organization of this slug: None when there is none. Whoever is no member of it stands
        in no relation to it.
        """
