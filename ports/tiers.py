"""Where tiers are kept."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import TierId
from core.domain.tiers import Tier


class Tiers(Protocol):
    """Outside any unit of work: nothing takes a tier away."""

    async def list(self) -> Sequence[Tier]:
        """The cheapest first."""

    async def find(self, tier: TierId) -> Tier | None:
        """None when there is none."""
