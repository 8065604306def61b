"""The looks of organizations."""

from typing import Protocol

from core.domain.branding import Branding


class Brandings(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def find(self, organization: str) -> Branding | None:
        """By slug. None when there is no such organization, or it is not active."""
