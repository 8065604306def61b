"""Organizations' own upstream providers in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.identity.upstream.saml_settings import kept_settings, saml_settings
from adapters.postgres.rows import AnswerRow, CountRow, IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.connections import ConnectionState, ProviderKind
from core.domain.identity.upstream.vouching import Voucher
from core.domain.tenancy.upstream_providers import NO_MAPPING, NO_UPKEEP, Upkeep, UpstreamProvider
from core.frozen import Frozen


class ProviderRow(Frozen):
    """The columns of `PROVIDER`."""

    id: UUID
    org_id: UUID
    name: str
    issuer: str
    kind: str
    state: str
    client_id: str | None
    scopes: list[str]
    enabled: bool
    profile_mapping: Mapping[str, str]
    saml: str | None
    certificate: str | None
    next_certificate: str | None
    former_certificate: str | None
    secret_set_at: datetime | None
    tested_digest: bytes | None
    tested_at: datetime | None
    activated_at: datetime | None
    succeeds: list[str]
    refreshed_at: datetime | None
    refresh_fault: str | None
    failing_since: datetime | None
    certificate_until: datetime | None
    signed: str | None
    created_at: datetime
    updated_at: datetime

    def provider(self) -> UpstreamProvider:
        return UpstreamProvider(
            id=UpstreamProviderId(self.id),
            organization=OrganizationId(self.org_id),
            name=self.name,
            kind=ProviderKind(self.kind),
            state=ConnectionState(self.state),
            issuer=self.issuer,
            client_id=self.client_id or "",
            scopes=tuple(self.scopes),
            enabled=self.enabled,
            profile_mapping=self.profile_mapping or NO_MAPPING,
            saml=saml_settings(self.saml),
            certificate=self.certificate or "",
            next_certificate=self.next_certificate or "",
            former_certificate=self.former_certificate or "",
            secret_set_at=self.secret_set_at,
            tested_digest=self.tested_digest,
            tested_at=self.tested_at,
            activated_at=self.activated_at,
            succeeds=tuple(voucher for text in self.succeeds if (voucher := Voucher.of(text)) is not None),
            upkeep=self._upkeep(),
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    def _upkeep(self) -> Upkeep:
        signed = NO_UPKEEP.signed if self.signed is None else msgspec.json.decode(self.signed, type=dict[str, datetime])
        return Upkeep(
            read_at=self.refreshed_at,
            fault=self.refresh_fault or "",
            failing_since=self.failing_since,
            certificate_until=self.certificate_until,
            signed=signed,
        )


class _Succeeded(Frozen):
    succeeds: list[str]


class UpstreamProviderRows:
    """Implements `ports.tenancy.upstream_providers.UpstreamProviderStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, organization: OrganizationId) -> Sequence[UpstreamProvider]:
        return [row.provider() for row in await self._statements.ask(ProviderRow, _LIST, {"organization": organization})]

    async def count(self, organization: OrganizationId) -> int:
        (row,) = await self._statements.ask(CountRow, _COUNT, {"organization": organization})
        return row.count

    async def add(self, provider: UpstreamProvider, sealed_secret: bytes | None, sealed_key: bytes | None = None) -> bool:
        parameters = {**_parameters(provider, sealed_secret), "sealed_key": sealed_key}
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def hold(self, organization: OrganizationId, provider: UpstreamProviderId) -> UpstreamProvider | None:
        rows = await self._statements.ask(ProviderRow, _HOLD, {"organization": organization, "id": provider})
        return rows[0].provider() if rows else None

    async def save(self, provider: UpstreamProvider, sealed_secret: bytes | None) -> bool:
        return bool(await self._statements.ask(IdRow, _SAVE, _parameters(provider, sealed_secret)))

    async def succeeded_by(self, organization: OrganizationId, former: UpstreamProviderId) -> Sequence[Voucher] | None:
        voucher = Voucher(organization, former)
        rows = await self._statements.ask(_Succeeded, _SUCCEEDED_BY, {"organization": organization, "id": former, "voucher": voucher.text})
        return [one for text in rows[0].succeeds if (one := Voucher.of(text)) is not None] if rows else None

    async def succeed(self, provider: UpstreamProvider) -> None:
        succeeds = [one.text for one in provider.succeeds]
        await self._statements.tell(_SUCCEED, {"id": provider.id, "succeeds": succeeds, "at": provider.updated_at})

    async def follow(self, provider: UpstreamProviderId, certificate: str, sealed_key: bytes, now: datetime) -> None:
        await self._statements.tell(_FOLLOW, {"id": provider, "certificate": certificate, "sealed": sealed_key, "now": now})

    async def advance(self, provider: UpstreamProviderId, certificate: str, sealed_key: bytes, sealed_former: bytes, now: datetime) -> None:
        parameters = {"id": provider, "certificate": certificate, "sealed": sealed_key, "former": sealed_former, "now": now}
        await self._statements.tell(_ADVANCE, parameters)

    async def drop_former(self, provider: UpstreamProviderId, now: datetime) -> None:
        await self._statements.tell(_DROP_FORMER, {"id": provider, "now": now})

    async def is_named(self, provider: UpstreamProviderId) -> bool:
        (answer,) = await self._statements.ask(AnswerRow, _IS_NAMED, {"id": provider})
        return answer.yes

    async def delete(self, provider: UpstreamProviderId) -> None:
        await self._statements.tell("delete from upstream_providers where id = %(id)s", {"id": provider})


def _parameters(provider: UpstreamProvider, sealed_secret: bytes | None) -> dict[str, Any]:
    return {
        "id": provider.id,
        "organization": provider.organization,
        "name": storable_text(provider.name),
        "kind": provider.kind.value,
        "state": provider.state.value,
        "issuer": provider.issuer,
        "client_id": provider.client_id if provider.kind is ProviderKind.OIDC else None,
        "sealed_secret": sealed_secret,
        "scopes": list(provider.scopes),
        "enabled": provider.enabled,
        "mapping": Jsonb(storable(provider.profile_mapping)),
        "saml": None if provider.saml is None else Jsonb(storable(kept_settings(provider.saml))),
        "certificate": provider.certificate or None,
        "secret_set_at": provider.secret_set_at,
        "tested_digest": provider.tested_digest,
        "tested_at": provider.tested_at,
        "activated_at": provider.activated_at,
        "created_at": provider.created_at,
        "updated_at": provider.updated_at,
    }


# From `upstream_providers`, or from something else that has this name.
PROVIDER: Final = """
           id, org_id, kind, state, name, issuer, client_id, scopes, enabled, profile_mapping, saml::text as saml, certificate,
           next_certificate, former_certificate, secret_set_at, tested_digest, tested_at, activated_at, succeeds, created_at, updated_at,
           refreshed_at, refresh_fault, failing_since, certificate_until,
           (
               select jsonb_object_agg(fingerprint, to_char(signed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
                 from connection_certificates
                where connection_certificates.upstream_provider_id = upstream_providers.id
           )::text as signed"""

_SUCCEEDED_BY: Final = """
    select succeeds from upstream_providers where id = %(id)s and org_id = %(organization)s
     union all
    (select '{}'::text[] from users where address_vouched_by = %(voucher)s limit 1)
     limit 1
"""

_SUCCEED: Final = "update upstream_providers set succeeds = %(succeeds)s::text[], updated_at = %(at)s where id = %(id)s"

_COUNT: Final = "select count(*) as count from upstream_providers where org_id = %(organization)s"

_ADD: Final = """
    insert into upstream_providers (id, org_id, kind, state, name, issuer, client_id, sealed_client_secret, scopes, enabled,
                                    profile_mapping, saml, certificate, sealed_private_key, secret_set_at, created_at, updated_at)
    values (%(id)s, %(organization)s, %(kind)s, %(state)s, %(name)s, %(issuer)s, %(client_id)s, %(sealed_secret)s, %(scopes)s::text[],
            %(enabled)s, %(mapping)s, %(saml)s, %(certificate)s, %(sealed_key)s, %(secret_set_at)s, %(created_at)s, %(updated_at)s)
        on conflict (org_id, name) do nothing
 returning id
"""

_HOLD: Final[LiteralString] = f"""
    select {PROVIDER} from upstream_providers where id = %(id)s and org_id = %(organization)s for update
"""

_LIST: Final[LiteralString] = f"select {PROVIDER} from upstream_providers where org_id = %(organization)s order by created_at, id"

_FOLLOW: Final = """
    update upstream_providers
       set next_certificate = %(certificate)s, next_sealed_private_key = %(sealed)s, updated_at = %(now)s
     where id = %(id)s
"""

_ADVANCE: Final = """
    update upstream_providers
       set certificate = %(certificate)s, sealed_private_key = %(sealed)s, next_certificate = null, next_sealed_private_key = null,
           former_certificate = certificate, former_sealed_private_key = %(former)s, certificate_until = null, updated_at = %(now)s
     where id = %(id)s
"""

_DROP_FORMER: Final = """
    update upstream_providers
       set former_certificate = null, former_sealed_private_key = null, updated_at = %(now)s
     where id = %(id)s
"""

_IS_NAMED: Final = "select exists (select from domain_routes where own_provider = %(id)s) as yes"

# The caller holds the organization's row, so nobody else takes the name meanwhile.
_SAVE: Final = """
    update upstream_providers
       set name = %(name)s, state = %(state)s, issuer = %(issuer)s, client_id = %(client_id)s,
           sealed_client_secret = coalesce(%(sealed_secret)s, sealed_client_secret), scopes = %(scopes)s::text[], enabled = %(enabled)s,
           profile_mapping = %(mapping)s, saml = %(saml)s, secret_set_at = %(secret_set_at)s, tested_digest = %(tested_digest)s,
           tested_at = %(tested_at)s, activated_at = %(activated_at)s, updated_at = %(updated_at)s
     where id = %(id)s
       and not exists (
               select
                 from upstream_providers as others
                where others.org_id = %(organization)s and others.name = %(name)s and others.id <> %(id)s
           )
 returning id
"""
