"""Further providers of the installation, in PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import first_made, only
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.further import FurtherProvider
from core.domain.identity.upstream.providers import OfferedFurther, restored_settings
from core.domain.tenancy.branding import Logo
from core.frozen import Frozen

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
        parameters = {
            "id": provider.id,
            "digest": None if logo is None else logo.digest,
            "media_type": None if logo is None else logo.media_type,
            "content": None if logo is None else logo.content,
            "now": provider.updated_at,
        }
        await self._statements.tell(_SAVE_LOGO, parameters)

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

_SAVE: Final = """
    insert into further_providers (id, key, preset, name, settings, client_id, sealed_client_secret, state, enabled, position,
                                   organizations, secret_set_at, tested_digest, tested_at, namings, created_at, updated_at)
    values (%(id)s, %(key)s, %(preset)s, %(name)s, %(settings)s, %(client_id)s, %(sealed_secret)s, %(state)s, %(enabled)s, %(position)s,
            case
                when %(organizations)s::text[] is null then null
                else array(select id from organizations where slug = any (%(organizations)s::text[]))
            end,
            %(secret_set_at)s, %(tested_digest)s, %(tested_at)s, %(namings)s, %(created_at)s, %(updated_at)s)
        on conflict (key) do update
       set name = excluded.name, settings = excluded.settings, client_id = excluded.client_id,
           sealed_client_secret = excluded.sealed_client_secret, state = excluded.state, enabled = excluded.enabled,
           position = excluded.position, organizations = excluded.organizations, secret_set_at = excluded.secret_set_at,
           tested_digest = excluded.tested_digest, tested_at = excluded.tested_at, namings = excluded.namings,
           updated_at = excluded.updated_at
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
