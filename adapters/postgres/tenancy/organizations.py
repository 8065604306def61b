"""Organizations in PostgreSQL. Every statement reads the view `organizations`, which leaves out organizations that are being deleted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.identity.factors.mfa import second_factor_due
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first
from adapters.postgres.storable import storable
from adapters.postgres.tenancy.members import MEMBERSHIP
from adapters.postgres.ties import IS_UNCONFIRMED_OWNER
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.tenancy.organizations import MOST_LISTED, Metadata, Organization, OrganizationOverview
from core.domain.tenancy.tiers import Tier
from ports.tenancy.organizations import Added, HeldOrganization

ORGANIZATION: Final = Columns(
    Organization,
    "organizations",
    named={"tier": "tier_id", "owner": "owner_user_id"},
    texts=("name", "rejection_reason", "suspension_reason"),
)
TIER: Final = Columns(Tier, "tiers", prefix="tier_")


def _held(*, member_count: int, owner_governs: bool, **columns: Any) -> HeldOrganization:
    return HeldOrganization(ORGANIZATION.taken(columns), TIER.row(**columns), member_count, owner_governs)


def _overview(*, own_since: datetime | None, role_name: str | None, **columns: Any) -> OrganizationOverview:
    return OrganizationOverview(
        ORGANIZATION.taken(columns),
        MEMBERSHIP.taken(columns, own_since=own_since),
        tier=TIER.taken(columns),
        role_name=role_name or "",
        **columns,
    )


class OrganizationRows(OnStatements):
    """Implements `ports.tenancy.organizations.OrganizationStore`."""

    async def list(self, user: UserId, session: SessionId | None = None) -> Sequence[OrganizationOverview]:
        parameters = {"user": user, "session": session, "most": MOST_LISTED}
        return await self._statements.ask_for_many(_overview, LIST, parameters, lambda row: row)

    async def find(self, organization: OrganizationId, user: UserId) -> OrganizationOverview | None:
        return first(await self._statements.ask(_overview, GET, {"user": user, "session": None, "organization": organization}))

    async def add(self, organization: Organization) -> Added | None:
        return first(await self._statements.ask(Added, _ADD, ORGANIZATION.values(organization)))

    async def hold(self, organization: OrganizationId) -> HeldOrganization | None:
        await self._statements.tell(_HOLD, {"id": organization})
        return first(await self._statements.ask(_held, _FIND_HELD, {"id": organization}))

    async def save(self, organization: Organization) -> None:
        await self._statements.tell(_SAVE, ORGANIZATION.values(organization))

    async def save_metadata(self, organization: OrganizationId, metadata: Metadata, at: datetime) -> bool:
        parameters = {"id": organization, "metadata": Jsonb(storable(metadata)), "at": at}
        return bool(await self._statements.ask(IdRow, _SAVE_METADATA, parameters))

    async def delete(self, organization: OrganizationId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _DELETE, {"id": organization, "at": at}))


# While an organization is being deleted, its slug is free again: the unique index covers only the others.
_ADD: Final[LiteralString] = f"""
    insert into all_organizations ({ORGANIZATION.into()}) values ({ORGANIZATION.inserted()})
        on conflict (slug) where deleted_at is null do nothing
 returning (select count(*) from organizations where owner_user_id = %(owner)s and status = 'pending') as waiting,
           (select count(*) from organizations where owner_user_id = %(owner)s) as owned
"""

# The lock is a separate statement. So the next statement sees what others committed while this one waited, including a change of tier.
# The lock is the weakest one that works: other transactions can meanwhile add sessions and events that refer to the organization.
_HOLD: Final = "select from organizations where id = %(id)s for no key update"

_FIND_HELD: Final[LiteralString] = f"""
    select {ORGANIZATION.names},
           {TIER.names}, organizations.member_count,
           exists (select from users where users.id = organizations.owner_user_id and users.is_platform_owner) as owner_governs
      from organizations
      join tiers on tiers.id = organizations.tier_id
     where organizations.id = %(id)s
"""

# Counting an organization's services is cheap, because the number of services is limited.
_OVERVIEW: Final[LiteralString] = f"""
           {ORGANIZATION.names},
           {TIER.names}, organizations.member_count,
           {MEMBERSHIP.names}, memberships.own_since,
           (select count(*) from services where services.org_id = organizations.id) as service_count,
           {second_factor_due("memberships.user_id", "asking")} as second_factor_due,
           (select roles.name from roles where roles.id = memberships.role_id) as role_name,
           {IS_UNCONFIRMED_OWNER} as is_unconfirmed_owner
      from memberships
      join organizations on organizations.id = memberships.org_id
      join tiers on tiers.id = organizations.tier_id
      left join sessions as asking on asking.id = %(session)s::uuid
     where memberships.user_id = %(user)s
"""

# The list takes the organizations that the person owns first, then the oldest memberships. So the person still sees these organizations
# when somebody makes the person a member of many others.
LIST: Final[LiteralString] = f"""
    select *
      from (
               select {_OVERVIEW}
                order by memberships.role = 'owner' desc, memberships.created_at, memberships.id
                limit %(most)s
           ) as shown
     order by lower(shown.name), shown.slug
"""

GET: Final[LiteralString] = f"""
    select organizations.metadata, {_OVERVIEW}
       and memberships.org_id = %(organization)s
"""

_SAVE: Final[LiteralString] = f"update organizations set {ORGANIZATION.changes('id', 'slug', 'created_at')} where id = %(id)s"

_SAVE_METADATA: Final = """
    update organizations set metadata = %(metadata)s, updated_at = %(at)s where id = %(id)s and metadata <> %(metadata)s returning id
"""

_DELETE: Final = """
    update all_organizations set deleted_at = %(at)s where id = %(id)s and deleted_at is null returning id
"""
