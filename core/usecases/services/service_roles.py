"""Roles and permissions of an application, and their assignments to users, to roles of the organization and to teams."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound, found
from core.domain.identifiers import AssignmentId, OrganizationId, ServicePermissionId, ServiceRoleId, UserId
from core.domain.record.events import Actor
from core.domain.services.service_roles import (
    Assignee,
    Assignment,
    AssignmentPage,
    ServicePermission,
    ServiceRole,
    ServiceRoleChange,
    ToPerson,
    WantedAssignee,
    WantedServiceRole,
    assignment_added,
    assignment_removed,
    needs_owner,
    permission_created,
    permission_deleted,
    permission_key,
    permission_updated,
    require_known,
    require_may_assign,
    require_room_for_permission,
    require_room_for_role,
    service_role_created,
    service_role_deleted,
    service_role_slug,
    service_role_updated,
    stored_role,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability, role_description
from core.frozen import Frozen, replace, values_of
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import acted_as_owner, hold_members, hold_rights, require_capability
from ports.services.services import AssignmentStore, ServicePermissionStore, ServiceRoleStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

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
            require_room_for_role(await uow.service_roles.count(service.id))
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
            require_room_for_permission(await uow.permissions.count(service.id))
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


class Assignments(Frozen):
    """Every change locks the organization, the person whom it is about, and the service, and checks the caller's rights again. So nothing
    that is assigned to somebody survives their leaving, and a sign-in beside a change comes before it or after it.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: AssignmentStore
    system: System

    async def list(
        self,
        member: Member,
        service_slug: str,
        *,
        role_slug: str | None,
        user: UserId | None,
        after: AssignmentId | None,
        limit: int,
    ) -> AssignmentPage:
        """Oldest first; of one role, or of one person's own assignments, if they are given. Raises `NotFound`."""
        return found(
            await self.lookup.list(member.organization, service_slug, role_slug=role_slug, user=user, after=after, limit=limit),
            NO_SUCH_SERVICE,
        )

    async def needs_proof(self, member: Member, wanted: WantedAssignee) -> bool:
        """Whether the caller has to prove afresh who they are before they assign a role so: a directory decides who gets it. Callers who
        are not the owner need no proof, since they may not assign so at all.
        """
        if not member.is_owner:
            return False
        to: Assignee | None = None
        if wanted.team is not None:
            to = await self.lookup.team(member.organization, wanted.team)
        elif wanted.role is not None:
            to = await self.lookup.role(member.organization, wanted.role)
        return to is not None and needs_owner(to)

    async def add(
        self, member: Member, service_slug: str, role_slug: str, wanted: WantedAssignee, actor: Actor, *, is_proved: bool
    ) -> Assignment:
        """`is_proved`: the caller has just proved who they are. Raises `NotFound` for the service; `BadRequest` when there is no such role,
        person, role of the organization or team; `Conflict` when the role is assigned so already; and `Forbidden` when the caller may not
        assign it so.
        """
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member, *([] if wanted.user is None else [wanted.user]))
            require_capability(acting, Capability.SERVICES_MANAGE)
            to = await _assignee(uow, member.organization, wanted)
            require_may_assign(to, is_owner=acting.is_owner, is_proved=is_proved)
            if needs_owner(to):
                await acted_as_owner(uow, acting, self.system.clock.now())
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            role = found(
                await uow.service_roles.find_in_service(service.id, role_slug),
                "role: the service has no such role",
                words="role_unknown",
                refusal=BadRequest,
            )
            if isinstance(to, ToPerson) and not await uow.assignments.is_known(service.organization, service.id, to.user):
                raise BadRequest("user_id: neither a member of the organization nor a user of the service", words="person_unknown_here")
            assignment = Assignment(AssignmentId(self.system.ids.new()), service.id, role.id, role.slug, to, self.system.clock.now())
            if not await uow.assignments.add(service.organization, assignment):
                raise Conflict("The role is assigned so already", words="role_given_already")
            await uow.record(assignment_added(assignment, service, actor))
            await uow.commit()
        return assignment

    async def remove(self, member: Member, service_slug: str, assignment: AssignmentId, actor: Actor) -> None:
        """What the assignment opened is refused from the next request on. The sessions of a person whom the service admits no more end.
        Raises `NotFound`, `Forbidden`.
        """
        going = found(await self.lookup.find(member.organization, service_slug, assignment), _UNKNOWN)
        person = going.to.user if isinstance(going.to, ToPerson) else None
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member, *([] if person is None else [person]))
            require_capability(acting, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            if not await uow.assignments.remove(service.id, assignment):
                raise NotFound(_UNKNOWN)
            if person is not None:
                await uow.assignments.end_access(service.id, person)
            await uow.record(assignment_removed(going, service, actor))
            await uow.commit()


async def _assignee(uow: UnitOfWork, organization: OrganizationId, wanted: WantedAssignee) -> Assignee:
    """Raises `BadRequest`."""
    if wanted.user is not None:
        return ToPerson(wanted.user)
    if wanted.role is not None:
        return found(
            await uow.assignments.role(organization, wanted.role),
            "organization_role: there is no such role",
            words="role_unknown",
            refusal=BadRequest,
        )
    return found(
        await uow.assignments.team(organization, wanted.team or ""), "team: there is no such team", words="team_unknown", refusal=BadRequest
    )


_UNKNOWN = "The service has no such assignment"
