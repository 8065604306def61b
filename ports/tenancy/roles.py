"""The store of roles that organizations make."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import OrganizationId, RoleId
from core.domain.tenancy.roles import Assignable, Role


class RoleStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. The other methods need a unit of work."""

    async def list(self, organization: OrganizationId) -> Sequence[Role]:
        """All of the organization's own roles, by slug."""

    async def find(self, organization: OrganizationId, role: RoleId) -> Role | None:
        """None when the organization has no such role."""

    async def assignable(self, organization: OrganizationId, slug: str) -> Assignable | None:
        """The role with this slug, built in or made by the organization. The role stays as it is until the unit of work ends. None when
        there is no such role.
        """

    async def count(self, organization: OrganizationId) -> int: ...

    async def add(self, role: Role) -> bool:
        """False when the slug is taken: of two callers, one gets False."""

    async def hold(self, organization: OrganizationId, role: RoleId) -> Role | None:
        """The role stays as it is until the unit of work ends, and nobody is given the role meanwhile. None when the organization has no
        such role.
        """

    async def save(self, role: Role) -> None:
        """Saves name, description and permissions. After `hold`."""

    async def delete(self, role: RoleId) -> bool:
        """False when a member or a team has the role, or a pending invitation offers it. After `hold`."""
