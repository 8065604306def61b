"""Organizations as platform owners see them."""

from typing import Protocol

from core.domain.pages import Listed
from core.domain.platform.governance import GovernedOrganization, OrganizationFilter


class OrganizationRegister(Protocol):
    """Outside any unit of work. Organizations that are being deleted do not exist here. Only PostgreSQL implements it."""

    async def list(self, wanted: OrganizationFilter, limit: int, offset: int) -> Listed[GovernedOrganization]:
        """Newest first. The total is counted up to `core.domain.pages.MOST_COUNTED`."""

    async def find(self, slug: str) -> GovernedOrganization | None:
        """None when there is no such organization."""
