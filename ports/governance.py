"""Organizations as those see them who govern the platform."""

from typing import Protocol

from core.domain.governance import GovernedOrganization, Wanted
from core.domain.pages import Listed


class OrganizationRegister(Protocol):
    """Outside any unit of work: each one statement. Knows nothing of organizations that are being deleted."""

    async def list(self, wanted: Wanted, limit: int, offset: int) -> Listed[GovernedOrganization]:
        """The newest first. The total is counted up to `core.domain.pages.MOST_COUNTED`."""

    async def find(self, slug: str) -> GovernedOrganization | None:
        """None when there is none."""
