"""The installation as platform owners see it, in PostgreSQL: its state and storage, its organizations, and the approval of custom texts."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import page_of, storable_text
from adapters.postgres.database import BELIEVED
from adapters.postgres.listening_processes import LISTENS, NAME, version_in
from adapters.postgres.statements import OnPool, OnStatements, ask, first, only, tell
from adapters.postgres.tenancy.organizations import ORGANIZATION, TIER
from adapters.postgres.ties import shown_name
from core.domain.identifiers import OrganizationId
from core.domain.platform.governance import (
    MOST_SOUGHT,
    Belongings,
    GovernedOrganization,
    GovernedOwner,
    OrganizationFilter,
    OrganizationTexts,
    StoredText,
)
from core.domain.platform.installation import AwayProvider, FirstStepsDone, InstallationState, ServingProcess, Storage, StoredTable
from core.domain.requests import MOST_ROWS_COUNTED, Listed
from core.domain.texts.own_texts import INSTALLATION_TEXTS_TOPIC, ApprovalRules
from core.frozen import Frozen


def _governed(
    *,
    member_count: int,
    owner_email: str | None,
    owner_is_platform_owner: bool | None,
    owner_created_at: datetime | None,
    owner_name: str | None,
    **columns: Any,
) -> GovernedOrganization:
    organization, owner = ORGANIZATION.taken(columns), None
    if organization.owner is not None and owner_email is not None and owner_created_at is not None:
        owner = GovernedOwner(organization.owner, owner_email, bool(owner_is_platform_owner), owner_created_at, owner_name)
    return GovernedOrganization(organization, owner, TIER.row(**columns), member_count)


def _counted(*, total: int, **columns: Any) -> tuple[int, GovernedOrganization | None]:
    return total, None if columns["id"] is None else _governed(**columns)


class PostgresOrganizationRegister(OnPool):
    """Implements `ports.platform.OrganizationRegister`."""

    async def list(self, wanted: OrganizationFilter, limit: int, offset: int) -> Listed[GovernedOrganization]:
        parameters = {"status": wanted.status, "tier": wanted.tier, "limit": limit, "offset": offset, "most": MOST_ROWS_COUNTED}
        statement = _LISTS[wanted.status is not None, wanted.tier is not None]
        if wanted.search:
            parameters |= {**_sought(storable_text(wanted.search)), "most": MOST_SOUGHT}
            statement = _SEARCH
        return page_of(await ask(self._pool, _counted, statement, parameters))

    async def find(self, organization: str | OrganizationId) -> GovernedOrganization | None:
        if isinstance(organization, UUID):
            rows = await ask(self._pool, _governed, _FIND_BY_ID, {"id": organization})
        else:
            rows = await ask(self._pool, _governed, _FIND, {"slug": storable_text(organization)})
        return first(rows)

    async def belongings(self, organization: OrganizationId) -> Belongings:
        return only(await ask(self._pool, Belongings, _BELONGINGS, {"organization": organization, "most": MOST_ROWS_COUNTED}))


_COLUMNS: Final[LiteralString] = f"""{ORGANIZATION.names},
           {TIER.names}, organizations.member_count,
           owners.email as owner_email, owners.is_platform_owner as owner_is_platform_owner, owners.created_at as owner_created_at,
           {shown_name("owners")} as owner_name"""

_ONE: Final[LiteralString] = f"""
    select {_COLUMNS}
      from organizations
      join tiers on tiers.id = organizations.tier_id
      left join users as owners on owners.id = organizations.owner_user_id
"""
_FIND: Final[LiteralString] = f"{_ONE} where organizations.slug = %(slug)s"
_FIND_BY_ID: Final[LiteralString] = f"{_ONE} where organizations.id = %(id)s"


def _number(table: LiteralString, name: LiteralString) -> LiteralString:
    return f"(select count(*) from (select from {table} where org_id = %(organization)s limit %(most)s) as capped) as {name}"


_BELONGINGS: Final[LiteralString] = f"""
    select {_number("memberships", "members")},
           {_number("services", "services")},
           {_number("service_users", "end_users")},
           {_number("teams", "teams")},
           {_number("webhooks", "webhooks")}
"""


def _sought(text: str) -> Mapping[str, Any]:
    """Texts with this beginning stand between two others. `like` would need its pattern when PostgreSQL plans the statement."""
    end, lower = "\U0010ffff", text.lower()
    try:
        wanted = UUID(text)
    except ValueError:
        wanted = None
    return {"id": wanted, "start": lower, "end": f"{lower}{end}"}


_GOVERNED: Final[LiteralString] = f"""
      left join lateral (
               select {_COLUMNS}
                 from organizations
                 join tiers on tiers.id = organizations.tier_id
                 left join users as owners on owners.id = organizations.owner_user_id
                where organizations.id = page.id
                limit 1
           ) as governed on true
     order by governed.created_at desc, governed.id desc
"""


def _list(condition: LiteralString) -> LiteralString:
    """A list with one condition. PostgreSQL finds the page in an index alone, so a page far down costs little more than the first one. The
    lateral join then reads only the rows of the page, one by one, whatever the planner assumes about an unknown limit. The total comes even
    when the page is empty.
    """
    found: LiteralString = f"select id from organizations {condition} order by created_at desc, id desc"
    return f"""
    select counted.total, governed.*
      from (select count(*) as total from ({found} limit %(most)s) as capped) as counted
      left join ({found} limit %(limit)s offset %(offset)s) as page on true
{_GOVERNED}"""


# Each combination of filters has its own statement, so that PostgreSQL plans each one for its own condition.
_LISTS: Final[Mapping[tuple[bool, bool], LiteralString]] = {
    (False, False): _list(""),
    (True, False): _list("where status = %(status)s"),
    (False, True): _list("where tier_id = %(tier)s"),
    (True, True): _list("where status = %(status)s and tier_id = %(tier)s"),
}

# The operators compare as the indexes of beginnings do. Each look into an index is bounded, because one letter begins very many names.
_SEARCH: Final[LiteralString] = f"""
    with sought as materialized (
             select id, status, tier_id, created_at from organizations where id = %(id)s::uuid
              union
            (select id, status, tier_id, created_at
               from organizations
              where slug ~>=~ %(start)s and slug ~<~ %(end)s
              order by slug using ~<~
              limit %(most)s)
              union
            (select id, status, tier_id, created_at
               from organizations
              where lower(name) ~>=~ %(start)s and lower(name) ~<~ %(end)s
              order by lower(name) using ~<~
              limit %(most)s)
         ),
         fitting as materialized (
             select id
               from sought
              where (%(status)s::text is null or status = %(status)s) and (%(tier)s::uuid is null or tier_id = %(tier)s)
              order by created_at desc, id desc
              limit %(most)s
         )
    select counted.total, governed.*
      from (select count(*) as total from fitting) as counted
      left join (select id from fitting limit %(limit)s offset %(offset)s) as page on true
{_GOVERNED}"""


class _Row(Frozen, kw_only=True):
    id: UUID
    slug: str
    name: str
    version: str
    approved_version: str | None
    changed_at: datetime | None = None
    texts: Sequence[Mapping[str, Any]] | None = None

    def made(self) -> OrganizationTexts:
        return OrganizationTexts(
            organization=OrganizationId(self.id),
            slug=self.slug,
            name=self.name,
            version=self.version,
            approved_version=self.approved_version,
            changed_at=self.changed_at,
            texts=[StoredText(**one) for one in self.texts or ()],
        )


class TextApprovalRows(OnStatements):
    """Implements `ports.platform.TextApprovalStore`."""

    async def list(self, limit: int, most_texts: int) -> Sequence[OrganizationTexts]:
        return [row.made() for row in await self._statements.ask(_Row, _LIST, {"limit": limit, "most_texts": most_texts})]

    async def hold(self, organization: OrganizationId) -> OrganizationTexts | None:
        row = first(await self._statements.ask(_Row, _HOLD, {"organization": organization}))
        return None if row is None else row.made()

    async def approve(self, organization: OrganizationId, version: str | None) -> None:
        await self._statements.tell(_APPROVE, {"organization": organization, "version": version})

    async def rules(self) -> ApprovalRules:
        return only(await self._statements.ask(ApprovalRules, _RULES))

    async def set_rules(self, rules: ApprovalRules) -> None:
        await self._statements.tell(_SET_RULES, {"mails": rules.mails, "pages": rules.pages})
        self._statements.ring(INSTALLATION_TEXTS_TOPIC)


# The texts are read of those organizations alone that are listed.
_LIST: Final = """
    with found as (
             select organizations.id, organizations.slug, organizations.name, organizations.texts_digest as version,
                    organizations.approved_texts as approved_version,
                    coalesce(organizations.approved_texts = organizations.texts_digest, false) as approved, kept.changed_at, kept.texts
               from organizations
               left join (
                             select org_id, max(updated_at) as changed_at, count(*) as texts from organization_texts group by org_id
                         ) as kept on kept.org_id = organizations.id
              where organizations.texts_digest is not null and organizations.status = 'active'
         ),
         counted as (
             select id, slug, name, version, approved_version, approved, changed_at,
                    sum(texts) over (order by approved, changed_at, id rows between unbounded preceding and 1 preceding) as before
               from found
         ),
         listed as materialized (
             select id, slug, name, version, approved_version, approved, changed_at
               from counted
              where coalesce(before, 0) < %(most_texts)s
              order by approved, changed_at, id
              limit %(limit)s
         )
  select id, slug, name, version, approved_version, changed_at,
         (
             select json_agg(json_build_object('language', language, 'key', key, 'text', text) order by language, key)
               from organization_texts
              where org_id = listed.id
         ) as texts
    from listed
   order by approved, changed_at, id
"""

_HOLD: Final = """
    select id, slug, name, coalesce(texts_digest, '') as version, approved_texts as approved_version
      from organizations
     where id = %(organization)s and coalesce(texts_digest, approved_texts) is not null
       for no key update
"""

_APPROVE: Final = "update organizations set approved_texts = %(version)s where id = %(organization)s"

_RULES: Final = """
    select coalesce((select mails from text_approval_rules), true) as mails,
           coalesce((select pages from text_approval_rules), false) as pages
"""

_SET_RULES: Final = """
    insert into text_approval_rules (mails, pages) values (%(mails)s, %(pages)s)
        on conflict (is_only) do update set mails = excluded.mails, pages = excluded.pages
"""


MOST_LISTED: Final = 100


class _State(Frozen):
    schema: str | None
    processes: list[dict[str, Any]]
    providers: list[dict[str, Any]]


class PostgresInstallation(OnPool):
    """Implements `ports.platform.InstallationLookup`."""

    async def state(self) -> InstallationState:
        (row,) = await ask(self._pool, _State, _STATE, {**NAME, "most": MOST_LISTED})
        return InstallationState(
            row.schema or "",
            tuple(
                ServingProcess(version_in(one["name"]), one["host"] or "", datetime.fromisoformat(one["since"])) for one in row.processes
            ),
            tuple(
                AwayProvider(one["provider"], one["organization"] or "", datetime.fromisoformat(one["failed_at"])) for one in row.providers
            ),
        )

    async def first_steps(self) -> FirstStepsDone:
        return only(await ask(self._pool, FirstStepsDone, _FIRST_STEPS, {}))


# Each serving process listens on one connection. Every role sees the names and the beginnings of connections.
_STATE: Final = f"""
    select (select lpad(number::text, 4, '0') || '_' || name from schema_migrations order by number desc limit 1) as schema,
           array(
               select jsonb_build_object('name', application_name, 'host', host(client_addr), 'since', backend_start)
                 from pg_stat_activity
                where {LISTENS}
                order by backend_start nulls last
                limit %(most)s
           ) as processes,
           array(
               select jsonb_build_object('provider', coalesce(upstream_providers.name, provider_outages.provider),
                                         'organization', organizations.slug, 'failed_at', provider_outages.failed_at)
                 from provider_outages
                 left join upstream_providers on upstream_providers.id::text = provider_outages.provider
                 left join organizations on organizations.id = upstream_providers.org_id
                order by provider_outages.failed_at desc
                limit %(most)s
           ) as providers
"""

_FIRST_STEPS: Final = """
    select exists (select from organizations) as organization,
           exists (select from invitations) or exists (select from users where not is_platform_owner) as invitation,
           exists (select from services) as application,
           exists (select from service_users where first_login_at is not null) as sign_in
"""


def _sampled(*, today: date, sampled: date | None, whole: int, **table: Any) -> tuple[date, date | None, int, StoredTable]:
    return today, sampled, whole, StoredTable(**table)


class PostgresStorageSamples(OnPool):
    """Implements `ports.platform.StorageSamples`.

    PostgreSQL knows the size of a table without reading it.
    """

    async def look(self) -> Storage:
        rows = await ask(self._pool, _sampled, _LOOK)
        today, sampled, whole, _ = rows[0]
        return Storage(today, sampled, whole, [table for *_, table in rows])

    async def keep(self) -> bool:
        kept = await tell(self._pool, _KEEP)
        if kept:
            await tell(self._pool, _FORGET)
        return kept > 0


# A part belongs to its table, and what is too long for a row to the row's table.
_TABLES: Final[LiteralString] = """
    select whole.relname::text as name, sum(part.reltuples) filter (where part.reltuples >= 0)::bigint as rows,
           sum(pg_total_relation_size(part.oid))::bigint as bytes,
           coalesce(sum(n_dead_tup) / nullif(sum(n_dead_tup + n_live_tup), 0), 0)::double precision as dead
      from pg_class as part
      join pg_class as whole on whole.oid = coalesce(pg_partition_root(part.oid), part.oid)
      left join pg_stat_all_tables as seen on seen.relid = part.oid
     where part.relkind = 'r' and whole.relnamespace = 'public'::regnamespace
     group by whole.relname
"""
_TODAY: Final = "(now() at time zone 'UTC')::date"

_LOOK: Final[LiteralString] = f"""
    with tables as ({_TABLES}),
         oldest as (
             select min(day) as day from storage_samples where day >= {_TODAY} - 28 and day < {_TODAY}
         )
  select {_TODAY} as today, oldest.day as sampled, pg_database_size(current_database()) as whole, tables.*,
         case when oldest.day is not null then tables.bytes - coalesce(samples.bytes, 0) end as grew
    from tables
   cross join oldest
    left join storage_samples as samples on samples.day = oldest.day and samples.name = tables.name
   order by tables.bytes desc, tables.name
"""

# Another process may do the same at this moment. A sample is a witness of the clock, so a clock that cannot be believed leaves none.
_KEEP: Final[LiteralString] = f"""
    insert into storage_samples (day, name, bytes)
    select {_TODAY}, name, bytes
      from ({_TABLES}) as tables
     where {BELIEVED} and not exists (select from storage_samples where day = {_TODAY})
        on conflict do nothing
"""
_FORGET: Final[LiteralString] = f"delete from storage_samples where day < {_TODAY} - 400"
