"""Permissions of a service: members add, describe and delete them."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import Conflict, found
from core.domain.identifiers import ServicePermissionId
from core.domain.record.events import Actor
from core.domain.services.permissions import (
    ServicePermission,
    permission_created,
    permission_deleted,
    permission_key,
    permission_updated,
    require_room,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability, role_description
from core.frozen import Frozen, replace
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import hold_rights
from ports.services.permissions import ServicePermissionStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

_NO_SUCH_PERMISSION: Final = "The service has no such permission"


class ServicePermissions(Frozen):
    """Every change locks the organization and the service, and checks the caller's rights again."""

    unit_of_work: UnitOfWorkFactory
    lookup: ServicePermissionStore
    system: System

    async def list(self, member: Member, service_slug: str) -> Sequence[ServicePermission]:
        """By key. Raises `NotFound`."""
        return found(await self.lookup.list(member.organization, service_slug), NO_SUCH_SERVICE)

    async def create(self, member: Member, service_slug: str, key: str, description: str, actor: Actor) -> ServicePermission:
        """Raises `NotFound`, `BadRequest`, `Conflict` when the service has or had a permission with this key, and `Forbidden` when the
        caller may no longer manage services.
        """
        key, description = permission_key(key), role_description(description)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            require_room(await uow.permissions.count(service.id))
            permission = ServicePermission(
                ServicePermissionId(self.system.ids.new()), service.id, key, description, self.system.clock.now()
            )
            if not await uow.permissions.add(permission):
                raise Conflict(
                    "key: the service has a permission with this key, or had one; a key is not used again", words="key_used_once"
                )
            await uow.record(permission_created(permission, service, actor))
            await uow.commit()
        return permission

    async def describe(self, member: Member, service_slug: str, key: str, description: str, actor: Actor) -> ServicePermission:
        """Change the description. Raises `NotFound`, `BadRequest`, `Forbidden`."""
        description = role_description(description)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            before = found(await uow.permissions.find(service.id, key), _NO_SUCH_PERMISSION)
            if before.description == description:
                return before
            after = replace(before, description=description)
            await uow.permissions.save(after)
            await uow.record(permission_updated(before, after, service, actor))
            await uow.commit()
        return after

    async def delete(self, member: Member, service_slug: str, key: str, actor: Actor) -> None:
        """The roles that have the permission lose it from the next request on. Raises `NotFound`, `Forbidden`."""
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            permission = found(await uow.permissions.find(service.id, key), _NO_SUCH_PERMISSION)
            await uow.permissions.delete(permission, self.system.clock.now())
            await uow.record(permission_deleted(permission, service, actor))
            await uow.commit()
