"""The tiers of organizations."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import TierId
from core.domain.tenancy.tiers import Tier


class Tiers(Protocol):
    """Outside any unit of work, because tiers are never removed."""

    async def list(self) -> Sequence[Tier]:
        """Cheapest first."""

    async def find(self, tier: TierId) -> Tier | None:
        """None when there is no such tier."""
