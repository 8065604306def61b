"""Where organizations' own roles are kept."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.identifiers import OrganizationId, RoleId
from core.domain.tenancy.roles import Assignable, Role


class RoleStore(Protocol):
    """Outside a unit of work, `list` and `get` are one statement and one round trip each. The other methods need a unit of work. Only
    PostgreSQL implements it.
    """

    async def list(self, organization: OrganizationId) -> Sequence[Role]:
        """All of the organization's own, by slug."""

    async def get(self, organization: OrganizationId, role: RoleId) -> Role | None:
        """None when the organization has no such role."""

    async def assignable(self, organization: OrganizationId, slug: str) -> Assignable | None:
        """The built-in role, or the organization's own, with this slug. It stays as it is until the unit of work ends. None when there is
        none.
        """

    async def count(self, organization: OrganizationId) -> int: ...

    async def add(self, role: Role) -> bool:
        """False when the slug is taken: of two callers, one gets False."""

    async def hold(self, organization: OrganizationId, role: RoleId) -> Role | None:
        """It stays as it is until the unit of work ends, and nobody is given it meanwhile. None when the organization has no such role."""

    async def save(self, role: Role) -> None:
        """Name, description and permissions. After `hold`."""

    async def delete(self, role: RoleId) -> bool:
        """False when a member has it, or a pending invitation offers it. After `hold`."""
