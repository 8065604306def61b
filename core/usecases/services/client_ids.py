"""The client ids of services that come from another system. The operator alone decides about them: an id that one service has is an id that
no other service of the installation can have.
"""

from core.domain.errors import BadRequest, Conflict, found
from core.domain.identifiers import OrganizationId
from core.domain.record.events import Actor
from core.domain.services.client_ids import kept_client_id
from core.domain.services.services import Service, ServiceType, service_updated
from core.frozen import Frozen, replace
from ports.clock import Clock
from ports.unit_of_work import UnitOfWorkFactory


class KeptClientIds(Frozen):
    """The caller has checked that the request comes from the operator."""

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
                raise BadRequest("A document describes this application, and its address is its client id", words="described_by_document")
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
