"""Manages applications: members create, list and change them, and the owner deletes them."""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import BadRequest, Conflict, NotFound, OrganizationNotActive, found
from core.domain.formats import Json
from core.domain.identifiers import ClientId, LogoId, ManagementKeyId, OrganizationId, PlanId, ServiceId
from core.domain.identity.session_limits import SessionReach
from core.domain.outbound import KEYS_PATIENCE
from core.domain.record.events import Actor
from core.domain.requests import Listed
from core.domain.services.api_keys import api_key_deleted, made_secret_deleted, require_no_client_secret
from core.domain.services.clients import kept_client_id
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
from core.domain.tenancy.branding import LOGO_BOUNDS, Logo, look_picture
from core.domain.tenancy.invitations import revoked
from core.domain.tenancy.management_keys import MOST_LISTED, MadeByKey, management_key_ended
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen, replace
from core.usecases.fetches import not_fetched
from core.usecases.tenancy.management_keys import NO_SUCH_MANAGEMENT_KEY
from core.usecases.tenancy.rights import hold_members, hold_rights, require_capability, require_owner
from core.usecases.tenancy.sign_in_rules import reached_sessions
from ports.identity.sessions import SessionReachLookup
from ports.outbound import Outbound, OutboundFailed
from ports.services.services import KeySets, ServiceRegister, ServiceStore
from ports.system import Clock, System
from ports.unit_of_work import UnitOfWorkFactory

NO_SUCH_SERVICE: Final = "The organization has no such service"


class CreatedService(Frozen):
    service: Service
    default_plan: Plan
    usage: ServiceUsage


class OrganizationServices(Frozen):
    """Creates, lists, changes and deletes the applications of an organization, for its members."""

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
                require_no_client_secret(await uow.client_secrets.count(before.id))
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
            raise not_fetched(failed, "jwks_uri", "the keys", KEYS_PATIENCE) from None

    def _require_callable(self, service: Service) -> None:
        uri = service.backchannel_logout_uri
        if uri is not None and not self.outbound.may_call(logout_destination(uri)):
            raise BadRequest(
                "backchannel_logout_uri: this URL is not public, and the operator of this installation has not allowed it",
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


class MadeByKeys(Frozen):
    """Revokes a management API key, and with it what the key has created, if the caller wants this. Otherwise it outlasts the key."""

    unit_of_work: UnitOfWorkFactory
    clock: Clock

    async def end(self, member: Member, key: ManagementKeyId, actor: Actor, *, end_made: bool) -> MadeByKey:
        """End a management key, which is refused from the next request on. Nobody can accept its invitations any more. Returns what the key
        has made that lasted until now; with `end_made`, this ends too, except for memberships. Raises `NotFound`, and `Forbidden` when the
        caller may no longer do this, or may not manage services and wants to end what the key made.
        """
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            require_capability(acting, Capability.INTEGRATIONS_MANAGE)
            if end_made:
                require_capability(acting, Capability.SERVICES_MANAGE)
            made = await uow.management_keys.made(key)
            ended = found(await uow.management_keys.end(member.organization, key), NO_SUCH_MANAGEMENT_KEY)
            events = [management_key_ended(ended, actor, made, ended_made=end_made)]
            if end_made:
                # They are void in any case, so cancelling them takes no further right. Any beyond the limit stay void until they expire.
                invitations = await uow.invitations.cancel_made(member.organization, key, MOST_LISTED, self.clock.now())
                events += [revoked(one, actor) for one in invitations]
                secrets = await uow.client_secrets.delete_made(key)
                api_keys = await uow.api_keys.delete_made(key)
                events += [made_secret_deleted(one, actor) for one in secrets]
                events += [api_key_deleted(one, actor) for one in api_keys]
            await uow.record_all(events)
            await uow.commit()
        return made


class KeptClientIds(Frozen):
    """Imports client IDs from another system. The operator alone decides about them: an ID that one application has is an ID that no other
    application of the installation can have.

    The caller has checked that the request comes from the operator.
    """

    unit_of_work: UnitOfWorkFactory
    clock: Clock

    async def keep(self, organization: OrganizationId, slug: str, kept: str | None, actor: Actor) -> Service:
        """From now on the service is the client with the id `kept`, or with its own one. Raises `NotFound`; `BadRequest` for a text that is
        no client id; and `Conflict`.
        """
        wanted = None if kept is None else kept_client_id(kept)
        async with self.unit_of_work() as uow:
            before = found(await uow.services.hold(organization, slug), "The organization has no such service")
            if before.service_type is ServiceType.METADATA:
                raise BadRequest(
                    "A metadata document describes this application, and its URL is its client ID", words="described_by_document"
                )
            client = await uow.services.keep_client_id(before.id, wanted)
            if client is None:
                raise Conflict("client_id: another service of this installation has it, or one that is being deleted")
            after = replace(before, client_id=client, updated_at=self.clock.now())
            if client == before.client_id:
                return before
            await uow.services.save(after)
            await uow.record(service_updated(before, after, actor))
            await uow.commit()
        return after
