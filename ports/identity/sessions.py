"""The store of sessions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.audiences import TokenAudience
from core.domain.identifiers import DeviceId, OrganizationId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.proofs import Proved
from core.domain.identity.session_limits.displaced import DisplacedPerson, Displacement
from core.domain.identity.sessions import Parent, Session
from core.domain.identity.signing_out.frames import FrameAddress
from core.domain.identity.upstream.directory_factors import DirectoryFactor
from core.frozen import Frozen


class Opener(Frozen):
    """A live session that another session is opened from, and its person."""

    account: Account
    session: Parent


class SessionStore(Protocol):
    """All methods need a unit of work. Methods that end sessions also end all sessions that were opened from those. Call them with the
    account held, because a request that opens a session holds the account.
    """

    async def hold_opener(self, session: SessionId, user: UserId) -> Opener | None:
        """Called before another session is opened from this one. The session has not ended since the request came in. A request that ends
        it, or deactivates the account, waits until the new session exists and ends that too. One at a time for each account. Comes first in
        its unit of work, except for a membership. None when the session has ended.
        """

    async def lives(self, session: SessionId) -> bool:
        """Whether the session has not ended since the request came in. Called with the account held, so that the session does not end
        meanwhile.
        """

    async def add(self, session: Session) -> None: ...

    async def issue(self, session: SessionId, token_digest: bytes, at: datetime) -> None:
        """Adds the first refresh token of a session."""

    async def grant(self, session: SessionId, granted: Sequence[TokenAudience]) -> None:
        """Keeps the APIs that a new session may have tokens for."""

    async def prove(self, session: SessionId, user: UserId, proved: Proved) -> None:
        """Records what the person has just proved in this session of theirs. Needs no round trip of its own."""

    async def keep_factor(self, session: SessionId, factor: DirectoryFactor) -> None:
        """The directory by which the person has signed in to the session has stated a second factor. Needs no round trip of its own."""

    async def end_by(self, session: SessionId, at: datetime) -> None:
        """The session, and the sessions that hang on it, end at this time at the latest. Called after the account is held."""

    async def revoke(self, session: SessionId, user: UserId) -> bool:
        """False when this person has no such session, or the session is revoked already: of two callers, one gets True."""

    async def end(self, session: SessionId, user: UserId) -> Sequence[FrameAddress] | None:
        """As `revoke`, for the sign-out of a browser: the pages that the browser loads in frames, of all sessions that ended with this one.
        None when there was nothing to end.
        """

    async def organization(self, session: SessionId) -> OrganizationId | None:
        """The organization that the session was opened in. None when it was opened in none."""

    async def revoke_all(self, user: UserId, *, but: SessionId | None) -> int:
        """Ends the person's own sessions, and those that the person opened in other people's names. The session `but` is spared, with the
        sessions that it was opened from and the person's own sessions that were opened from it. Returns how many ended.
        """

    async def end_all(self, user: UserId, *, but: SessionId | None) -> None:
        """As `revoke_all`, for callers that do not need the number: no round trip of its own."""

    async def end_codes(self, user: UserId) -> None:
        """Ends the codes of applications and devices that the person has let in and that have no session yet. Needs no round trip of its
        own. The account is held.
        """

    async def revoke_of_device(self, device: DeviceId) -> int:
        """Ends the sessions of the device, and all that its person opened in other people's names. Returns how many ended."""

    async def end_federated(self, user: UserId) -> None:
        """Ends the sessions that somebody else vouched for, and all that were opened from those."""

    async def find_displaced(self, displacement: Displacement) -> DisplacedPerson | None:
        """Whose sessions a later sign-in has ended. None when the person, or the session of that sign-in, is gone."""

    async def notice_displaced(self, displacement: Displacement) -> None:
        """Queues the notices for applications whose sessions a later sign-in has ended: one notice for each, however often it is called."""

    async def revoke_impersonations(self, impersonator: UserId) -> int:
        """Ends the sessions that this person opened in other people's names. Returns how many ended."""
