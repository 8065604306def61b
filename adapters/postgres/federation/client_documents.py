"""Metadata documents of clients in PostgreSQL, and the services that the clients are in organizations."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.proofs.sign_in_policy import ADMITS_ANYBODY
from adapters.postgres.identity.sessions.audiences import IS_OPEN
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.services.services import ClientIdRow
from adapters.postgres.statements import Statements, ask, first, tell
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import Transaction
from core.domain.federation.oauth.client_documents import DocumentService, DocumentTarget, KeptDocument, restored
from core.domain.identifiers import ClientId, OrganizationId, ResourceServerId, ServiceId
from core.domain.outbound import Provenance
from core.domain.services.clients import placed
from core.domain.services.services import Service
from core.frozen import Frozen


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
        return await ask(self._pool, _target, TARGETS, parameters)

    async def kept(self, address: str) -> KeptDocument | None:
        row = first(await ask(self._pool, _Kept, _KEPT, {"digest": _digest(address)}))
        return None if row is None else KeptDocument(restored(row.url, row.document), row.fetched_at, row.fresh_until)

    async def keep(self, kept: KeptDocument) -> None:
        await tell(self._pool, _KEEP, _kept(kept))

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
        return await self._statements.ask(_target, TARGETS, parameters)

    async def find(self, client: ClientId) -> ServiceId | None:
        row = first(await self._statements.ask(IdRow, _FIND, {"client": client}))
        return None if row is None else ServiceId(row.id)

    async def keep(self, kept: KeptDocument) -> None:
        await self._statements.tell(_KEEP, _kept(kept))

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
        "digest": digest,
        "at": service.updated_at,
    }


# A client with a document, or an open one, which has no host.
LETS_IN: Final = """case
               when %(host)s::text is null then resource_lets_in_open(resource_servers, %(leads_to)s::text[])
               else resource_lets_in_host(resource_servers, %(host)s::text)
           end"""

TARGETS: Final[LiteralString] = f"""
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

_KEEP: Final = """
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
                              updated_at, frontchannel_logout_uri, frontchannel_logout_session_required)
    values (%(id)s, %(organization)s, %(slug)s, %(name)s, 'metadata', gen_random_uuid(), %(client)s, %(redirect_uris)s, %(jwks)s,
            %(jwks_uri)s, case when %(jwks_uri)s::text is not null then 'epoch'::timestamptz end, %(digest)s, 'issuer', true,
            %(binds_tokens)s, %(at)s, %(at)s, %(frame)s, %(frame_names_session)s)
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
           updated_at = %(at)s
     where id = %(id)s and deleted_at is null and (name, document_digest) is distinct from (%(name)s::text, %(digest)s::bytea)
 returning id
"""
