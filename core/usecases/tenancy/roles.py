"""An organization's own roles: added, changed and deleted."""

from collections.abc import Collection, Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import RoleId
from core.domain.identity.proofs import FreshProofNeeded
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import (
    MOST_ROLES,
    Capability,
    Role,
    capabilities_of,
    permissions_of,
    require_no_more,
    role_created,
    role_deleted,
    role_description,
    role_name,
    role_slug,
    role_updated,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import (
    find_members_for_update,
    find_rights_for_update,
    require_capability,
    require_may_grant,
    require_owner,
)
from core.usecases.tenancy.teams import require_fit_for_directory
from ports.system import System
from ports.tenancy.members import RoleStore
from ports.unit_of_work import UnitOfWorkFactory

_NO_SUCH_ROLE: Final = "There is no such role"


class Roles(Frozen):
    """Every change locks the organization and checks the caller's rights again, because another change may have come in since the first
    check.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: RoleStore
    system: System

    async def list(self, member: Member) -> Sequence[Role]:
        """The organization's own roles, by slug."""
        return await self.lookup.list(member.organization)

    async def get(self, member: Member, role: RoleId) -> Role:
        """Raises `NotFound`."""
        return found(await self.lookup.find(member.organization, role), _NO_SUCH_ROLE)

    async def create(self, caller: Member, slug: str, actor: Actor, *, name: str, description: str, permissions: Collection[str]) -> Role:
        """Raises `BadRequest`, `Forbidden` for a capability that the caller does not hold, `Conflict` when the slug is taken."""
        now = self.system.clock.now()
        role = Role(
            id=RoleId(self.system.ids.new()),
            organization=caller.organization,
            slug=role_slug(slug),
            name=role_name(name),
            description=role_description(description),
            permissions=permissions_of(permissions),
            created_at=now,
            updated_at=now,
        )
        async with self.unit_of_work() as uow:
            acting, _ = await find_members_for_update(uow, caller)
            require_capability(acting, Capability.ROLES_MANAGE)
            await require_may_grant(uow, acting, role.permissions, now)
            if await uow.roles.count(caller.organization) >= MOST_ROLES:
                raise BadRequest(
                    f"An organization has at most {MOST_ROLES} roles of its own: delete one first",
                    words="limit_reached",
                    values={"most": MOST_ROLES},
                )
            if not await uow.roles.add(role):
                raise Conflict("The organization already has a role with this slug", words="short_name_taken")
            await uow.record(role_created(role, actor))
            await uow.commit()
        return role

    async def change(
        self,
        caller: Member,
        role: RoleId,
        actor: Actor,
        *,
        name: str | None = None,
        description: str | None = None,
        permissions: Collection[str] | None = None,
        proved: bool = False,
    ) -> Role:
        """Fields that are None keep their values. Members with the role may do what it permits from their next request on. Raises
        `BadRequest`, `NotFound`, and `Forbidden` when the role has, before or after the change, a capability that the caller lacks. A role
        that a directory's team carries gets further capabilities from an owner alone: `Forbidden`, `FreshProofNeeded`.
        """
        if name is None and description is None and permissions is None:
            raise BadRequest("Send at least one of name, description and permissions", words="nothing_to_change")
        wanted_name = None if name is None else role_name(name)
        wanted_description = None if description is None else role_description(description)
        wanted_permissions = None if permissions is None else permissions_of(permissions)
        async with self.unit_of_work() as uow:
            acting, _ = await find_members_for_update(uow, caller)
            require_capability(acting, Capability.ROLES_MANAGE)
            held = acting.capabilities
            before = found(await uow.roles.find_for_update(caller.organization, role), _NO_SUCH_ROLE)
            require_no_more(before.permissions, held)
            after = replace(
                before,
                name=before.name if wanted_name is None else wanted_name,
                description=before.description if wanted_description is None else wanted_description,
                permissions=before.permissions if wanted_permissions is None else wanted_permissions,
            )
            # What only an owner grants stays with the role when somebody else who holds it changes the role, and is not added by them.
            await require_may_grant(uow, acting, after.permissions - before.permissions, self.system.clock.now())
            if after == before:
                return before
            if after.permissions - before.permissions and await uow.teams.directory_carries(role):
                await require_owner(uow, acting, self.system.clock.now())
                require_fit_for_directory(capabilities_of(after.permissions))
                if not proved:
                    raise FreshProofNeeded
            after = replace(after, updated_at=self.system.clock.now())
            await uow.roles.save(after)
            await uow.record(role_updated(before, after, actor))
            await uow.commit()
        return after

    async def delete(self, caller: Member, role: RoleId, actor: Actor) -> None:
        """Raises `NotFound`, `Forbidden` when the role has a capability that the caller lacks, and `Conflict` while a member or a team has
        the role, or an invitation offers it.
        """
        async with self.unit_of_work() as uow:
            held = await find_rights_for_update(uow, caller, Capability.ROLES_MANAGE)
            known = found(await uow.roles.find_for_update(caller.organization, role), _NO_SUCH_ROLE)
            require_no_more(known.permissions, held)
            if not await uow.roles.delete(role):
                raise Conflict("This role is in use: a member or a team has it, or a pending invitation offers it", words="role_in_use")
            await uow.record(role_deleted(known, actor))
            await uow.commit()
