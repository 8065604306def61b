"""The place of a client that an organization has not seen before: the consent of a person gives it one, and nothing else does."""

from core.domain.federation.oauth.client_documents import MOST_CLIENTS, UNUSED_AFTER, ClientRefused, targeted
from core.domain.federation.oauth.unplaced_clients import PLACES_OF_PERSON, UnplacedClient, bucket_of_day
from core.domain.identifiers import ServiceId, UserId
from core.domain.record.events import SYSTEM, Actor
from core.domain.services.client_ids import is_open
from core.domain.services.services import purge_job, service_created, service_deleted
from core.frozen import Frozen, replace
from ports.rate_limits import SharedBuckets
from ports.system import System
from ports.unit_of_work import UnitOfWork


class UnplacedClients(Frozen):
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
