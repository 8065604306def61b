"""The store of assignments of services' roles."""

from typing import Protocol

from core.domain.identifiers import AssignmentId, OrganizationId, ServiceId, UserId
from core.domain.services.assignments import Assignment, AssignmentPage, ToRole, ToTeam


class AssignmentStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each, and so are `role` and `team`. The other methods
    need a unit of work in which the caller has already locked the organization, the person who is assigned, and the service.
    """

    async def list(
        self,
        organization: OrganizationId,
        service_slug: str,
        *,
        role_slug: str | None,
        user: UserId | None,
        after: AssignmentId | None,
        limit: int,
    ) -> AssignmentPage | None:
        """Oldest first; of one role, or of one person's own assignments, if they are given. None when the organization has no such
        service.
        """

    async def find(self, organization: OrganizationId, service_slug: str, assignment: AssignmentId) -> Assignment | None:
        """None when the organization has no such service, or the service no such assignment."""

    async def is_known(self, organization: OrganizationId, service: ServiceId, user: UserId) -> bool:
        """Whether the person is a member of the organization, or an end user of the service. The unit of work has locked the account, so
        the answer holds until it ends.
        """

    async def role(self, organization: OrganizationId, slug: str) -> ToRole | None:
        """The role of the organization with this slug, built in or its own. Within a unit of work, the role stays until it ends."""

    async def team(self, organization: OrganizationId, slug: str) -> ToTeam | None:
        """The organization's team with this slug. Within a unit of work, the team stays until it ends."""

    async def add(self, organization: OrganizationId, assignment: Assignment) -> bool:
        """False when the role is already assigned to whom the assignment names: of two callers, one gets False."""

    async def remove(self, service: ServiceId, assignment: AssignmentId) -> bool:
        """False when there is no such assignment: of two callers, one gets False."""

    async def end_access(self, service: ServiceId, user: UserId) -> None:
        """Ends the person's sessions in a service that asks for an assigned role, and the codes for such sessions, unless the person still
        holds such a role.
        """
