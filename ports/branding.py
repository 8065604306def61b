"""The looks of organizations."""

from typing import Protocol

from core.domain.branding import Branding
from core.domain.identifiers import UserId
from core.frozen import Frozen


class LentBranding(Frozen):
    branding: Branding
    is_own: bool
    """Whether the person has an own tie to the organization: a membership, or a use of one of its services."""


class Brandings(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def find(self, organization: str) -> Branding | None:
        """By slug. None when there is no such organization, or it is not active."""

    async def find_for(self, organization: str, user: UserId) -> LentBranding | None:
        """For a mail to this person. Likewise."""
