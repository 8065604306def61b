"""Clients: who calls the token endpoint and its neighbours."""

from collections.abc import Collection

from core.domain.federation.clients import (
    AuthenticatedClient,
    AuthenticationMethod,
    Credentials,
    RegisteredClient,
    credentials_of,
    require_known,
    require_open,
    used_assertion,
)
from core.domain.federation.oauth_errors import client_refused
from core.domain.secrets import Token
from ports.clock import Clock
from ports.federation.clients import ClientAssertions, ClientLookup, UsedAssertions


class Clients:
    def __init__(
        self,
        lookup: ClientLookup,
        assertions: ClientAssertions,
        used: UsedAssertions,
        clock: Clock,
        *,
        audiences: Collection[str],
    ) -> None:
        """`audiences` are whom an assertion may be for."""
        self._lookup = lookup
        self._assertions = assertions
        self._used = used
        self._clock = clock
        self._audiences = frozenset(audiences)

    def credentials(
        self, *, basic: tuple[str, Token] | None, named: str | None, secret: Token | None, assertion: str | None, assertion_type: str | None
    ) -> Credentials:
        """What a request shows of its client. Raises `BadRequest`, `Unauthorized`."""
        claimed = None if assertion is None else self._assertions.claimed_client(assertion)
        return credentials_of(basic=basic, named=named, secret=secret, assertion=assertion, assertion_type=assertion_type, claimed=claimed)

    async def authenticate(self, credentials: Credentials) -> AuthenticatedClient:
        """In one round trip, and with an assertion in two. Raises `Unauthorized`; `OrganizationNotActive`."""
        secret = credentials.secret
        found = await self._lookup.find(credentials.client, None if secret is None else secret.digest())
        return await self.confirm(found, credentials)

    async def confirm(self, found: RegisteredClient | None, credentials: Credentials) -> AuthenticatedClient:
        """The same for a client that was looked up together with something else."""
        client = require_known(found, credentials)
        if credentials.assertion is not None and client.keys is not None:
            claims = self._assertions.verify(credentials.assertion, client.keys)
            assertion = used_assertion(claims, client.client, self._audiences, self._clock.now())
            if not await self._used.use(client.service, assertion):
                raise client_refused("the assertion was used before")
        require_open(client)
        return AuthenticatedClient(client, credentials.method)


def require_credential(client: AuthenticatedClient) -> None:
    """For what public clients may not do. Raises `Unauthorized`."""
    if client.method is AuthenticationMethod.NONE:
        raise client_refused("the client is public, and this needs a credential")
