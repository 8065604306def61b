"""The look-up of people's rights in services."""

from collections.abc import Collection
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, UserId
from core.domain.services.access_evaluations import FoundSubjects
from core.domain.services.rights import ExplainedRights, ServiceRights


class RightsStore(Protocol):
    """Each question is one statement, and outside a unit of work one round trip."""

    async def of(self, organization: OrganizationId, service: ServiceId, user: UserId) -> ServiceRights:
        """The rights of somebody who signs in to this service of the organization, as they are now. Roles that are given to everybody are
        among them; whether the service admits the person is asked elsewhere.
        """

    async def explain(
        self, service: ServiceId, user: UserId, permissions: Collection[str] = ()
    ) -> tuple[ExplainedRights, Collection[str]] | None:
        """A user of the service with all that gives them rights, and those of the permissions that the service has. None when the service
        has no such user.
        """

    async def holders(self, service: ServiceId, permission: str, after: UserId | None, limit: int) -> FoundSubjects:
        """The users of the service who hold the permission there at this moment, among the next ones by their ids. An answer may have fewer
        than `limit` and still go on: each looks at a bounded number of users.
        """
