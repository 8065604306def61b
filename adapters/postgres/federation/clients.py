"""OAuth clients in PostgreSQL: their look-up, published keys, used assertions, metadata documents, origins, and open registrations."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from types import UnionType
from typing import Any, Final, LiteralString, NamedTuple, get_args
from uuid import UUID

import structlog
import trio
from psycopg.types.json import Jsonb

from adapters.postgres.columns import AnswerRow, CountRow, IdRow, array, storable, storable_text
from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.proofs.sign_in_policy import ADMITS_ANYBODY
from adapters.postgres.identity.sessions.parts import AUTHENTICATES, IS_OPEN, SESSION_HOURS
from adapters.postgres.services.services import ClientIdRow
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import OnTransaction, Statements, Transaction, ask, ask_in_order, first, tell
from core.domain.errors import Overloaded, Unavailable
from core.domain.federation.oauth.client_documents import DocumentService, DocumentTarget, KeptDocument, restored
from core.domain.federation.oauth.clients import RegisteredClient, UsedAssertion
from core.domain.federation.open_registrations import RegistrationKey
from core.domain.formats import Json
from core.domain.identifiers import ClientId, ClientSecretId, OrganizationId, ResourceServerId, ServiceId
from core.domain.identity.sessions import Context
from core.domain.outbound import Provenance
from core.domain.secrets import sealing_context
from core.domain.services.clients import placed, shown
from core.domain.services.services import AssertionAudience, Service, ServiceType
from core.domain.tenancy.sign_in_rules import session_lifetime
from core.domain.tokens import TokenAlgorithm
from core.frozen import Frozen
from ports.crypto import KeyRing, ServerSecrets
from ports.system import Ids

log = structlog.get_logger()


_Presented = tuple[ClientId, bytes | None]


# Faster than a call of the class, for look-ups of every request.
_SERVICE_TYPES: Final = {one.value: one for one in ServiceType}
_ALGORITHMS: Final = {one.value: one for one in TokenAlgorithm}


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
    session_hours: int | None

    def client(self, client: ClientId) -> RegisteredClient:
        organization, service = OrganizationId(self.organization_id), ServiceId(self.service_id)
        return RegisteredClient(
            client=shown(client),
            context=Context(organization, self.organization_slug, service, self.service_slug),
            service=service,
            organization=organization,
            organization_is_active=self.organization_is_active,
            service_type=_SERVICE_TYPES[self.service_type],
            id_token_algorithm=_ALGORITHMS[self.id_token_alg],
            access_token_algorithm=_ALGORITHMS[self.access_token_alg],
            keys=self.jwks,
            has_secret=self.has_secret,
            secret=None if self.secret is None else ClientSecretId(self.secret),
            keys_uri=self.jwks_uri,
            keys_fetched_at=self.jwks_fetched_at,
            is_agent=self.is_agent,
            binds_tokens=self.binds_tokens,
            holds_fapi2=self.holds_fapi2,
            session_lifetime=session_lifetime(self.session_hours),
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
        for place, row in await ask_in_order(self._pool, _client, FIND_CLIENT, parameters):
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
CLIENT: Final[LiteralString] = f"""
           services.id, services.slug, organizations.id, organizations.slug, organizations.status = 'active', services.service_type,
           services.id_token_alg, services.access_token_alg, services.jwks,
           exists (select from client_secrets where client_secrets.service_id = services.id),
           (
               select client_secrets.id from client_secrets
                where client_secrets.digest = decode(asked.digest, 'hex') and client_secrets.service_id = services.id
           ),
           services.jwks_uri, services.jwks_fetched_at, services.assertion_audience, services.is_agent,
           services.dpop_bound_access_tokens, services.profile = 'fapi2',
           {SESSION_HOURS}
"""

_TYPES: Final[Mapping[Any, LiteralString]] = {
    str: "text",
    bool: "boolean",
    int: "integer",
    UUID: "uuid",
    datetime: "timestamptz",
    dict[str, Any]: "jsonb",
}
# The types of these columns, by their names in `ClientRow`.
CLIENT_TYPES: Final[Mapping[LiteralString, LiteralString]] = {
    name: _TYPES[get_args(kind)[0] if isinstance(kind, UnionType) else kind] for name, kind in ClientRow.__annotations__.items()
}

# Joins the service with the client id `asked.client`, and the service's organization.
ITS_SERVICE: Final = """
     cross join lateral (select * from services where services.oauth_client_id = asked.client limit 1) as services
     cross join lateral (select * from organizations where organizations.id = services.org_id limit 1) as organizations
"""

# For each client, the statement looks once into each index: `adapters/postgres/tenancy/callers.py` gives the reason.
FIND_CLIENT: Final[LiteralString] = f"""
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


def _target(*, id: UUID, organization: UUID, **columns: Any) -> DocumentTarget:  # noqa: A002 - the noun's own word
    return DocumentTarget(id=ResourceServerId(id), organization=OrganizationId(organization), **columns)


def _service(*, organization: UUID, **columns: Any) -> DocumentService:
    return DocumentService(organization=OrganizationId(organization), **columns)


class _Kept(Frozen):
    url: str
    document: Mapping[str, Any]
    fetched_at: datetime
    fresh_until: datetime


class _Slug(Frozen):
    slug: str


class _Pushed(Frozen):
    request: Mapping[str, Any]


class PostgresClientDocuments:
    """Implements `ports.federation.oauth.DocumentLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def targets(self, identifiers: Sequence[str], client: Provenance) -> Sequence[DocumentTarget]:
        parameters = {"identifiers": [storable_text(one) for one in identifiers], **provenance(client)}
        return await ask(self._pool, _target, DOCUMENT_TARGETS, parameters)

    async def kept(self, address: str) -> KeptDocument | None:
        row = first(await ask(self._pool, _Kept, _KEPT, {"digest": _digest(address)}))
        return None if row is None else KeptDocument(restored(row.url, row.document), row.fetched_at, row.fresh_until)

    async def keep(self, kept: KeptDocument) -> None:
        await tell(self._pool, _CLIENT_DOCUMENT_KEEP, _kept(kept))

    async def service(self, client: ClientId) -> DocumentService | None:
        return first(await ask(self._pool, _service, _SERVICE, {"client": client}))

    async def holder(self, address: str, digest: bytes) -> ClientId | None:
        row = first(await ask(self._pool, ClientIdRow, _HOLDER, {"address": address, "digest": digest}))
        return None if row is None else ClientId(row.client_id)

    async def pushed(self, address: str, digest: bytes) -> Mapping[str, Any] | None:
        row = first(await ask(self._pool, _Pushed, _PUSHED, {"address": address, "digest": digest}))
        return None if row is None else row.request


class DocumentServiceRows:
    """Implements `ports.federation.oauth.DocumentServiceStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def hold_organization(self, organization: OrganizationId) -> bool:
        return bool(await self._statements.ask(IdRow, _HOLD, {"organization": organization}))

    async def count(self, organization: OrganizationId) -> int:
        (row,) = await self._statements.ask(CountRow, _COUNT, {"organization": organization})
        return row.count

    async def unused(self, organization: OrganizationId, before: datetime) -> str | None:
        row = first(await self._statements.ask(_Slug, _UNUSED, {"organization": organization, "before": before}))
        return None if row is None else row.slug

    async def targets(self, identifiers: Sequence[str], client: Provenance) -> Sequence[DocumentTarget]:
        parameters = {"identifiers": [storable_text(one) for one in identifiers], **provenance(client)}
        return await self._statements.ask(_target, DOCUMENT_TARGETS, parameters)

    async def find(self, client: ClientId) -> ServiceId | None:
        row = first(await self._statements.ask(IdRow, _FIND, {"client": client}))
        return None if row is None else ServiceId(row.id)

    async def keep(self, kept: KeptDocument) -> None:
        await self._statements.tell(_CLIENT_DOCUMENT_KEEP, _kept(kept))

    async def add(self, service: Service, digest: bytes) -> None:
        parameters = {
            **_described(service, digest),
            "organization": service.organization,
            "slug": service.slug,
            "client": placed(service.client_id, service.organization),
        }
        await self._statements.tell(_ADD, parameters)

    async def describe(self, service: Service, digest: bytes) -> bool:
        return bool(await self._statements.ask(IdRow, _DESCRIBE, _described(service, digest)))


def provenance(client: Provenance) -> Mapping[str, Any]:
    """The parameters of `LETS_IN`."""
    return {"host": client.host, "leads_to": list(client.leads_to)}


def _digest(address: str) -> bytes:
    return sha256(address.encode()).digest()


def _kept(kept: KeptDocument) -> Mapping[str, Any]:
    return {
        "digest": _digest(kept.document.address),
        "url": kept.document.address,
        "document": Jsonb(storable(kept.document.stored())),
        "fetched_at": kept.fetched_at,
        "fresh_until": kept.fresh_until,
    }


def _described(service: Service, digest: bytes) -> Mapping[str, Any]:
    return {
        "id": service.id,
        "name": storable_text(service.name),
        "redirect_uris": list(service.redirect_uris),
        "jwks": None if service.jwks is None else Jsonb(service.jwks),
        "jwks_uri": service.jwks_uri,
        "binds_tokens": service.dpop_bound_access_tokens,
        "frame": service.frontchannel_logout_uri,
        "frame_names_session": service.frontchannel_logout_session_required,
        "initiates_at": service.initiate_login_uri,
        "digest": digest,
        "at": service.updated_at,
    }


# A client with a document, or an open one, which has no host.
LETS_IN: Final = """case
               when %(host)s::text is null then resource_lets_in_open(resource_servers, %(leads_to)s::text[])
               else resource_lets_in_host(resource_servers, %(host)s::text)
           end"""

DOCUMENT_TARGETS: Final[LiteralString] = f"""
    select resource_servers.id, resource_servers.org_id as organization, organizations.slug as organization_slug,
           resource_servers.identifier,
           {LETS_IN} as lets_in
      from resource_servers
      join organizations on organizations.id = resource_servers.org_id and organizations.status = 'active'
     where resource_servers.identifier = any (%(identifiers)s::text[])
       and (resource_servers.verified_at is not null or resource_servers.approved_at is not null)
       and {IS_OPEN}
"""

_KEPT: Final = "select url, document, fetched_at, fresh_until from metadata_documents where url_digest = %(digest)s"

_CLIENT_DOCUMENT_KEEP: Final = """
    insert into metadata_documents as earlier (id, url_digest, url, document, fetched_at, fresh_until)
    values (gen_random_uuid(), %(digest)s, %(url)s, %(document)s, %(fetched_at)s, %(fresh_until)s)
        on conflict (url_digest) do update
       set document = excluded.document, fetched_at = excluded.fetched_at, fresh_until = excluded.fresh_until
     where earlier.fetched_at < excluded.fetched_at
"""

_SERVICE: Final = """
    select org_id as organization, slug, name, document_digest as digest
      from all_services
     where coalesce(kept_client_id, client_id::text) = %(client)s and service_type = 'metadata' and deleted_at is null
"""

# A digest of 256 random bits is in one of these tables at most.
_HOLDER: Final = """
    select services.oauth_client_id as client_id
      from (
               select service_id from authorization_codes where digest = %(digest)s
                union all
               select sessions.service_id
                 from refresh_tokens
                 join sessions on sessions.id = refresh_tokens.session_id
                where refresh_tokens.digest = %(digest)s
           ) as given
      join services on services.id = given.service_id
     where services.service_type = 'metadata' and split_part(services.oauth_client_id, '#', 1) = %(address)s
"""

# What a client pushes that nobody has placed yet names no service. The request names the placed client id, which nobody can send.
_PUSHED: Final = """
    select request
      from pushed_requests
     where digest = %(digest)s and expires_at > now() and split_part(request ->> 'client_id', '#', 1) = %(address)s
"""

_FIND: Final = "select id from services where oauth_client_id = %(client)s"

# The transactions that add metadata clients of an organization take turns here, so each counts what the others have added.
_HOLD: Final = "select id from organizations where id = %(organization)s and status = 'active' for no key update"

_COUNT: Final = "select count(*) from services where org_id = %(organization)s and service_type = 'metadata'"

# What an owner decided about a client counts when the client comes back.
_UNUSED: Final[LiteralString] = f"""
    select slug
      from services
     where org_id = %(organization)s and service_type = 'metadata' and updated_at < %(before)s
       and {ADMITS_ANYBODY} and is_agent and metadata = '{{}}'
       and not exists (select from consents where consents.service_id = services.id)
       and not exists (select from authorization_codes as codes where codes.service_id = services.id and codes.expires_at > now())
       and not exists (
               select
                 from sessions
                where sessions.service_id = services.id and sessions.revoked_at is null and sessions.expires_at > now()
           )
     order by updated_at, id
     limit 1
"""

# It is an agent until an owner says otherwise.
_ADD: Final = """
    insert into all_services (id, org_id, slug, name, service_type, client_id, kept_client_id, redirect_uris, jwks, jwks_uri,
                              jwks_fetched_at, document_digest, assertion_audience, is_agent, dpop_bound_access_tokens, created_at,
                              updated_at, frontchannel_logout_uri, frontchannel_logout_session_required, initiate_login_uri)
    values (%(id)s, %(organization)s, %(slug)s, %(name)s, 'metadata', gen_random_uuid(), %(client)s, %(redirect_uris)s, %(jwks)s,
            %(jwks_uri)s, case when %(jwks_uri)s::text is not null then 'epoch'::timestamptz end, %(digest)s, 'issuer', true,
            %(binds_tokens)s, %(at)s, %(at)s, %(frame)s, %(frame_names_session)s, %(initiates_at)s)
"""

_DESCRIBE: Final = """
    update all_services
       set name = %(name)s, redirect_uris = %(redirect_uris)s, jwks = %(jwks)s, jwks_uri = %(jwks_uri)s, document_digest = %(digest)s,
           dpop_bound_access_tokens = %(binds_tokens)s,
           jwks_fetched_at = case
               when %(jwks_uri)s::text is null then null
               when jwks_uri is not distinct from %(jwks_uri)s::text then jwks_fetched_at
               else 'epoch'::timestamptz
           end,
           frontchannel_logout_uri = %(frame)s, frontchannel_logout_session_required = %(frame_names_session)s,
           initiate_login_uri = %(initiates_at)s, updated_at = %(at)s
     where id = %(id)s and deleted_at is null and (name, document_digest) is distinct from (%(name)s::text, %(digest)s::bytea)
 returning id
"""


class PostgresClientOrigins:
    """Implements `ports.federation.oauth.ClientOriginLookup`.

    The origins are of applications that run in browsers. An index finds them in the applications' redirect URIs.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def includes(self, origin: str) -> bool:
        (answer,) = await ask(self._pool, AnswerRow, _INCLUDES, {"origin": storable_text(origin)})
        return answer.yes


_INCLUDES: Final[LiteralString] = f"""
    select exists (
               select
                 from services
                 join organizations on organizations.id = services.org_id
                where services.service_type = 'web'
                  and web_origins(services.redirect_uris) @> array[%(origin)s::text]
                  and organizations.status = 'active'
                  and not {AUTHENTICATES}
           ) as yes
"""


FIRST: Final = "open_registrations"
# In seconds.
_RENEW_AFTER: Final = 30.0


class _Row(Frozen):
    purpose: str
    sealed_secret: bytes
    created_at: datetime


class PostgresRegistrationKeys:
    """Implements `ports.federation.oauth.KnownRegistrationKeys`.

    The keys that sign open registrations are among the server secrets. A process reads them at their first use, and every half minute while
    they are in use. No caller can cause another query: an ID that no key has signed is refused with what is known.
    """

    def __init__(
        self, pool: Pool, keyring: KeyRing, server_secrets: ServerSecrets, monotonic: Callable[[], float] = trio.current_time
    ) -> None:
        self._pool = pool
        self._keyring = keyring
        self._server_secrets = server_secrets
        self._monotonic = monotonic
        self._known: Sequence[RegistrationKey] = ()
        self._renew_at = float("-inf")

    async def all(self) -> Sequence[RegistrationKey]:
        if self._known and self._monotonic() < self._renew_at:
            return self._known
        # Others go on with what is known while this one reads.
        self._renew_at = self._monotonic() + _RENEW_AFTER
        try:
            found = await self.find()
            if not found:
                await self._server_secrets.get(FIRST)
                found = await self.find()
        except (Unavailable, Overloaded) as error:
            if not self._known:
                raise
            log.warning("registration_keys_not_renewed", error=type(error).__name__)
            return self._known
        self._known = found
        return found

    async def find(self) -> Sequence[RegistrationKey]:
        rows = await ask(self._pool, _Row, _ALL, {"first": FIRST})
        return [
            RegistrationKey(row.purpose, self._keyring.open(row.sealed_secret, sealing_context(row.purpose)), row.created_at)
            for row in rows
        ]


class RegistrationKeyRows(OnTransaction):
    """Implements `ports.federation.oauth.RegistrationKeyStore`."""

    async def add(self, key: str, sealed_secret: bytes, at: datetime) -> None:
        await self._transaction.tell(_REGISTRATION_KEY_ADD, {"key": key, "sealed": sealed_secret, "at": at})

    async def delete(self, keys: Sequence[str]) -> None:
        await self._transaction.tell(_DELETE, {"keys": list(keys)})


_ALL: Final = """
    select purpose, sealed_secret, created_at
      from server_secrets
     where purpose = %(first)s or starts_with(purpose, %(first)s || '/')
     order by created_at, purpose
"""

_REGISTRATION_KEY_ADD: Final = "insert into server_secrets (purpose, sealed_secret, created_at) values (%(key)s, %(sealed)s, %(at)s)"

_DELETE: Final = "delete from server_secrets where purpose = any (%(keys)s::text[])"
