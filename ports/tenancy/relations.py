"""Where relations are kept: who stands how to what."""

from typing import Protocol

from core.domain.email import Email
from core.domain.tenancy.access import Accessor


class RelationLookup(Protocol):
    """Outside any unit of work, one statement, on the same rows that the check of every request reads."""

    async def find(self, email: Email, slug: str) -> Accessor | None:
        """None when there is no such person, or no such organization."""
