"""Access: who may do what in an organization, and why, for whoever has to explain it."""

from core.domain.access import Accessor
from core.domain.email import Email
from core.domain.errors import NotFound
from ports.relations import RelationLookup


class Access:
    def __init__(self, lookup: RelationLookup) -> None:
        self._lookup = lookup

    async def explain(self, email: Email, slug: str) -> Accessor:
        """How this person stands to this organization. Raises `NotFound` when there is no such person or organization."""
        found = await self._lookup.find(email, slug)
        if found is None:
            raise NotFound(f"There is no account {email}, or no organization {slug}")
        return found
