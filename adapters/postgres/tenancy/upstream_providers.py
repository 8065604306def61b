"""Organizations' own upstream providers in PostgreSQL."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.identity.sessions.revoking import revoking
from adapters.postgres.identity.upstream.identity_assertions import ASSERTION_SETTINGS
from adapters.postgres.identity.upstream.saml_settings import kept_settings, ldap_settings, saml_settings
from adapters.postgres.rows import AnswerRow, CountRow, IdRow
from adapters.postgres.statements import first, first_made, only
from adapters.postgres.storable import storable
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.claims import Voucher
from core.domain.identity.upstream.connections import ProviderKind
from core.domain.tenancy.upstream_providers import NO_UPKEEP, Upkeep, UpstreamProvider
from core.frozen import Frozen


def _known(succeeded: Iterable[str]) -> tuple[Voucher, ...]:
    return tuple(voucher for text in succeeded if (voucher := Voucher.of(text)) is not None)


def _texts(succeeded: Iterable[Voucher]) -> list[str]:
    return [voucher.text for voucher in succeeded]


UPSTREAM_PROVIDER: Final = Columns(
    UpstreamProvider,
    "upstream_providers",
    named={"organization": "org_id"},
    # The settings of SAML come as text, which a cache parses once. Several columns and another table have the upkeep.
    apart=("saml", "ldap", "upkeep", "assertions"),
    texts=("name",),
    empties=("client_id", "certificate", "next_certificate", "former_certificate"),
    turned={"succeeds": (_known, _texts)},
)


def provider_of(
    *,
    saml: str | None,
    ldap: str | None,
    read_at: datetime | None,
    fault: str | None,
    failing_since: datetime | None,
    certificate_until: datetime | None,
    signed: str | None,
    **columns: Any,
) -> UpstreamProvider:
    """The provider of a row that has the columns of `PROVIDER`."""
    upkeep = Upkeep(
        read_at=read_at,
        fault=fault or "",
        failing_since=failing_since,
        certificate_until=certificate_until,
        signed=NO_UPKEEP.signed if signed is None else msgspec.json.decode(signed, type=dict[str, datetime]),
    )
    assertions = ASSERTION_SETTINGS.taken(columns)
    return UPSTREAM_PROVIDER.row(**columns, saml=saml_settings(saml), ldap=ldap_settings(ldap), upkeep=upkeep, assertions=assertions)


def _values(of: UpstreamProvider, sealed_secret: bytes | None) -> dict[str, Any]:
    return {
        **UPSTREAM_PROVIDER.values(of),
        "client_id": of.client_id if of.kind is ProviderKind.OIDC else None,
        "saml": None if of.saml is None else Jsonb(storable(kept_settings(of.saml))),
        "ldap": None if of.ldap is None else Jsonb(storable(kept_settings(of.ldap))),
        "sealed_secret": None if of.kind is ProviderKind.LDAP else sealed_secret,
        "sealed_password": sealed_secret if of.kind is ProviderKind.LDAP else None,
    }


class _Succeeded(Frozen):
    succeeds: list[str]


class UpstreamProviderRows(OnStatements):
    """Implements `ports.tenancy.connections.UpstreamProviderStore`."""

    async def list(self, organization: OrganizationId) -> Sequence[UpstreamProvider]:
        return await self._statements.ask(provider_of, _LIST, {"organization": organization})

    async def count(self, organization: OrganizationId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"organization": organization})).count

    async def add(self, provider: UpstreamProvider, sealed_secret: bytes | None, sealed_key: bytes | None = None) -> bool:
        parameters = {**_values(provider, sealed_secret), "sealed_key": sealed_key}
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def hold(self, organization: OrganizationId, provider: UpstreamProviderId) -> UpstreamProvider | None:
        return first(await self._statements.ask(provider_of, _HOLD, {"organization": organization, "id": provider}))

    async def save(self, provider: UpstreamProvider, sealed_secret: bytes | None) -> bool:
        await self._end_unless_issuing(provider)
        return bool(await self._statements.ask(IdRow, _SAVE, _values(provider, sealed_secret)))

    async def is_issuing(self, provider: UpstreamProvider) -> bool:
        parameters = {"organization": provider.organization, "id": provider.id, "issuer": provider.assertions.issuer or provider.issuer}
        return only(await self._statements.ask(AnswerRow, _IS_ISSUING, parameters)).yes

    async def save_assertions(self, provider: UpstreamProvider) -> None:
        await self._end_unless_issuing(provider)
        values = ASSERTION_SETTINGS.values(provider.assertions)
        await self._statements.tell(_SAVE_ASSERTIONS, {**values, "id": provider.id, "updated_at": provider.updated_at})

    async def _end_unless_issuing(self, provider: UpstreamProvider) -> None:
        if not provider.issues_assertions:
            await self._end_sessions(provider.id)

    async def _end_sessions(self, provider: UpstreamProviderId) -> None:
        """Two statements: whoever opens a session from one of these holds it meanwhile, and the second statement sees what was opened."""
        await self._statements.tell(_HOLD_SESSIONS, {"id": provider})
        await self._statements.tell(_END_SESSIONS, {"id": provider})

    async def succeeded_by(self, organization: OrganizationId, former: UpstreamProviderId) -> Sequence[Voucher] | None:
        voucher = Voucher(organization, former)
        return first_made(
            await self._statements.ask(_Succeeded, _SUCCEEDED_BY, {"organization": organization, "id": former, "voucher": voucher.text}),
            lambda row: _known(row.succeeds),
        )

    async def succeed(self, provider: UpstreamProvider) -> None:
        await self._statements.tell(_SUCCEED, UPSTREAM_PROVIDER.values(provider))

    async def follow(self, provider: UpstreamProviderId, certificate: str, sealed_key: bytes, now: datetime) -> None:
        await self._statements.tell(_FOLLOW, {"id": provider, "certificate": certificate, "sealed": sealed_key, "now": now})

    async def advance(self, provider: UpstreamProviderId, certificate: str, sealed_key: bytes, sealed_former: bytes, now: datetime) -> None:
        parameters = {"id": provider, "certificate": certificate, "sealed": sealed_key, "former": sealed_former, "now": now}
        await self._statements.tell(_ADVANCE, parameters)

    async def drop_former(self, provider: UpstreamProviderId, now: datetime) -> None:
        await self._statements.tell(_DROP_FORMER, {"id": provider, "now": now})

    async def is_named(self, provider: UpstreamProviderId) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_NAMED, {"id": provider})).yes

    async def delete(self, provider: UpstreamProviderId) -> None:
        await self._end_sessions(provider)
        await self._statements.tell("delete from upstream_providers where id = %(id)s", {"id": provider})


# From `upstream_providers`, or from something else that has this name.
PROVIDER: Final[LiteralString] = f"""
           {UPSTREAM_PROVIDER.names}, {ASSERTION_SETTINGS.names},
           saml::text as saml, ldap::text as ldap, refreshed_at as read_at, refresh_fault as fault, failing_since,
           certificate_until,
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

_SUCCEED: Final = "update upstream_providers set succeeds = %(succeeds)s::text[], updated_at = %(updated_at)s where id = %(id)s"

_IS_ISSUING: Final = """
    select exists (
               select from upstream_providers
                where org_id = %(organization)s and id <> %(id)s and issues_assertions and coalesce(assertion_issuer, issuer) = %(issuer)s
           ) as yes
"""

_SAVE_ASSERTIONS: Final[LiteralString] = f"""
    update upstream_providers set {ASSERTION_SETTINGS.changes()}, updated_at = %(updated_at)s where id = %(id)s
"""

# The sessions that assertions of the provider have opened.
_OPENED: Final = "sessions.id in (select identity_assertions.id from identity_assertions where upstream_provider_id = %(id)s)"
_HOLD_SESSIONS: Final[LiteralString] = f"select from sessions where {_OPENED} and revoked_at is null order by id for no key update"
_END_SESSIONS: Final[LiteralString] = revoking(_OPENED)

_COUNT: Final = "select count(*) as count from upstream_providers where org_id = %(organization)s"

_ADD: Final[LiteralString] = f"""
    insert into upstream_providers ({UPSTREAM_PROVIDER.into()}, saml, ldap, sealed_client_secret, sealed_bind_password, sealed_private_key)
    values ({UPSTREAM_PROVIDER.inserted()}, %(saml)s, %(ldap)s, %(sealed_secret)s, %(sealed_password)s, %(sealed_key)s)
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

# Statements of their own change our certificates and the succession.
_KEPT: Final = ("id", "organization", "kind", "certificate", "next_certificate", "former_certificate", "succeeds", "created_at")

# The caller holds the organization's row, so nobody else takes the name meanwhile.
_SAVE: Final[LiteralString] = f"""
    update upstream_providers
       set {UPSTREAM_PROVIDER.changes(*_KEPT)},
           saml = %(saml)s, ldap = %(ldap)s, sealed_client_secret = coalesce(%(sealed_secret)s, sealed_client_secret),
           -- Without the time when it was set, there is none any more.
           sealed_bind_password = case
               when %(secret_set_at)s::timestamptz is not null then coalesce(%(sealed_password)s, sealed_bind_password)
           end
     where id = %(id)s
       and not exists (
               select
                 from upstream_providers as others
                where others.org_id = %(organization)s and others.name = %(name)s and others.id <> %(id)s
           )
 returning id
"""
