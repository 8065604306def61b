"""Client secrets: members create, list and delete them."""

from collections.abc import Sequence

from core.domain.errors import found
from core.domain.identifiers import ClientSecretId
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.domain.services.client_secrets import (
    KIND,
    ClientSecret,
    client_secret_created,
    client_secret_deleted,
    require_confidential,
    require_room,
)
from core.domain.tenancy.keys.machine_keys import prefix_of
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from core.usecases.services.services import NO_SUCH_SERVICE
from core.usecases.tenancy.rights import hold_rights
from ports.services.client_secrets import ClientSecretStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class NewClientSecret(Frozen):
    """A new client secret with its text. Postern stores the prefix and a digest, so no later answer has the text."""

    secret: ClientSecret
    text: Token


class ClientSecrets(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ClientSecretStore
    system: System

    async def create(self, member: Member, service_slug: str, actor: Actor) -> NewClientSecret:
        """Create a client secret. Raises `NotFound`, `BadRequest` when the service cannot keep a secret or has two secrets already, and
        `Forbidden` when the caller may no longer manage services.
        """
        text = self.system.secrets.key(KIND)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SERVICES_MANAGE)
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            require_confidential(service)
            require_room(await uow.client_secrets.count(service.id))
            secret = ClientSecret(
                ClientSecretId(self.system.ids.new()),
                service.id,
                prefix_of(text),
                member.responsible,
                self.system.clock.now(),
                member.key_id,
            )
            await uow.client_secrets.add(secret, text.digest())
            await uow.record(client_secret_created(secret, service, actor))
            await uow.commit()
        return NewClientSecret(secret, text)

    async def list(self, member: Member, service_slug: str) -> Sequence[ClientSecret]:
        """Oldest first. Raises `NotFound`."""
        return found(await self.lookup.list(member.organization, service_slug), NO_SUCH_SERVICE)

    async def delete(self, member: Member, service_slug: str, secret: ClientSecretId, actor: Actor) -> None:
        """The secret is refused from the next request on. Raises `NotFound`."""
        async with self.unit_of_work() as uow:
            service = found(await uow.services.hold(member.organization, service_slug), NO_SUCH_SERVICE)
            deleted = found(await uow.client_secrets.delete(service.id, secret), "The service has no such client secret")
            await uow.record(client_secret_deleted(deleted, service, actor))
            await uow.commit()
