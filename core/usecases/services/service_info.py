"""Service info: a service's own servers may rename the service. They read the metadata of the service and of its
organization; the other facts about the service come from their key's holder.
"""

from core.domain.errors import Unauthorized
from core.domain.record.events import Actor
from core.domain.services.api_keys import KeyHolder
from core.domain.services.services import Service, ServiceChange, changed, service_updated
from core.frozen import Frozen, replace
from ports.clock import Clock
from ports.services.services import KeptMetadata, ServiceStore
from ports.unit_of_work import UnitOfWorkFactory


class ServiceInfo(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ServiceStore
    clock: Clock

    async def metadata(self, holder: KeyHolder) -> KeptMetadata:
        """Of the key's service and of its organization. Raises `Unauthorized` when they were deleted since the request came in."""
        kept = await self.lookup.metadata(holder.service)
        if kept is None:
            raise Unauthorized("The API key is not valid")
        return kept

    async def rename(self, holder: KeyHolder, name: str | None, actor: Actor) -> Service:
        """Rename the service. With None the name stays as it is. Raises `BadRequest`."""
        async with self.unit_of_work() as uow:
            before = _own(await uow.services.hold(holder.organization, holder.service_slug), holder)
            if name is None:
                return before
            after = changed(before, ServiceChange(name=name), self.clock.now())
            if after is before:
                return before
            await uow.services.save(after)
            event = service_updated(before, after, actor)
            await uow.record(replace(event, details={**event.details, "api_key_id": str(holder.key)}))
            await uow.commit()
        return after


def _own(service: Service | None, holder: KeyHolder) -> Service:
    """The key's own service. Raises `Unauthorized` when the service and its keys were deleted since the request came in. By now another
    service may have the same slug, so the ids are compared.
    """
    if service is None or service.id != holder.service:
        raise Unauthorized("The API key is not valid")
    return service
