"""The store of browser cookies, as digests."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.browser_sessions import Chosen
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import Doors


class BrowserSessionStore(Protocol):
    """All methods need a unit of work."""

    async def add(self, digest: bytes, session: SessionId) -> None:
        """Adds the cookie of a new session. Needs no round trip of its own."""

    async def renew(
        self,
        digest: bytes,
        session: SessionId,
        user: UserId,
        proved: Proved,
        methods: Sequence[str],
        *,
        opened_through: UUID | None,
        doors: Doors,
    ) -> bool:
        """Replaces the cookie of this person's living browser session, and records what the person has just proved in the session. False
        when the session has ended.
        """

    async def choose(self, session: SessionId, user: UserId, slug: str) -> Chosen | None:
        """Chooses the organization that the person administers in this browser; an empty slug chooses none. None when the person is not a
        member.
        """
