"""Where the cookies of browser sessions are kept, as digests."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.browser_sessions import Chosen
from core.domain.identity.proofs import Proved


class BrowserSessionStore(Protocol):
    """Part of the unit of work."""

    async def add(self, digest: bytes, session: SessionId) -> None:
        """The cookie of a new session. Nobody waits for it."""

    async def renew(self, digest: bytes, session: SessionId, user: UserId, proved: Proved, methods: Sequence[str]) -> bool:
        """Another cookie for this person's living browser session, in place of the one that it had, and what has just been proved in it.
        False when the session has ended.
        """

    async def choose(self, session: SessionId, user: UserId, slug: str) -> Chosen | None:
        """The organization whose affairs the person looks after in this browser; none with an empty slug. None when they are no member."""
