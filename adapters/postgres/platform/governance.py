"""Organizations as platform owners see them, from PostgreSQL."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.organizations import ORGANIZATION, TIER, WithTierRow
from adapters.postgres.ties import shown_name
from core.domain.identifiers import UserId
from core.domain.pages import MOST_COUNTED, Listed
from core.domain.platform.governance import GovernedOrganization, GovernedOwner, OrganizationFilter


class _Row(WithTierRow, kw_only=True):
    owner_email: str | None
    owner_is_platform_owner: bool | None
    owner_created_at: datetime | None
    owner_name: str | None

    def governed(self) -> GovernedOrganization:
        return GovernedOrganization(self.organization(), self._owner(), self.tier(), self.member_count)

    def _owner(self) -> GovernedOwner | None:
        if self.owner_user_id is None or self.owner_email is None or self.owner_created_at is None:
            return None
        return GovernedOwner(
            UserId(self.owner_user_id), self.owner_email, bool(self.owner_is_platform_owner), self.owner_created_at, self.owner_name
        )


class _Listed:
    """A row of the list. For an empty page there is one row, which has the total and no organization."""

    def __init__(self, *, total: int, **columns: Any) -> None:
        self.total = total
        self.row = None if columns["id"] is None else _Row(**columns)


class PostgresOrganizationRegister:
    """Implements `ports.platform.governance.OrganizationRegister`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list(self, wanted: OrganizationFilter, limit: int, offset: int) -> Listed[GovernedOrganization]:
        parameters = {"status": wanted.status, "tier": wanted.tier, "limit": limit, "offset": offset, "most": MOST_COUNTED}
        statement = _LISTS[wanted.status is not None, wanted.tier is not None]
        rows = await ask(self._pool, _Listed, statement, parameters)
        return Listed([one.row.governed() for one in rows if one.row is not None], rows[0].total)

    async def find(self, slug: str) -> GovernedOrganization | None:
        rows = await ask(self._pool, _Row, _FIND, {"slug": storable_text(slug)})
        return rows[0].governed() if rows else None


_COLUMNS: Final[LiteralString] = f"""{ORGANIZATION},
           {TIER},
           owners.email as owner_email, owners.is_platform_owner as owner_is_platform_owner, owners.created_at as owner_created_at,
           {shown_name("owners")} as owner_name"""

_FIND: Final[LiteralString] = f"""
    select {_COLUMNS}
      from organizations
      join tiers on tiers.id = organizations.tier_id
      left join users as owners on owners.id = organizations.owner_user_id
     where organizations.slug = %(slug)s
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


# Each combination of filters has its own statement, so that PostgreSQL plans each one for its own condition.
_LISTS: Final[Mapping[tuple[bool, bool], LiteralString]] = {
    (False, False): _list(""),
    (True, False): _list("where status = %(status)s"),
    (False, True): _list("where tier_id = %(tier)s"),
    (True, True): _list("where status = %(status)s and tier_id = %(tier)s"),
}
