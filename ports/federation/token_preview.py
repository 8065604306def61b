"""Everything that a preview of a token is made of."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.email import Email
from core.domain.federation.token_preview import PreviewedPerson
from core.domain.identifiers import OrganizationId, UserId


class PreviewLookup(Protocol):
    """Each question is one round trip, outside any unit of work."""

    async def find(self, organization: OrganizationId, service_slug: str, user: UserId) -> PreviewedPerson | None:
        """None when there is no such service, or the person is neither a member of the organization nor a user of the service."""

    async def find_all(self, organization: OrganizationId, user: UserId, limit: int) -> Sequence[PreviewedPerson]:
        """The same for each service that the person may have to do with, by the names of the services."""

    async def find_named(self, organization_slug: str, service_slug: str, email: Email) -> PreviewedPerson | None:
        """For operators, who know names alone."""
