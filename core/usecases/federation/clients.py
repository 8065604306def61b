"""Clients of the token endpoint: their authentication, the origins of the ones in browsers, and dynamic client registration."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import NotFound, Unauthorized
from core.domain.federation.oauth.authorizations import ALGORITHMS, assertions_alone
from core.domain.federation.oauth.client_documents import ClientDocument, ClientRefused
from core.domain.federation.oauth.clients import (
    AuthenticatedClient,
    AuthenticationMethod,
    ClientCredentials,
    RegisteredClient,
    credentials_of,
    require_known,
    require_open,
    used_assertion,
)
from core.domain.federation.oauth.refusals import client_refused
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
from core.domain.formats import Json
from core.domain.identifiers import ClientSecretId
from core.domain.outbound import KEY_ALGORITHMS
from core.domain.record.events import Actor
from core.domain.secrets import Token, sealing_context
from core.domain.services.clients import LONGEST_URI
from core.frozen import Frozen
from ports.crypto import KeyRing
from ports.federation.oauth import ClientAssertions, ClientLookup, ClientOriginLookup, KnownRegistrationKeys, UsedAssertions
from ports.services.services import KeptKeys, KeySets
from ports.system import Clock, Presence, System
from ports.unit_of_work import UnitOfWorkFactory


class Clients(Frozen):
    """Authenticates clients at the token endpoint and at the other endpoints that take client credentials.

    A client's assertion names the `issuer`, or, if the client may name endpoints, one of the `endpoints`.
    """

    lookup: ClientLookup
    assertions: ClientAssertions
    used: UsedAssertions
    key_sets: KeySets
    kept_keys: KeptKeys
    secret_presence: Presence[ClientSecretId]
    clock: Clock
    issuer: str
    endpoints: Collection[str]

    def credentials(
        self, *, basic: tuple[str, Token] | None, named: str | None, secret: Token | None, assertion: str | None, assertion_type: str | None
    ) -> ClientCredentials:
        """The client's credentials in a request. Raises `BadRequest`, `Unauthorized`."""
        claimed = None if assertion is None else self.assertions.claimed_client(assertion)
        return credentials_of(basic=basic, named=named, secret=secret, assertion=assertion, assertion_type=assertion_type, claimed=claimed)

    async def authenticate(self, credentials: ClientCredentials) -> AuthenticatedClient:
        """Authenticates a client in one round trip, or in two with an assertion. Raises `Unauthorized` and `OrganizationNotActive`."""
        secret = credentials.secret
        found = await self.lookup.find(credentials.client, None if secret is None else secret.digest())
        return await self.confirm(found, credentials)

    async def confirm(self, found: RegisteredClient | None, credentials: ClientCredentials) -> AuthenticatedClient:
        """Authenticates a client that the caller has already looked up. Raises the errors of `authenticate`."""
        client = require_known(found, credentials)
        if client.holds_fapi2:
            await self._confirm_fapi2(client, credentials)
        elif credentials.assertion is not None and client.keys is not None:
            await self._confirm_assertion(client, credentials, credentials.assertion, client.keys)
        require_open(client)
        if client.secret is not None:
            self.secret_presence.seen(client.secret, self.clock.now())
        return AuthenticatedClient(client, credentials.method)

    async def _confirm_fapi2(self, client: RegisteredClient, credentials: ClientCredentials) -> None:
        """Takes assertions alone (FAPI 2.0 Security Profile section 5.3.2.1). Raises `Unauthorized`, which names the rule."""
        if credentials.assertion is None or client.keys is None:
            raise assertions_alone("the client holds fapi2, and sent no assertion")
        try:
            await self._confirm_assertion(client, credentials, credentials.assertion, client.keys)
        except Unauthorized as refusal:
            raise assertions_alone(refusal.detail) from None

    async def _confirm_assertion(
        self, client: RegisteredClient, credentials: ClientCredentials, text: str, keys: Mapping[str, Json]
    ) -> None:
        claims = await self._verified(text, client, keys)
        audiences = {self.issuer, *(self.endpoints if client.names_endpoints else ())}
        assertion = used_assertion(claims, client.client, audiences, self.clock.now(), as_string=client.holds_fapi2)
        if not await self.used.use(client, assertion):
            require_open(require_known(await self.lookup.find(credentials.client, None), credentials))
            raise client_refused("the assertion was used before, or the client has other keys since")

    async def _verified(self, assertion: str, client: RegisteredClient, keys: Mapping[str, Json]) -> Mapping[str, Json]:
        """Reads published keys again when the keys are old, and when none of the keys verifies: the client may have a new key since."""
        algorithms = ALGORITHMS if client.holds_fapi2 else KEY_ALGORITHMS
        if client.keys_uri is None:
            return self.assertions.verify(assertion, keys, algorithms)
        if not client.has_old_keys(self.clock.now()):
            try:
                return self.assertions.verify(assertion, keys, algorithms)
            except Unauthorized:
                renewed = await self._renewed(client, client.keys_uri)
                if renewed is None or renewed == keys:
                    raise
                return self.assertions.verify(assertion, renewed, algorithms)
        renewed = await self._renewed(client, client.keys_uri)
        return self.assertions.verify(assertion, keys if renewed is None else renewed, algorithms)

    async def _renewed(self, client: RegisteredClient, url: str) -> Mapping[str, Json] | None:
        renewed = await self.key_sets.renewed(url)
        if renewed is not None:
            await self.kept_keys.keep(client.service, url, renewed, self.clock.now())
        return renewed


def require_credential(client: AuthenticatedClient) -> None:
    """Refuses public clients. Raises `Unauthorized`."""
    if client.method is AuthenticationMethod.NONE:
        raise client_refused("the client is public, and this needs a credential")


# A change of redirect URIs counts within this time. The delay does no harm: an answer holds no secret from a page that has the token.
_KNOWN_FOR: Final = timedelta(minutes=1)
_MOST: Final = 1000


class ClientOrigins:
    """Knows the origins of applications that run in browsers. Pages of these origins may read responses of the token endpoint (CORS)."""

    def __init__(self, lookup: ClientOriginLookup, clock: Clock, most: int = _MOST) -> None:
        """Remembers at most `most` origins."""
        self._most = most
        self._lookup = lookup
        self._clock = clock
        self._known: OrderedDict[str, tuple[bool, datetime]] = OrderedDict()

    async def includes(self, origin: str) -> bool:
        if len(origin) > LONGEST_URI:
            return False
        now = self._clock.now()
        known = self._known.get(origin)
        if known is not None and now < known[1]:
            return known[0]
        found = await self._lookup.includes(origin)
        self._known[origin] = found, now + _KNOWN_FOR
        self._known.move_to_end(origin)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return found


class OpenRegistrations(Frozen):
    """Registers clients dynamically (RFC 7591) and stores nothing: the client ID carries the metadata. An organization gets an application
    for such a client when a user first consents to it there, as for other metadata clients.
    """

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
            "client_id: this client is not registered here, or its registration has expired; register again", "open_client_unknown"
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
