"""The look-up of todos."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.platform.todos import Todos


class TodoLookup(Protocol):
    async def of(self, organization: OrganizationId, now: datetime) -> Todos:
        """One round trip. Its cost is bounded, however large the organization is."""
