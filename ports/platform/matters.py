"""The look-up of matters."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.platform.matters import Matters


class MatterLookup(Protocol):
    async def of(self, organization: OrganizationId, now: datetime) -> Matters:
        """One round trip. Its cost is bounded, however large the organization is."""
