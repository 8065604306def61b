"""The look-up of people's rights in services."""

from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.services.rights import ServiceRights


class RightsStore(Protocol):
    """Each question is one statement, and outside a unit of work one round trip. Only PostgreSQL implements it."""

    async def of(self, organization: OrganizationId, service: ServiceId, user: UserId) -> ServiceRights:
        """The rights of somebody who signs in to this service of the organization, as they are now. Roles that are given to everybody are
        among them; whether the service admits the person is asked elsewhere.
        """
