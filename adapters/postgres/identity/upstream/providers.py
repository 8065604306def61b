"""Custom providers, provider tokens and trusted issuers of identity assertions in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import AnswerRow, Columns, CountRow, IdRow, storable, storable_text
from adapters.postgres.identity.upstream.ways import Parts, WayRow, of_each_kind, provider_parameters
from adapters.postgres.statements import OnPool, OnStatements, OnTransaction, ask, first, first_made, only
from adapters.postgres.ties import ENTERED_AGAIN, IS_OWN_MEMBERSHIP, counts_for
from core.domain.identifiers import IdentityGrantId, IdentityId, OrganizationId, ServiceId, UpstreamProviderId, UserId
from core.domain.identity.upstream.connections import ConnectionState, ProviderKind
from core.domain.identity.upstream.further import FurtherProvider
from core.domain.identity.upstream.identities import IdentityGrant
from core.domain.identity.upstream.identity_assertions import AssertionSettings, AssertionUse, IssuingConnection, UsedIdentityAssertion
from core.domain.identity.upstream.providers import OfferedFurther, origin_of, restored_settings
from core.domain.tenancy.branding import Logo
from core.frozen import Frozen, names_of, values_of
from ports.identity.upstream import GrantFound

FURTHER: Final = Columns(
    FurtherProvider,
    "further_providers",
    apart=("settings", "organizations", "namings"),
    texts=("name", "client_id"),
    derived=("logo_digest",),
)


def _provider(
    *, settings: Mapping[str, Any], organizations: list[str] | None, namings: Mapping[str, tuple[str, str]], **columns: Any
) -> FurtherProvider:
    offered = None if organizations is None else tuple(organizations)
    before = {issuer: (profile_url, subject) for issuer, (profile_url, subject) in namings.items()}
    return FURTHER.row(settings=restored_settings(settings), organizations=offered, namings=before, **columns)


def _held(*, sealed_client_secret: bytes, **columns: Any) -> tuple[FurtherProvider, bytes]:
    return _provider(**columns), sealed_client_secret


class _Slug(Frozen):
    slug: str


class _People(Frozen):
    provider: str
    issuer: str
    count: int


class _Offered(Frozen):
    key: str
    name: str
    organizations: list[UUID] | None
    logo_digest: str | None

    def offered(self) -> OfferedFurther:
        where = None if self.organizations is None else frozenset(OrganizationId(one) for one in self.organizations)
        return OfferedFurther(self.key, self.name, where, self.logo_digest)


class FurtherProviderRows(OnStatements):
    """Implements `ports.identity.upstream.FurtherProviderStore`."""

    async def list(self) -> Sequence[FurtherProvider]:
        return await self._statements.ask(_provider, _LIST)

    async def offered(self) -> Sequence[OfferedFurther]:
        return [row.offered() for row in await self._statements.ask(_Offered, _OFFERED)]

    async def kept(self) -> Sequence[tuple[FurtherProvider, bytes]]:
        return await self._statements.ask(_held, _KEPT)

    async def find(self, key: str) -> FurtherProvider | None:
        return first_made(await self._statements.ask(_provider, _FIND, {"key": storable_text(key)}), lambda one: one)

    async def people(self, keys: Sequence[str]) -> Mapping[tuple[str, str], int]:
        rows = await self._statements.ask(_People, _PEOPLE, {"keys": [storable_text(one) for one in keys]})
        return {(row.provider, row.issuer): row.count for row in rows}

    async def hold_all(self) -> None:
        await self._statements.tell("lock table further_providers in share row exclusive mode")

    async def hold(self, key: str) -> tuple[FurtherProvider, bytes] | None:
        return first_made(await self._statements.ask(_held, _HOLD, {"key": storable_text(key)}), lambda one: one)

    async def unknown_organizations(self, slugs: Sequence[str]) -> Sequence[str]:
        rows = await self._statements.ask(_Slug, _UNKNOWN, {"slugs": [storable_text(one) for one in slugs]})
        return [row.slug for row in rows]

    async def save(self, provider: FurtherProvider, sealed_secret: bytes) -> bool:
        offered = None if provider.organizations is None else list(provider.organizations)
        parameters = {
            **FURTHER.values(provider),
            "settings": Jsonb(storable(provider.settings.stored())),
            "namings": Jsonb(storable({issuer: list(one) for issuer, one in provider.namings.items()})),
            "organizations": offered,
            "sealed_secret": sealed_secret,
        }
        return bool(await self._statements.ask(IdRow, _SAVE, parameters))

    async def save_logo(self, provider: FurtherProvider, logo: Logo | None) -> None:
        kept = dict.fromkeys(names_of(Logo)) if logo is None else values_of(logo)
        await self._statements.tell(_SAVE_LOGO, {**kept, "id": provider.id, "digest": provider.logo_digest, "now": provider.updated_at})

    async def remove(self, provider: FurtherProvider) -> int:
        parameters = {"id": provider.id, "key": provider.key}
        await self._statements.tell(_REMOVE, parameters)
        await self._statements.tell(_REMOVE_NEWCOMERS, parameters)
        return only(await self._statements.ask(CountRow, _REMOVE_IDENTITIES, parameters)).count


_COLUMNS: Final[LiteralString] = f"""{FURTHER.names}, further_providers.settings, further_providers.namings,
           case
               when further_providers.organizations is null then null
               else array(
                        select organizations.slug
                          from organizations
                         where organizations.id = any (further_providers.organizations)
                         order by organizations.slug
                    )
           end as organizations"""

_LIST: Final[LiteralString] = f"select {_COLUMNS} from further_providers order by position, name, id"

_OFFERED: Final = "select key, name, organizations, logo_digest from further_providers where enabled order by position, name, id"

_KEPT: Final[LiteralString] = f"select {_COLUMNS}, sealed_client_secret from further_providers where enabled order by position, name, id"

_FIND: Final[LiteralString] = f"select {_COLUMNS} from further_providers where key = %(key)s"

_PEOPLE: Final = """
    select provider, issuer, count(*) as count from identities where provider = any (%(keys)s::text[]) group by provider, issuer
"""

_HOLD: Final[LiteralString] = f"select {_COLUMNS}, sealed_client_secret from further_providers where key = %(key)s for update"

_UNKNOWN: Final = """
    select named.slug
      from unnest(%(slugs)s::text[]) as named (slug)
     where not exists (select from organizations where organizations.slug = named.slug)
"""

_SAVE: Final[LiteralString] = f"""
    insert into further_providers ({FURTHER.into("settings", "namings")}, organizations, sealed_client_secret)
    values ({FURTHER.inserted("settings", "namings")},
            case
                when %(organizations)s::text[] is null then null
                else array(select id from organizations where slug = any (%(organizations)s::text[]))
            end,
            %(sealed_secret)s)
        on conflict (key) do update
       set {FURTHER.replaced("id", "key", "preset", "created_at")}, settings = excluded.settings, namings = excluded.namings,
           organizations = excluded.organizations, sealed_client_secret = excluded.sealed_client_secret
     where further_providers.id = excluded.id
 returning id
"""

_SAVE_LOGO: Final = """
    update further_providers
       set logo_digest = %(digest)s, logo_media_type = %(media_type)s, logo = %(content)s, updated_at = %(now)s
     where id = %(id)s
"""

_REMOVE: Final = "delete from further_providers where id = %(id)s"

# Another provider may get the short name at once. What this one has said of people is no word of that one's.
_REMOVE_NEWCOMERS: Final = "delete from newcomers where provider = %(key)s"

# The key of an organization's own provider is an id, so nobody else's identities have the short name.
_REMOVE_IDENTITIES: Final = """
    with gone as (delete from identities where provider = %(key)s returning id)
  select count(*) as count from gone
"""


IDENTITY_GRANT: Final = Columns(
    IdentityGrant, "identity_grants", named={"identity": "identity_id", "service": "service_id"}, prefix="grant_"
)


def _found(**columns: Any) -> GrantFound:
    grant = IDENTITY_GRANT.taken_or_none(columns)
    return GrantFound(way=WayRow(**columns).way(), grant=grant)


class IdentityGrantRows(OnStatements):
    """Implements `ports.identity.upstream.IdentityGrantStore`.

    The caller has already sealed the provider tokens.
    """

    async def find(self, user: UserId, provider: str, organization: str, service: str) -> GrantFound:
        parameters = {
            **provider_parameters(provider),
            "user": user,
            "organization": storable_text(organization),
            "service_slug": storable_text(service),
        }
        return only(await self._statements.ask(_found, _PROVIDER_TOKEN_FIND[origin_of(provider)], parameters))

    async def is_renewable(self, grant: IdentityGrantId, client: str) -> bool:
        return only(await self._statements.ask(AnswerRow, _IS_RENEWABLE, {"id": grant, "client": client})).yes

    async def keep(self, grant: IdentityGrant, at: datetime, *, replaces: bool = True) -> None:
        await self._statements.tell_along(_KEEP, IDENTITY_GRANT.values(grant) | {"updated_at": at, "replaces": replaces})

    async def remove(self, identity: IdentityId, service: ServiceId) -> None:
        await self._statements.tell(_REMOVE_GRANT, {"identity": identity, "service": service})

    async def lease(self, grant: IdentityGrant, now: datetime, until: datetime) -> bool:
        parameters = {"id": grant.id, "updated_at": grant.updated_at, "now": now, "until": until}
        return bool(await self._statements.ask(IdRow, _LEASE, parameters))

    async def renew(self, grant: IdentityGrant, leased_until: datetime, at: datetime) -> bool:
        parameters = IDENTITY_GRANT.values(grant) | {"updated_at": at, "leased_until": leased_until}
        return bool(await self._statements.ask(IdRow, _RENEW, parameters))

    async def give_up(self, grant: IdentityGrantId, leased_until: datetime, *, ended: bool) -> None:
        await self._statements.tell(_GIVE_UP, {"id": grant, "leased_until": leased_until, "ended": ended})


_IS_RENEWABLE: Final = """
    select exists (
               select from identity_grants where id = %(id)s and client_id = %(client)s and sealed_refresh_token is not null
           ) as yes
"""

_KEEP: Final = """
    insert into identity_grants (id, identity_id, service_id, client_id, scopes, sealed_access_token, sealed_refresh_token, expires_at,
                                 updated_at)
    select %(id)s, %(identity)s, services.id, %(client_id)s, %(scopes)s, %(sealed_access_token)s, %(sealed_refresh_token)s, %(expires_at)s,
           %(updated_at)s
      from services
     where services.id = %(service)s
       for key share
        on conflict (id) do update
       set client_id = excluded.client_id, scopes = excluded.scopes, sealed_access_token = excluded.sealed_access_token,
           sealed_refresh_token = case
               when identity_grants.client_id = excluded.client_id and excluded.sealed_access_token is not null
               then coalesce(excluded.sealed_refresh_token, identity_grants.sealed_refresh_token)
               else excluded.sealed_refresh_token
           end,
           expires_at = excluded.expires_at, refreshing_until = null, updated_at = excluded.updated_at
     where %(replaces)s
"""

_REMOVE_GRANT: Final = "delete from identity_grants where identity_id = %(identity)s and service_id = %(service)s"

_LEASE: Final = """
    update identity_grants
       set refreshing_until = %(until)s
     where id = %(id)s
       and updated_at = %(updated_at)s
       and sealed_refresh_token is not null
       and (refreshing_until is null or refreshing_until <= %(now)s)
 returning id
"""

_RENEW: Final = """
    update identity_grants
       set sealed_access_token = %(sealed_access_token)s,
           sealed_refresh_token = coalesce(%(sealed_refresh_token)s, sealed_refresh_token), scopes = %(scopes)s,
           expires_at = %(expires_at)s, refreshing_until = null, updated_at = %(updated_at)s
     where id = %(id)s and refreshing_until = %(leased_until)s
 returning id
"""

_GIVE_UP: Final = """
    update identity_grants
       set refreshing_until = null,
           sealed_refresh_token = case when %(ended)s then null else sealed_refresh_token end
     where id = %(id)s and refreshing_until = %(leased_until)s
"""


def _find(parts: Parts) -> LiteralString:
    return f"""
    select {parts.way}, {IDENTITY_GRANT.names_in("grants")}
      from (values (true)) as this (way)
           {parts.places("homes.slug = %(organization)s", "services.org_id = homes.id and services.slug = %(service_slug)s", "false")}
      left join identities on identities.user_id = %(user)s and identities.provider = %(provider)s
      left join identity_grants as grants on grants.identity_id = identities.id and grants.service_id = services.id
"""


_PROVIDER_TOKEN_FIND: Final = of_each_kind(_find)


ASSERTION_SETTINGS: Final = Columns(
    AssertionSettings,
    "upstream_providers",
    named={
        "issues": "issues_assertions",
        "issuer": "assertion_issuer",
        "jwks_uri": "assertion_jwks_uri",
        "jwks": "assertion_jwks",
        "subject": "assertion_subject",
    },
    texts=("subject",),
    empties=("issuer", "jwks_uri"),
    prefix="assertion_",
)


def _connection(*, kind: str, state: str, enabled: bool, **columns: Any) -> IssuingConnection:
    assertions = ASSERTION_SETTINGS.taken(columns)
    is_on = enabled and state == ConnectionState.ACTIVE
    return IssuingConnection(**columns, assertions=assertions, speaks_saml=kind == ProviderKind.SAML, is_on=is_on)


class PostgresIssuingConnections(OnPool):
    """Implements `ports.identity.upstream.IssuingConnections`."""

    async def find_by_id(self, organization: OrganizationId, connection: UpstreamProviderId) -> IssuingConnection | None:
        return first(await ask(self._pool, _connection, _GET, {"organization": organization, "id": connection}))

    async def find(self, organization: OrganizationId, issuer: str) -> IssuingConnection | None:
        return first(
            await ask(self._pool, _connection, _IDENTITY_ASSERTION_FIND, {"organization": organization, "issuer": storable_text(issuer)})
        )


class IdentityAssertionRows(OnTransaction):
    """Implements `ports.identity.upstream.IdentityAssertionStore` in one transaction."""

    async def use(self, used: UsedIdentityAssertion, user: UserId) -> AssertionUse:
        return only(await self._transaction.ask(AssertionUse, _USE, {**values_of(used), "user": user}))

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        await self._transaction.tell_along(_ENTER, {"user": user, "service": service, "at": at})


_CONNECTION: Final[LiteralString] = f"""
    select upstream_providers.id, upstream_providers.org_id as organization, upstream_providers.name, upstream_providers.issuer,
           upstream_providers.kind, upstream_providers.state, upstream_providers.enabled, {ASSERTION_SETTINGS.names}
      from upstream_providers
     where upstream_providers.org_id = %(organization)s
"""

_GET: Final[LiteralString] = f"{_CONNECTION} and upstream_providers.id = %(id)s"

# A connection by SAML that nobody has named an issuer for has none here.
_IDENTITY_ASSERTION_FIND: Final[LiteralString] = f"""
    {_CONNECTION}
       and case kind when 'saml' then assertion_issuer else issuer end = %(issuer)s
     order by issues_assertions and enabled desc, created_at
     limit 1
"""

# Whoever turns the connection off waits for this transaction, and then finds its session.
_USE: Final[LiteralString] = f"""
    with connection as materialized (
             select id, org_id from upstream_providers
              where id = %(provider)s and issues_assertions and enabled and state = 'active'
                for share
         ),
         member as materialized (
             select memberships.id
               from connection
               join memberships on memberships.org_id = connection.org_id and memberships.user_id = %(user)s
               join users on users.id = memberships.user_id
              where {IS_OWN_MEMBERSHIP} and {counts_for()}
                for share of memberships
         ),
         used as (
             insert into identity_assertions (id, upstream_provider_id, digest, expires_at)
             select %(session)s, connection.id, %(digest)s, %(expires_at)s from connection cross join member
                 on conflict (upstream_provider_id, digest) do nothing
          returning id
         )
  select exists (select from connection) as issues, exists (select from member) as is_member, exists (select from used) as is_first
"""

# The person's directory has let the application act for them, so it is no act of their own.
_ENTER: Final[LiteralString] = f"""
    insert into service_users (service_id, user_id, org_id, first_login_at, last_login_at, created_at)
    select services.id, %(user)s, services.org_id, %(at)s, %(at)s, %(at)s
      from services
     where services.id = %(service)s
        on conflict (service_id, user_id) do update
       set {ENTERED_AGAIN}
"""
