"""The store of the last refused requests of applications."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.federation.authorization_refusals import AuthorizationRefusal, DocumentRefusal, ListedRefusal
from core.domain.identifiers import OrganizationId, ResourceServerId


class AuthorizationRefusalStore(Protocol):
    """Outside any unit of work."""

    async def add(self, refusals: Sequence[AuthorizationRefusal | DocumentRefusal]) -> None:
        """Adds the refusals of clients that exist, in parts. The oldest of each service and API go when there are too many. A refused code
        is looked up, to say why it was refused.
        """

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ListedRefusal] | None:
        """Newest first, with the failed SAML messages. None when the organization has no such service."""

    async def list_of_api(self, organization: OrganizationId, api: ResourceServerId) -> Sequence[DocumentRefusal] | None:
        """Newest first. None when the organization has no such API."""
