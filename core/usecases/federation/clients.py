"""Clients: the callers of the token endpoint and of its neighbours."""

from collections.abc import Collection, Mapping

from core.domain.errors import Unauthorized
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
from core.domain.federation.oauth.oauth_errors import client_refused
from core.domain.federation.profiles import ALGORITHMS, assertions_alone
from core.domain.identifiers import ClientSecretId
from core.domain.json import Json
from core.domain.outbound.key_sets import KEY_ALGORITHMS
from core.domain.secrets import Token
from core.frozen import Frozen
from ports.clock import Clock
from ports.federation.clients import ClientAssertions, ClientLookup, UsedAssertions
from ports.presence import Presence
from ports.services.published_keys import KeptKeys, KeySets


class Clients(Frozen):
    """A client's assertion names the `issuer`, or, if the client may name endpoints, one of the `endpoints`."""

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
