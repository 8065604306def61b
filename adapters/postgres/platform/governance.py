"""Organizations as platform owners see them, from PostgreSQL."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import page_of
from adapters.postgres.statements import ask, first, only
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.organizations import ORGANIZATION, TIER
from adapters.postgres.ties import shown_name
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import OrganizationId
from core.domain.platform.governance import MOST_SOUGHT, Belongings, GovernedOrganization, GovernedOwner, OrganizationFilter
from core.domain.requests import MOST_ROWS_COUNTED, Listed


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
