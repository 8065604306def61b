"""Services: members of the organization create, list and change them, and the owner deletes them."""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound, OrganizationNotActive, found
from core.domain.identifiers import ClientId, LogoId, PlanId, ServiceId
from core.domain.identity.session_limits.reach import SessionReach
from core.domain.json import Json
from core.domain.outbound.key_sets import PATIENCE
from core.domain.pages import Listed
from core.domain.record.events import Actor
from core.domain.services.client_secrets import require_none
from core.domain.services.plans import Plan, default_plan, plan_created
from core.domain.services.services import (
    NewService,
    RegisteredService,
    Service,
    ServiceChange,
    ServiceList,
    ServiceType,
    ServiceUsage,
    changed,
    logout_destination,
    purge_job,
    require_nothing_lasting,
    service_created,
    service_deleted,
    service_updated,
    with_logo,
)
from core.domain.tenancy.look_pictures import LOGO_BOUNDS, Logo, look_picture
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.fetches import not_fetched
from core.usecases.tenancy.rights import hold_members, hold_rights, require_owner
from core.usecases.tenancy.session_reach import reached_sessions
from ports.identity.session_limits.session_reach import SessionReachLookup
from ports.outbound import Outbound, OutboundFailed
from ports.services.published_keys import KeySets
from ports.services.services import ServiceRegister, ServiceStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

NO_SUCH_SERVICE: Final = "The organization has no such service"


class CreatedService(Frozen):
    service: Service
    default_plan: Plan
    usage: ServiceUsage


class OrganizationServices(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ServiceStore
    session_reach: SessionReachLookup
    outbound: Outbound
    key_sets: KeySets
    system: System

    async def create(self, member: Member, wanted: NewService, actor: Actor) -> CreatedService:
        """Create a service with a free plan. Raises `BadRequest`, `ServiceLimitExceeded`, `Conflict` when the organization has a service
        with this slug, and `Forbidden` when the caller may no longer create services: a person who was removed must not leave a service
        behind.
        """
        now = self.system.clock.now()
        if wanted.jwks_uri is not None:
            wanted = wanted.with_published(await self._published(wanted.jwks_uri))
        service = wanted.service(ServiceId(self.system.ids.new()), member.organization, ClientId(str(self.system.ids.new())), now)
        self._require_callable(service)
        plan = default_plan(PlanId(self.system.ids.new()), service.id, now)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_CREATE)
            organization, usage = await uow.services.usage(member.organization)
            if not organization.is_active:
                raise OrganizationNotActive
            usage.require_room()
            if not await uow.services.add(service):
                raise Conflict("slug: the organization already has a service with this slug", words="service_slug_taken")
            await uow.plans.add(plan)
            await uow.record_all([service_created(service, actor), plan_created(plan, service.organization, service.slug, actor)])
            await uow.commit()
        return CreatedService(service, plan, usage.with_one_more())

    async def list(
        self, member: Member, *, service_type: ServiceType | None = None, limit: int | None = None, offset: int = 0
    ) -> ServiceList:
        """Oldest first; all of them unless a limit is given. Raises `NotFound`."""
        listed = await self.lookup.list(member.organization, service_type=service_type, limit=limit, offset=offset)
        if listed is None:
            # The organization was deleted since the request came in.
            raise NotFound("There is no such organization")
        return listed

    async def get(self, member: Member, slug: str) -> Service:
        """Raises `NotFound`."""
        return found(await self.lookup.find(member.organization, slug), NO_SUCH_SERVICE)

    async def change(self, member: Member, slug: str, change: ServiceChange, actor: Actor) -> Service:
        """Change a service. Raises `NotFound`; `BadRequest`, also when the service has something that its new type may not have, for
        example client secrets; and `Forbidden` when the caller may no longer manage services: a person who was removed must not change
        redirect URIs.
        """
        if not change.said:
            raise BadRequest("Send at least one field", words="nothing_to_change")
        require_nothing_lasting(change, actor)
        if isinstance(change.jwks_uri, str):
            change = change.with_published(await self._published(change.jwks_uri))
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            before = found(await uow.services.hold(member.organization, slug), NO_SUCH_SERVICE)
            after = changed(before, change, self.system.clock.now())
            if after is before:
                return before
            if after.backchannel_logout_uri != before.backchannel_logout_uri:
                self._require_callable(after)
            if before.service_type.is_confidential and not after.service_type.is_confidential:
                require_none(await uow.client_secrets.count(before.id))
            await uow.services.save(after)
            if after.profile is not before.profile:
                await uow.services.end_requests(before.id)
            await uow.record(service_updated(before, after, actor))
            await uow.commit()
        return after

    async def put_logo(self, member: Member, slug: str, content: bytes, actor: Actor, *, declared: str = "") -> Service:
        """Sets the picture that pages and mails show for the service. Raises `BadRequest`, `PayloadTooLarge`, `NotFound`, and `Forbidden`
        when the caller may no longer manage services.
        """
        return await self._replace_logo(member, slug, look_picture(content, LOGO_BOUNDS, declared), actor)

    async def remove_logo(self, member: Member, slug: str, actor: Actor) -> None:
        """Does nothing when there is none. Raises `NotFound` and `Forbidden`."""
        await self._replace_logo(member, slug, None, actor)

    async def _replace_logo(self, member: Member, slug: str, logo: Logo | None, actor: Actor) -> Service:
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            before = found(await uow.services.hold(member.organization, slug), NO_SUCH_SERVICE)
            after = with_logo(before, None if logo is None else logo.digest, self.system.clock.now())
            if after is before:
                return before
            await uow.services.replace_logo(after, logo, LogoId(self.system.ids.new()))
            await uow.record(service_updated(before, after, actor))
            await uow.commit()
        return after

    async def session_effects(self, member: Member, slug: str, change: ServiceChange) -> SessionReach:
        """The sessions that the change would end, without making it. Raises as `change` does for a change that is not allowed."""
        before = await self.get(member, slug)
        after = changed(before, change, self.system.clock.now())
        return await reached_sessions(self.session_reach, member, before.id, before.session_limits, after.session_limits)

    async def delete(self, member: Member, slug: str, actor: Actor) -> None:
        """The service disappears from every answer at once; its data is removed in batches. Raises `NotFound`, and `Forbidden` when the
        caller is no longer the owner.
        """
        async with self.unit_of_work() as uow:
            # A deletion cannot be undone, so a person who has just transferred the ownership must not be able to delete the service.
            acting, _ = await hold_members(uow, member)
            await require_owner(uow, acting, self.system.clock.now())
            service = found(await uow.services.hold(member.organization, slug), NO_SUCH_SERVICE)
            await uow.services.delete(service.id, self.system.clock.now())
            await uow.jobs.add(purge_job(service.id))
            await uow.record(service_deleted(service, actor))
            await uow.commit()

    async def _published(self, url: str) -> Mapping[str, Json]:
        """The service's key set, fetched whenever a request contains `jwks_uri`. Raises `BadRequest`."""
        try:
            return await self.key_sets.fetch(url)
        except OutboundFailed as failed:
            raise not_fetched(failed, "jwks_uri", "the keys", PATIENCE) from None

    def _require_callable(self, service: Service) -> None:
        uri = service.backchannel_logout_uri
        if uri is not None and not self.outbound.may_call(logout_destination(uri)):
            raise BadRequest(
                "backchannel_logout_uri: this address is not public, and the operator of this installation has not allowed it",
                words="address_not_public",
            )


class RegisteredServices(Frozen):
    """For operators. The caller of these methods has checked that the operator may read services."""

    register: ServiceRegister

    async def list(self, organization_slug: str | None, limit: int, offset: int) -> Listed[RegisteredService]:
        """Newest first; of one organization, or of all."""
        return await self.register.list(organization_slug, limit, offset)

    async def show(self, organization_slug: str, slug: str) -> RegisteredService:
        """Raises `NotFound`."""
        return found(await self.register.find(organization_slug, slug), NO_SUCH_SERVICE)
