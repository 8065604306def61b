"""Roles of a service: members add, change and delete them."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import ServiceRoleId
from core.domain.record.events import Actor
from core.domain.services.service_roles import (
    ServiceRole,
    ServiceRoleChange,
    WantedServiceRole,
    require_known,
    require_room,
    service_role_created,
    service_role_deleted,
    service_role_slug,
    service_role_updated,
    stored_role,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace, values_of
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import hold_rights
from ports.services.service_roles import ServiceRoleStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

NO_SUCH_SERVICE_ROLE: Final = "The service has no such role"


class ServiceRoles(Frozen):
    """Every change locks the organization and the service, and checks the caller's rights again. What a role permits counts in an
    application and not in Postern, so nobody needs to hold it in order to give it.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: ServiceRoleStore
    system: System

    async def list(self, member: Member, service_slug: str) -> Sequence[ServiceRole]:
        """By slug. Raises `NotFound`."""
        return found(await self.lookup.list(member.organization, service_slug), NO_SUCH_SERVICE)

    async def get(self, member: Member, service_slug: str, slug: str) -> ServiceRole:
        """Raises `NotFound`."""
        return found(await self.lookup.find(member.organization, service_slug, slug), NO_SUCH_SERVICE_ROLE)

    async def create(self, member: Member, service_slug: str, wanted: WantedServiceRole, actor: Actor) -> ServiceRole:
        """Raises `NotFound`; `BadRequest`, also for a permission that the service does not have; `Conflict` when the service has or had a
        role with this slug; and `Forbidden` when the caller may no longer manage services.
        """
        slug, settings = service_role_slug(wanted.slug), stored_role(values_of(wanted))
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            require_room(await uow.service_roles.count(service.id))
            if settings["permissions"]:
                require_known(await uow.permissions.unknown(service.id, settings["permissions"]))
            now = self.system.clock.now()
            role = ServiceRole(
                id=ServiceRoleId(self.system.ids.new()),
                organization=service.organization,
                service=service.id,
                slug=slug,
                **settings,
                created_at=now,
                updated_at=now,
            )
            if not await uow.service_roles.add(role):
                raise Conflict("slug: the service has a role with this slug, or had one; a slug is not used again", words="key_used_once")
            await uow.record(service_role_created(role, service, actor))
            await uow.commit()
        return role

    async def change(self, member: Member, service_slug: str, slug: str, change: ServiceRoleChange, actor: Actor) -> ServiceRole:
        """The change counts from the next request on. Raises `NotFound`, `BadRequest`, `Forbidden`."""
        if not change.said:
            raise BadRequest("Send at least one of name, description, permissions and given_to_everybody", words="nothing_to_change")
        settings = stored_role(change.said)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            before = found(await uow.service_roles.find_in_service(service.id, slug), NO_SUCH_SERVICE_ROLE)
            after = replace(before, **settings)
            if after == before:
                return before
            if after.permissions != before.permissions:
                require_known(await uow.permissions.unknown(service.id, after.permissions))
            after = replace(after, updated_at=self.system.clock.now())
            await uow.service_roles.save(after)
            await uow.record(service_role_updated(before, after, service, actor))
            await uow.commit()
        return after

    async def delete(self, member: Member, service_slug: str, slug: str, actor: Actor) -> None:
        """The role's assignments end with it, from the next request on. Raises `NotFound`, `Forbidden`."""
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            role = found(await uow.service_roles.find_in_service(service.id, slug), NO_SUCH_SERVICE_ROLE)
            assignments = await uow.service_roles.delete(role.id)
            await uow.record(service_role_deleted(role, service, actor, assignments))
            await uow.commit()
