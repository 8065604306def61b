"""Open registration: programs on people's own devices register themselves, and nothing is stored. An organization gets a service for such a
client as for other metadata clients: when a person first allows it there.
"""

from core.domain.errors import NotFound
from core.domain.federation.oauth.client_documents import ClientDocument, ClientRefused
from core.domain.federation.open_registrations import (
    OpenClient,
    OpenRegistration,
    RegistrationKey,
    described_by_id,
    is_on_device,
    keys_rotated,
    opened_registration,
    signing,
    verifying,
)
from core.domain.record.events import Actor
from core.domain.secrets import sealing_context
from core.frozen import Frozen
from ports.encryption import KeyRing
from ports.federation.open_registrations import KnownRegistrationKeys
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class OpenRegistrations(Frozen):
    unit_of_work: UnitOfWorkFactory
    keys: KnownRegistrationKeys
    keyring: KeyRing
    system: System
    is_open: bool
    """Whether the operator has turned it on."""

    async def register(self, given: OpenRegistration) -> OpenClient:
        """Raises `NotFound` where the operator has not turned it on, and `MetadataRefused` and `RedirectRefused`."""
        if not self.is_open:
            raise NotFound("Clients do not register themselves here (POSTERN_OPEN_REGISTRATION)")
        return opened_registration(given, signing(await self.keys.all(), self.system.clock.now()))

    def is_origin(self, origin: bytes) -> bool:
        """Whether pages of this origin may be those of a program that registers itself: they come from the person's own device."""
        return self.is_open and is_on_device(origin)

    async def read(self, client: str) -> ClientDocument:
        """What an open client has said of itself. Costs no query, whatever is sent. Raises `ClientRefused`."""
        if self.is_open:
            found = described_by_id(client, verifying(await self.keys.all(), self.system.clock.now()))
            if found is not None:
                return found
        raise ClientRefused(
            "client_id: nobody has registered this client here, or long ago; the program has to register again", "open_client_unknown"
        )

    async def rotate(self, actor: Actor) -> RegistrationKey | None:
        """A new key, which signs in a minute. None where no program has ever registered."""
        known, now = await self.keys.find(), self.system.clock.now()
        if not known:
            return None
        key = RegistrationKey(f"{known[0].id.partition('/')[0]}/{self.system.ids.new()}", self.system.secrets.key_bytes(32), now)
        counting = verifying(known, now)
        async with self.unit_of_work() as uow:
            await uow.registration_keys.add(key.id, self.keyring.seal(key.secret, sealing_context(key.id)), now)
            await uow.registration_keys.delete([old.id for old in known if old not in counting])
            await uow.record(keys_rotated(key.id, actor))
            await uow.commit()
        return key
