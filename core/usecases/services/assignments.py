"""Assignments of a service's roles: members assign them to people, to roles of the organization and to teams, and take them away."""

from core.domain.errors import BadRequest, Conflict, NotFound, found
from core.domain.identifiers import AssignmentId, OrganizationId, UserId
from core.domain.record.events import Actor
from core.domain.services.assignments import (
    Assignee,
    Assignment,
    AssignmentPage,
    ToPerson,
    WantedAssignee,
    assignment_added,
    assignment_removed,
    needs_owner,
    require_may_assign,
)
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import acted_as_owner, hold_members, require_capability
from ports.services.assignments import AssignmentStore
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


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
