"""Services as the members of their organization see them: created, listed, changed, and deleted by the owner."""

from dataclasses import dataclass
from typing import TypeVar

from core.domain.client_secrets import require_none
from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound, OrganizationNotActive
from core.domain.events import Actor
from core.domain.identifiers import ClientId, PlanId, ServiceId
from core.domain.members import Member
from core.domain.pages import Listed
from core.domain.plans import Plan, default_plan, plan_created
from core.domain.roles import BuiltInRole, Capability
from core.domain.services import (
    NewService,
    RegisteredService,
    Service,
    ServiceChange,
    ServiceList,
    ServiceType,
    ServiceUsage,
    changed,
    purge_job,
    service_created,
    service_deleted,
    service_updated,
    service_usage,
)
from core.usecases.rights import hold_rights
from ports.clock import Clock
from ports.ids import Ids
from ports.services import ServiceLookup, ServiceRegister
from ports.unit_of_work import UnitOfWorkFactory

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class CreatedService:
    service: Service
    default_plan: Plan
    usage: ServiceUsage


class OrganizationServices:
    def __init__(self, unit_of_work: UnitOfWorkFactory, lookup: ServiceLookup, clock: Clock, ids: Ids) -> None:
        self._unit_of_work = unit_of_work
        self._lookup = lookup
        self._clock = clock
        self._ids = ids

    async def create(self, member: Member, wanted: NewService, actor: Actor) -> CreatedService:
        """With a free plan. Raises `BadRequest`, `ServiceLimitExceeded`, and `Conflict` when the organization has one of this slug."""
        now = self._clock.now()
        service = wanted.service(ServiceId(self._ids.new()), member.organization, ClientId(self._ids.new()), now)
        plan = default_plan(PlanId(self._ids.new()), service.id, now)
        async with self._unit_of_work() as unit:
            held = await unit.organizations.hold(member.organization)
            if held is None:
                raise NotFound("There is no such organization")
            if not held.organization.is_active:
                raise OrganizationNotActive
            usage = service_usage(await unit.services.count(member.organization), held.organization, held.tier)
            usage.require_room()
            if not await unit.services.add(service):
                raise Conflict("slug: the organization has a service of this slug")
            await unit.plans.add(plan)
            await unit.record_all([service_created(service, actor), plan_created(plan, service.organization, service.slug, actor)])
            await unit.commit()
        return CreatedService(service, plan, usage.with_one_more())

    async def list(
        self, member: Member, *, service_type: ServiceType | None = None, limit: int | None = None, offset: int = 0
    ) -> ServiceList:
        """The oldest first, all of them unless a limit is named. Raises `NotFound`."""
        listed = await self._lookup.list(member.organization, service_type=service_type, limit=limit, offset=offset)
        if listed is None:
            # Deleted since the request came in.
            raise NotFound("There is no such organization")
        return listed

    async def get(self, member: Member, slug: str) -> Service:
        """Raises `NotFound`."""
        return found(await self._lookup.get(member.organization, slug))

    async def change(self, member: Member, slug: str, change: ServiceChange, actor: Actor) -> Service:
        """Raises `NotFound`, `BadRequest` also for what the service has that one of its new type may not have, and `Forbidden` for who may
        not any more: where it sends people back to must not be said by somebody who was put out.
        """
        if not change.said:
            raise BadRequest("One field at least is needed")
        async with self._unit_of_work() as unit:
            await hold_rights(unit, member, Capability.SERVICES_MANAGE)
            before = found(await unit.services.hold(member.organization, slug))
            after = changed(before, change, self._clock.now())
            if after == before:
                return before
            if before.service_type.is_confidential and not after.service_type.is_confidential:
                require_none(await unit.client_secrets.count(before.id))
            await unit.services.save(after)
            await unit.record(service_updated(before, after, actor))
            await unit.commit()
        return after

    async def delete(self, member: Member, slug: str, actor: Actor) -> None:
        """Gone from every answer when this returns; its data follows in batches. Raises `NotFound`, and `Forbidden` for whoever is no
        longer the owner.
        """
        async with self._unit_of_work() as unit:
            # Nothing brings it back, so it must not be one who has just handed the organization over.
            acting = (await unit.members.hold(member.organization, member.user)).get(member.user)
            if acting is None or acting.membership.role != BuiltInRole.OWNER:
                raise Forbidden
            service = found(await unit.services.hold(member.organization, slug))
            await unit.services.delete(service.id, self._clock.now())
            await unit.jobs.add(purge_job(service.id))
            await unit.record(service_deleted(service, actor))
            await unit.commit()


class RegisteredServices:
    """For the operator, who has seen to it that they may ask."""

    def __init__(self, register: ServiceRegister) -> None:
        self._register = register

    async def list(self, organization_slug: str | None, limit: int, offset: int) -> Listed[RegisteredService]:
        """The youngest first; of one organization, or of all."""
        return await self._register.list(organization_slug, limit, offset)

    async def show(self, organization_slug: str, slug: str) -> RegisteredService:
        """Raises `NotFound`."""
        return found(await self._register.find(organization_slug, slug))


def found(of_service: Found | None) -> Found:
    """Whatever is asked for within a service. Raises `NotFound`."""
    if of_service is None:
        raise NotFound("The organization has no such service")
    return of_service
