"""The look-up of what ends soon."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.platform.expiries import Expiry


class ExpiryLookup(Protocol):
    async def of(self, organization: OrganizationId, now: datetime) -> Sequence[Expiry]:
        """One round trip. What ends first comes first, and domains come before all."""

    async def everywhere(self, now: datetime) -> Sequence[Expiry]:
        """The same for active organizations and the platform's own keys."""
