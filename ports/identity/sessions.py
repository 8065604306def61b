"""Where sessions are kept."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import DeviceId, OrganizationId, SessionId, UserId
from core.domain.identity.accounts import Account
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import Parent, Session
from core.frozen import Frozen


class Opener(Frozen):
    """A live session that another one is opened from, and its person."""

    account: Account
    session: Parent


class SessionStore(Protocol):
    """Part of the unit of work. Methods that end sessions also end all sessions opened from those. Call them with the account held, as a
    request that opens a session holds it.
    """

    async def hold_opener(self, session: SessionId, user: UserId) -> Opener | None:
        """Called before another session is opened from this one. It has not ended since the request came in, and a request that ends it, or
        deactivates the account, waits until the new session exists and ends that too. One at a time for each account. Comes first in its
        unit of work, except for a membership. None when the session has ended.
        """

    async def lives(self, session: SessionId) -> bool:
        """Whether it has not ended since the request came in. Called with the account held, so that it does not end meanwhile."""

    async def add(self, session: Session) -> None: ...

    async def issue(self, session: SessionId, token_digest: bytes, at: datetime) -> None:
        """The first refresh token of a session."""

    async def prove(self, session: SessionId, user: UserId, proved: Proved) -> None:
        """Records what has just been proved in this session of the person's, and in no other. Nobody waits for it."""

    async def revoke(self, session: SessionId, user: UserId) -> bool:
        """False when this person has no such session, or it is revoked already: of two callers, one gets True."""

    async def organization(self, session: SessionId) -> OrganizationId | None:
        """The one that it was opened in. None when it was opened in none."""

    async def revoke_all(self, user: UserId, *, but: SessionId | None) -> int:
        """Their own, and those that they opened in other people's names. `but` is spared with its line: those that it was opened from, and
        those of theirs that were opened from it. Returns how many ended.
        """

    async def end_all(self, user: UserId, *, but: SessionId | None) -> None:
        """The same for callers that do not need the number: nobody waits for it."""

    async def end_codes(self, user: UserId) -> None:
        """What the person has let in, and has no session yet, gets none: applications with a code, and devices. Nobody waits for it. The
        account is held.
        """

    async def revoke_of_device(self, device: DeviceId) -> int:
        """Those of the device, and all that its person opened in other people's names. Returns how many ended."""

    async def end_federated(self, user: UserId) -> None:
        """Those that somebody else vouched for, and all that were opened from them."""

    async def revoke_impersonations(self, impersonator: UserId) -> int:
        """Those that this person opened in other people's names. Returns how many ended."""
