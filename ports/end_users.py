"""Where it is kept who uses the services of an organization."""

from typing import Protocol

from core.domain.end_users import EndUser, EndUserDetail
from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.pages import Listed, Page


class EndUserLookup(Protocol):
    """Outside any unit of work: one statement each. Whoever uses no service of the organization does not exist here."""

    async def list(self, organization: OrganizationId, page: Page, *, search: str, service: ServiceId | None) -> Listed[EndUser] | None:
        """Those whose address has `search` in it, as it stands, the youngest account first; of all its services or of one. None when the
        organization has no such service.
        """

    async def get(self, organization: OrganizationId, user: UserId) -> EndUserDetail | None: ...


class EndUserStore(Protocol):
    """Part of the unit of work."""

    async def end_sessions(self, organization: OrganizationId, user: UserId) -> int | None:
        """Those in the organization's services, and no others of the person's. Returns how many there were; None when they use none of its
        services.
        """
