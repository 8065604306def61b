"""Consents: the ones that users have given, the ones that an organization sees, and the first consent to a new client."""

from collections.abc import Sequence

from core.domain.errors import BadRequest, NotFound
from core.domain.federation.oauth.client_documents import MOST_CLIENTS, UNUSED_AFTER, ClientRefused, targeted
from core.domain.federation.oauth.consents import (
    PLACES_OF_PERSON,
    AgentGrant,
    AgentReach,
    ApplicationAccess,
    Consent,
    UnplacedClient,
    all_grants_ended,
    bucket_of_day,
    consent_given,
    consent_revoked,
    grant_ended,
    resource_consent_revoked,
)
from core.domain.identifiers import AgentGrantId, ConsentId, OrganizationId, ResourceServerId, ServiceId, UserId
from core.domain.record.events import SYSTEM, Actor
from core.domain.services.clients import is_open
from core.domain.services.services import purge_job, service_created, service_deleted
from core.frozen import Frozen, replace
from ports.federation.oauth import ConsentStore
from ports.system import Clock, SharedBuckets, System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Consents(Frozen):
    """Lists and revokes the applications that may act for a user, for this user."""

    unit_of_work: UnitOfWorkFactory
    lookup: ConsentStore

    async def list(self, user: UserId) -> Sequence[ApplicationAccess]:
        """The applications that have a consent of the person, or a session for the person; of agents, those that may act at this moment."""
        return [one for one in await self.lookup.list(user) if one.agent is None or one.resources]

    async def revoke(self, user: UserId, service: ServiceId, actor: Actor) -> ApplicationAccess:
        """Ends the application's sessions, refresh tokens and codes for this person, from the next request on. The application has to ask
        for consent again. Raises `NotFound` when the application has no access.
        """
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            access = await uow.consents.revoke(user, service)
            if access is None:
                raise NotFound("This application has no access to your account")
            await uow.record(consent_revoked(access, actor))
            await uow.commit()
        return access

    async def revoke_resource(self, user: UserId, service: ServiceId, resource: ResourceServerId, actor: Actor) -> ApplicationAccess:
        """Ends what the application may do at one API, with every session and code that was granted it. Raises `NotFound` when the
        application has no access there.
        """
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            access = await uow.consents.revoke_resource(user, service, resource)
            ended = None if access is None else next((one for one in access.resources if one.id == resource), None)
            if access is None or ended is None:
                raise NotFound("This application has no access to this API for you")
            await uow.record(resource_consent_revoked(access, ended, actor))
            await uow.commit()
        return access


async def give_consent(uow: UnitOfWork, id: ConsentId, consent: Consent, actor: Actor) -> bool:  # noqa: A002 - the noun's own word
    """Runs in the caller's unit of work, which locks the account. False when the service is being deleted."""
    given_to = await uow.consents.give(id, consent)
    if given_to is None:
        return False
    await uow.record(consent_given(consent, given_to, actor))
    return True


class AgentGrants(Frozen):
    """Lists and revokes what users of an organization's applications allow its agents, for the members who manage the agents."""

    unit_of_work: UnitOfWorkFactory
    lookup: ConsentStore
    clock: Clock

    async def list(self, organization: OrganizationId, reach: AgentReach, before: AgentGrantId | None, limit: int) -> Sequence[AgentGrant]:
        """Those that stand, the newest first, from before this one on."""
        return await self.lookup.list_grants(organization, reach, before, limit)

    async def get(self, organization: OrganizationId, grant: AgentGrantId) -> AgentGrant:
        """Raises `NotFound` for a grant that has ended, or of another organization."""
        found = await self.lookup.find_grant(organization, grant)
        if found is None:
            raise _unknown()
        return found

    async def end(self, organization: OrganizationId, grant: AgentGrantId, actor: Actor) -> None:
        """The agent can do nothing there for the person from its next request on, and has to ask them again. Raises `NotFound`."""
        found = await self.get(organization, grant)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(found.user)
            if await uow.consents.revoke_resource(found.user, found.service, found.resource) is None:
                raise _unknown()
            await uow.record(grant_ended(found, organization, actor))
            await uow.commit()

    async def end_all(self, organization: OrganizationId, service_slug: str, actor: Actor) -> None:
        """The agent can do nothing for anybody from its next request on, and has to ask everybody again. One row says so, however many
        people have let it in. Raises `NotFound`, and `BadRequest` for a service that is no agent.
        """
        async with self.unit_of_work() as uow:
            service = await uow.services.hold(organization, service_slug)
            if service is None:
                raise NotFound("There is no such service", words="service_unknown")
            if not service.is_agent:
                raise BadRequest("This service is not an agent", words="no_agent")
            await uow.services.save(replace(service, agent_since=self.clock.now()))
            await uow.record(all_grants_ended(service.id, organization, replace(actor, agent=service.client_id)))
            await uow.commit()


def _unknown() -> NotFound:
    return NotFound("There is no such grant", words="agent_grant_unknown")


class UnplacedClients(Frozen):
    """Creates the application of a client that an organization has not seen before. Only the consent of a user does so."""

    buckets: SharedBuckets
    system: System

    async def count(self, person: UserId) -> None:
        """Counts a new client of this person, before the unit of work that places the client. Raises `ClientRefused`."""
        if await self.buckets.take(PLACES_OF_PERSON, bucket_of_day(person, self.system.clock.now())):
            most = PLACES_OF_PERSON.burst
            raise ClientRefused(
                f"client_id: this person has allowed {most} new clients by document today", "documents_of_person", values={"most": most}
            )

    async def hold(self, uow: UnitOfWork, client: UnplacedClient) -> None:
        """Locks the organization, which comes before the account of the person. Raises `ClientRefused`."""
        if not await uow.document_services.hold_organization(client.organization):
            raise ClientRefused("resource: the organization of this API is not active", "application_closed", api=client.api)

    async def place(self, uow: UnitOfWork, client: UnplacedClient, actor: Actor) -> ServiceId:
        """The client's service, which the caller's unit of work makes after `hold`, unless another person was first. The rules are looked
        at again: somebody may have changed them while the person read the page. Raises `ClientRefused`.
        """
        document, store = client.document, uow.document_services
        targeted(client.resources, await store.targets(client.resources, document.provenance), document.provenance)
        known = await store.find(client.id)
        if known is not None:
            return known
        now = self.system.clock.now()
        if await store.count(client.organization) >= MOST_CLIENTS:
            await self._make_room(uow, client)
        service = client.placed_at(now)
        await store.add(service, document.digest)
        if not is_open(document.address):
            await store.keep(client.kept)
        await uow.record(service_created(service, replace(actor, agent=None)))
        return service.id

    async def _make_room(self, uow: UnitOfWork, client: UnplacedClient) -> None:
        now = self.system.clock.now()
        slug = await uow.document_services.unused(client.organization, now - UNUSED_AFTER)
        unused = None if slug is None else await uow.services.hold(client.organization, slug)
        if unused is None:
            raise ClientRefused(
                f"client_id: the organization has {MOST_CLIENTS} clients by document already, and all are in use; delete one first",
                "documents_full",
                api=client.api,
                values={"most": MOST_CLIENTS},
            )
        await uow.services.delete(unused.id, now)
        await uow.jobs.add(purge_job(unused.id))
        await uow.record(service_deleted(unused, SYSTEM))
