"""Clients in PostgreSQL: the look-up that every request of a client makes, the published keys, and the used assertions."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.arrays import array
from adapters.postgres.driver.pool import Pool
from adapters.postgres.rows import IdRow
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask, ask_in_order, tell
from core.domain.federation.oauth.clients import RegisteredClient, UsedAssertion
from core.domain.formats import Json
from core.domain.identifiers import ClientId, ClientSecretId, OrganizationId, ServiceId
from core.domain.identity.sessions import Context
from core.domain.services.clients import shown
from core.domain.services.services import AssertionAudience, ServiceType
from core.domain.tokens import TokenAlgorithm
from ports.system import Ids

_Presented = tuple[ClientId, bytes | None]


class ClientRow(NamedTuple):
    """The columns of `CLIENT`."""

    service_id: UUID
    service_slug: str
    organization_id: UUID
    organization_slug: str
    organization_is_active: bool
    service_type: str
    id_token_alg: str
    access_token_alg: str
    jwks: dict[str, Any] | None
    has_secret: bool
    secret: UUID | None
    """The secret that the request has shown, if it is one of the service's."""
    jwks_uri: str | None
    jwks_fetched_at: datetime | None
    assertion_audience: str
    is_agent: bool
    binds_tokens: bool
    holds_fapi2: bool

    def client(self, client: ClientId) -> RegisteredClient:
        organization, service = OrganizationId(self.organization_id), ServiceId(self.service_id)
        return RegisteredClient(
            client=shown(client),
            context=Context(organization, self.organization_slug, service, self.service_slug),
            service=service,
            organization=organization,
            organization_is_active=self.organization_is_active,
            service_type=ServiceType(self.service_type),
            id_token_algorithm=TokenAlgorithm(self.id_token_alg),
            access_token_algorithm=TokenAlgorithm(self.access_token_alg),
            keys=self.jwks,
            has_secret=self.has_secret,
            secret=None if self.secret is None else ClientSecretId(self.secret),
            keys_uri=self.jwks_uri,
            keys_fetched_at=self.jwks_fetched_at,
            is_agent=self.is_agent,
            binds_tokens=self.binds_tokens,
            holds_fapi2=self.holds_fapi2,
            names_endpoints=self.assertion_audience == AssertionAudience.ENDPOINT,
        )


def _client(place: int, *columns: Any) -> tuple[int, ClientRow]:
    return place, ClientRow(*columns)


class PostgresClients:
    """Implements `ports.federation.oauth.ClientLookup`. Look-ups that arrive at once share a round trip."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._clients = SharedLookups(self._find)

    async def find(self, client: ClientId, secret_digest: bytes | None) -> RegisteredClient | None:
        return await self._clients.find((client, secret_digest))

    async def _find(self, asked: Sequence[_Presented]) -> Mapping[_Presented, RegisteredClient]:
        parameters = {"clients": array([client for client, _ in asked]), "digests": digests([digest for _, digest in asked])}
        found = {}
        for place, row in await ask_in_order(self._pool, _client, FIND, parameters):
            key = client, _ = asked[place - 1]
            found[key] = row.client(client)
        return found


class PostgresKeptKeys:
    """Implements `ports.services.services.KeptKeys`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def keep(self, service: ServiceId, url: str, keys: Mapping[str, Json], at: datetime) -> None:
        await tell(self._pool, _KEEP, {"service": service, "url": url, "keys": Jsonb(keys), "at": at})


class PostgresUsedAssertions:
    """Implements `ports.federation.oauth.UsedAssertions`."""

    def __init__(self, pool: Pool, ids: Ids) -> None:
        self._pool = pool
        self._ids = ids

    async def use(self, client: RegisteredClient, assertion: UsedAssertion) -> bool:
        parameters = {
            "id": self._ids.new(),
            "service": client.service,
            "keys": None if client.keys is None else Jsonb(client.keys),
            "keys_uri": client.keys_uri,
            "digest": assertion.digest,
            "expires_at": assertion.expires_at,
        }
        if not client.is_placed:
            return bool(await ask(self._pool, IdRow, _USE_UNPLACED, parameters))
        return bool(await ask(self._pool, IdRow, _USE, {**parameters, "of_document": assertion.of_document}))


def digests(found: Sequence[bytes | None]) -> str:
    """An array of digests in hexadecimal digits, for `decode`. None becomes null."""
    return array(["null" if one is None else one.hex() for one in found])


# Columns of a statement that reads `services`, the service's organization as `organizations`, and a digest as `asked.digest`.
CLIENT: Final = """
           services.id, services.slug, organizations.id, organizations.slug, organizations.status = 'active', services.service_type,
           services.id_token_alg, services.access_token_alg, services.jwks,
           exists (select from client_secrets where client_secrets.service_id = services.id),
           (
               select client_secrets.id from client_secrets
                where client_secrets.digest = decode(asked.digest, 'hex') and client_secrets.service_id = services.id
           ),
           services.jwks_uri, services.jwks_fetched_at, services.assertion_audience, services.is_agent,
           services.dpop_bound_access_tokens, services.profile = 'fapi2'
"""

# Joins the service with the client id `asked.client`, and the service's organization.
ITS_SERVICE: Final = """
     cross join lateral (select * from services where services.oauth_client_id = asked.client limit 1) as services
     cross join lateral (select * from organizations where organizations.id = services.org_id limit 1) as organizations
"""

# For each client, the statement looks once into each index: `adapters/postgres/tenancy/callers.py` gives the reason.
FIND: Final[LiteralString] = f"""
    select asked.place, {CLIENT}
      from unnest((select %(clients)s::text[]), (select %(digests)s::text[])) with ordinality as asked (client, digest, place)
           {ITS_SERVICE}
"""

# The condition on `jwks_uri` drops keys of an earlier address: somebody may have changed the address meanwhile.
_KEEP: Final = """
    update services
       set jwks = %(keys)s, jwks_fetched_at = %(at)s
     where id = %(service)s and jwks_uri = %(url)s and jwks_fetched_at < %(at)s
"""

# The published keys are not compared here, only their address: another request may have read the keys again meanwhile.
_USE: Final = """
    insert into client_assertions (id, service_id, digest, expires_at)
    select %(id)s, case when not %(of_document)s then service.id end, %(digest)s, %(expires_at)s
      from (
               select services.id
                 from services
                 join organizations on organizations.id = services.org_id and organizations.status = 'active'
                where services.id = %(service)s
                  and services.jwks_uri is not distinct from %(keys_uri)s::text
                  and (services.jwks_uri is not null or services.jwks = %(keys)s::jsonb)
                  for key share
           ) as service
        on conflict do nothing
 returning id
"""

# Its keys are those of its document, which no service has.
_USE_UNPLACED: Final = """
    insert into client_assertions (id, service_id, digest, expires_at)
    values (%(id)s, null, %(digest)s, %(expires_at)s)
        on conflict do nothing
 returning id
"""
