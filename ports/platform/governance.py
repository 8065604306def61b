"""Organizations as platform owners see them."""

from typing import Protocol

from core.domain.identifiers import OrganizationId
from core.domain.pages import Listed
from core.domain.platform.governance import Belongings, GovernedOrganization, OrganizationFilter


class OrganizationRegister(Protocol):
    """Outside any unit of work. Organizations that are being deleted do not exist here."""

    async def list(self, wanted: OrganizationFilter, limit: int, offset: int) -> Listed[GovernedOrganization]:
        """Newest first. The total is counted up to `core.domain.pages.MOST_COUNTED`."""

    async def find(self, organization: str | OrganizationId) -> GovernedOrganization | None:
        """By the slug, or by the id. None when there is no such organization."""

    async def belongings(self, organization: OrganizationId) -> Belongings:
        """Each number is counted up to `core.domain.pages.MOST_COUNTED`."""
