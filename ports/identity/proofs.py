"""Look-up of what a session has proved."""

from typing import Protocol

from core.domain.identifiers import SessionId, UserId
from core.domain.identity.proofs import Standing


class ProofLookup(Protocol):
    """One statement and one round trip, outside any unit of work."""

    async def find(self, session: SessionId, user: UserId) -> Standing | None:
        """None when this person has no such session, or it was revoked."""
