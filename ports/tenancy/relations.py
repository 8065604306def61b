"""Look-up of relations: how people stand to organizations."""

from typing import Protocol

from core.domain.email import Email
from core.domain.tenancy.access import Accessor


class RelationLookup(Protocol):
    """One statement and one round trip, outside any unit of work. It reads the same rows as the check of every request."""

    async def find(self, email: Email, slug: str) -> Accessor | None:
        """None when there is no such person, or no such organization."""
