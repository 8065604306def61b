"""The configured objects of an installation in PostgreSQL: one statement a kind, for one organization or for all."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.platform.configuration.organization_objects import INSTALLATION_TEXTS, OF_ORGANIZATION
from adapters.postgres.platform.configuration.risk_objects import PLATFORM_RISK_POLICIES
from adapters.postgres.platform.configuration.service_objects import OF_SERVICE
from adapters.postgres.rows import CountRow
from adapters.postgres.statements import ask, ask_for_many, only
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnPool
from core.domain.platform.configuration.objects import PLATFORM_FIELDS, PLATFORM_RISK, PLATFORM_TEXTS, SERVICE, ObjectPlace
from core.frozen import Frozen
from ports.platform import StoredObject


class _Slug(Frozen):
    slug: str


class _Named(Frozen):
    slug: str
    id: UUID


class _Object(Frozen, kw_only=True):
    organization: str
    service: str = ""
    name: str = ""
    id: str = ""
    fields: dict[str, Any]
    people: int = 0
    is_directorys: bool = False

    def stored(self, kind: str) -> StoredObject:
        return StoredObject(
            place=ObjectPlace(self.organization, self.service, kind, self.name),
            id=self.id,
            fields=self.fields,
            people=self.people,
            is_directorys=self.is_directorys,
        )


class PostgresConfigurations(OnPool):
    """Implements `ports.platform.ConfigurationReader`."""

    async def slugs(self) -> Sequence[str]:
        return await ask_for_many(self._pool, _Slug, _SLUGS, None, lambda row: row.slug)

    async def objects(self, kind: str, organizations: Collection[str] | None) -> Sequence[StoredObject]:
        if kind in _OF_PLATFORM:
            return await ask_for_many(self._pool, _Object, _OF_PLATFORM[kind], None, lambda row: row.stored(kind))
        statement = _STATEMENTS[kind]
        if organizations is None:
            return await ask_for_many(self._pool, _Object, statement, None, lambda row: row.stored(kind))
        parameters = {"organizations": [storable_text(one) for one in organizations]}
        return await ask_for_many(self._pool, _Object, f"{statement} {_OF_SOME}", parameters, lambda row: row.stored(kind))

    async def ids(self, kind: str, organization: str, slugs: Collection[str]) -> Mapping[str, UUID]:
        parameters = {"organization": storable_text(organization), "slugs": [storable_text(one) for one in slugs]}
        return {row.slug: row.id for row in await ask(self._pool, _Named, _IDS[kind], parameters)}

    async def lately(self, organization: str, service: str, since: datetime) -> int:
        parameters = {"organization": storable_text(organization), "service": storable_text(service), "since": since}
        return only(await ask(self._pool, CountRow, _LATELY, parameters)).count


_STATEMENTS: Final = {**OF_ORGANIZATION, **OF_SERVICE}
_OF_SOME: Final = "where organizations.slug = any(%(organizations)s)"

_SLUGS: Final = "select slug from organizations order by slug"

_PLATFORM_FIELDS: Final[LiteralString] = """
    select '' as organization, key as name, key as id,
           jsonb_build_object('label', label, 'kind', kind, 'rule', rule, 'written_by', written_by, 'required', required,
                              'asked_at', asked_at, 'position', position, 'scope', scope) as fields
      from profile_fields
     where org_id is null
"""

# A draft counts as enabled, as it will be: that it waits is its state.
_FURTHER_PROVIDERS: Final[LiteralString] = """
    select '' as organization, key as name, key as id,
           jsonb_build_object(
               'preset', preset, 'name', name, 'client_id', client_id, 'active', state = 'active',
               'enabled', enabled or state = 'draft', 'position', position,
               'organizations', case
                   when organizations is not null then array(
                       select offered.slug
                         from organizations as offered
                        where offered.id = any (further_providers.organizations)
                        order by offered.slug
                   )
               end
           ) || (settings - 'secret_kind') as fields
      from further_providers
"""

_TEXT_RULES: Final = """
    select '' as organization,
           jsonb_build_object('mails', coalesce(stored.mails, true), 'pages', coalesce(stored.pages, false)) as fields
      from (values (true)) as this (installation)
      left join text_approval_rules as stored on this.installation
"""

_OF_PLATFORM: Final[dict[str, LiteralString]] = {
    PLATFORM_FIELDS: _PLATFORM_FIELDS,
    "providers": _FURTHER_PROVIDERS,
    PLATFORM_RISK: PLATFORM_RISK_POLICIES,
    "text_rules": _TEXT_RULES,
    PLATFORM_TEXTS: INSTALLATION_TEXTS,
}

_IDS: Final = {
    SERVICE: """
        select services.slug, services.id
          from organizations
          join services on services.org_id = organizations.id and services.slug = any(%(slugs)s)
         where organizations.slug = %(organization)s
    """,
    "teams": """
        select teams.slug, teams.id
          from organizations
          join teams on teams.org_id = organizations.id and teams.slug = any(%(slugs)s)
         where organizations.slug = %(organization)s
    """,
}

_LATELY: Final = """
    select count(*) as count
      from organizations
      join services on services.org_id = organizations.id and services.slug = %(service)s
      join service_users on service_users.service_id = services.id and service_users.last_login_at > %(since)s
     where organizations.slug = %(organization)s
"""
