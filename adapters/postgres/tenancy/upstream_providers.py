"""Organizations' own upstream providers and client credentials, and what Postern does with connections by itself."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.columns import AnswerRow, Columns, CountRow, IdRow, storable
from adapters.postgres.identity.sessions.parts import revoking
from adapters.postgres.identity.upstream.providers import ASSERTION_SETTINGS
from adapters.postgres.identity.upstream.ways import kept_settings, ldap_settings, saml_settings
from adapters.postgres.statements import OnStatements, first, first_made, only
from adapters.postgres.tenancy.members import owners
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.claims import Voucher
from core.domain.identity.upstream.connections import ProviderKind
from core.domain.identity.upstream.providers import Provider
from core.domain.identity.upstream.refreshes import ConnectionEnding, RefreshFault
from core.domain.tenancy.upstream_providers import NO_UPKEEP, OAuthCredentials, Upkeep, UpstreamProvider
from core.frozen import Frozen
from ports.tenancy.connections import ConnectionsEnding, DueConnection
from ports.tenancy.receivers import Owner


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

    async def find_for_update(self, organization: OrganizationId, provider: UpstreamProviderId) -> UpstreamProvider | None:
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


OAUTH_CREDENTIALS: Final = Columns(OAuthCredentials, "oauth_credentials", named={"organization": "org_id"}, texts=("client_id",))


class OAuthCredentialRows(OnStatements):
    """Implements `ports.tenancy.connections.OAuthCredentialStore`."""

    async def find(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None:
        parameters = {"organization": organization, "provider": provider.value}
        return first(await self._statements.ask(OAUTH_CREDENTIALS.row, _GET, parameters))

    async def save(self, credentials: OAuthCredentials, sealed_secret: bytes) -> None:
        await self._statements.tell(
            _OAUTH_CREDENTIAL_SAVE, {**OAUTH_CREDENTIALS.values(credentials), "sealed_client_secret": sealed_secret}
        )

    async def remove(self, organization: OrganizationId, provider: Provider) -> OAuthCredentials | None:
        parameters = {"organization": organization, "provider": provider.value}
        return first(await self._statements.ask(OAUTH_CREDENTIALS.row, _REMOVE, parameters))


_OAUTH_CREDENTIAL_SAVE: Final[LiteralString] = f"""
    insert into oauth_credentials ({OAUTH_CREDENTIALS.into("sealed_client_secret")})
    values ({OAUTH_CREDENTIALS.inserted("sealed_client_secret")})
        on conflict (org_id, provider) do update
       set {OAUTH_CREDENTIALS.replaced("organization", "provider", "created_at")}, sealed_client_secret = excluded.sealed_client_secret
"""

_OF_PROVIDER: Final = "org_id = %(organization)s and provider = %(provider)s"

_REMOVE: Final[LiteralString] = f"delete from oauth_credentials where {_OF_PROVIDER} returning {OAUTH_CREDENTIALS.names}"

_GET: Final[LiteralString] = f"select {OAUTH_CREDENTIALS.names} from oauth_credentials where {_OF_PROVIDER}"


def _due(*, organization_slug: str | None, is_active_organization: bool | None, **columns: Any) -> DueConnection:
    # An organization that was deleted meanwhile has neither a slug nor a state.
    return DueConnection(provider_of(**columns), organization_slug or "", bool(is_active_organization))


class ConnectionRefreshRows(OnStatements):
    """Implements `ports.tenancy.connections.ConnectionRefreshStore`."""

    async def claim_due(self, at: datetime, until: datetime, limit: int) -> Sequence[DueConnection]:
        return await self._statements.ask(_due, _CLAIM_DUE, {"at": at, "until": until, "limit": limit})

    async def counted(self, now: datetime, soon: datetime, failing_before: datetime, *, urgent: datetime) -> ConnectionsEnding:
        parameters = {"now": now, "soon": soon, "failing_before": failing_before, "urgent": urgent}
        return only(await self._statements.ask(ConnectionsEnding, _COUNTED, parameters))

    async def find_for_update(self, provider: UpstreamProviderId) -> UpstreamProvider | None:
        return first(await self._statements.ask(provider_of, _HOLD_TO_REFRESH, {"id": provider}))

    async def read(self, provider: UpstreamProvider, at: datetime, next_turn: datetime) -> None:
        await self._statements.tell(_READ, {**_kept(provider), "at": at, "next": next_turn})

    async def decided(self, provider: UpstreamProvider) -> None:
        await self._statements.tell(_DECIDED, _kept(provider))

    async def failed(self, provider: UpstreamProviderId, fault: RefreshFault, at: datetime, next_turn: datetime) -> None:
        await self._statements.tell(_FAILED, {"id": provider, "fault": fault.value, "at": at, "next": next_turn})

    async def put_off(self, provider: UpstreamProviderId, next_turn: datetime) -> None:
        await self._statements.tell(_PUT_OFF, {"id": provider, "next": next_turn})

    async def dated(self, provider: UpstreamProviderId, certificate: str, until: datetime) -> None:
        await self._statements.tell(_DATED, {"id": provider, "certificate": certificate, "until": until})

    async def warned(self, provider: UpstreamProviderId, ending: ConnectionEnding, ends_at: datetime, days: int) -> bool:
        parameters = {"id": provider, "ending": ending.value, "ends_at": ends_at, "days": days}
        return bool(await self._statements.ask(IdRow, _WARNED, parameters))

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


def _kept(provider: UpstreamProvider) -> Mapping[str, Any]:
    return {
        "id": provider.id,
        "saml": None if provider.saml is None else Jsonb(storable(kept_settings(provider.saml))),
        "tested_digest": provider.tested_digest,
    }


_CLAIM_DUE: Final[LiteralString] = f"""
    with claimed as (
             update upstream_providers
                set refresh_at = %(until)s
              where id = any (array(
                        select id
                          from upstream_providers
                         where refresh_at <= %(at)s
                         order by refresh_at
                         limit %(limit)s
                           for no key update skip locked
                    ))
          returning *
         )
    select {PROVIDER},
           (select slug from organizations where organizations.id = upstream_providers.org_id) as organization_slug,
           (select status = 'active' from organizations where organizations.id = upstream_providers.org_id) as is_active_organization
      from claimed as upstream_providers
     order by id
"""

# An end within thirty days that has a successor is none: ours, when the next one is made.
ENDS_SOON: Final = """
    upstream_providers.kind = 'saml' and upstream_providers.enabled
    and (
        not exists (
            select
              from jsonb_array_elements(upstream_providers.saml -> 'certificates') as one
             where (one ->> 'valid_until')::timestamptz >= %(soon)s
        )
        or upstream_providers.certificate_until < %(soon)s and upstream_providers.next_certificate is null
    )
"""

WAITS: Final = "jsonb_array_length(upstream_providers.saml -> 'waiting') > 0 and upstream_providers.state <> 'draft'"

_COUNTED: Final[LiteralString] = f"""
    select count(*) filter (where {ENDS_SOON})::int as ending,
           count(*) filter (where {ENDS_SOON.replace("%(soon)s", "%(urgent)s")})::int as urgent,
           count(*) filter (where {WAITS})::int as waiting,
           count(*) filter (where upstream_providers.failing_since < %(failing_before)s)::int as failing
      from upstream_providers
      join organizations on organizations.id = upstream_providers.org_id and organizations.status = 'active'
     where upstream_providers.state <> 'draft'
"""

_HOLD_TO_REFRESH: Final[LiteralString] = f"select {PROVIDER} from upstream_providers where id = %(id)s for no key update"

_READ: Final = """
    update upstream_providers
       set saml = %(saml)s, tested_digest = %(tested_digest)s, refreshed_at = %(at)s, refresh_fault = null, failing_since = null,
           refresh_at = %(next)s
     where id = %(id)s
"""

_DECIDED: Final = "update upstream_providers set saml = %(saml)s, tested_digest = %(tested_digest)s where id = %(id)s"

_FAILED: Final = """
    update upstream_providers
       set refresh_fault = %(fault)s, failing_since = coalesce(failing_since, %(at)s), refresh_at = %(next)s
     where id = %(id)s
"""

_PUT_OFF: Final = "update upstream_providers set refresh_at = %(next)s where id = %(id)s"

_DATED: Final = "update upstream_providers set certificate_until = %(until)s where id = %(id)s and certificate = %(certificate)s"

_WARNED: Final = """
    insert into connection_warnings as warnings (upstream_provider_id, ending, ends_at, days)
    values (%(id)s, %(ending)s, %(ends_at)s, %(days)s)
        on conflict (upstream_provider_id, ending) do update
       set ends_at = excluded.ends_at, days = excluded.days
     where warnings.ends_at <> excluded.ends_at or warnings.days > excluded.days
 returning upstream_provider_id as id
"""
