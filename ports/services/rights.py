"""The look-up of people's rights in services."""

from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.services.rights import ExplainedRights, ServiceRights


class RightsStore(Protocol):
    """Each question is one statement, and outside a unit of work one round trip."""

    async def of(self, organization: OrganizationId, service: ServiceId, user: UserId) -> ServiceRights:
        """The rights of somebody who signs in to this service of the organization, as they are now. Roles that are given to everybody are
        among them; whether the service admits the person is asked elsewhere.
        """

    async def explain(self, service: ServiceId, user: UserId, permission: str = "") -> tuple[ExplainedRights, bool] | None:
        """A user of the service with all that gives them rights, and whether the service has this permission. None when the service has no
        such user.
        """
