"""Organizations in PostgreSQL. Every statement reads the view `organizations`, which leaves out organizations that are being deleted."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.identity.factors.mfa import second_factor_due
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.ties import IS_UNCONFIRMED_OWNER
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import MembershipId, OrganizationId, RoleId, TierId, UserId
from core.domain.tenancy.members import Membership
from core.domain.tenancy.metadata import Metadata
from core.domain.tenancy.organizations import MOST_LISTED, Organization, OrganizationOverview, OrganizationStatus
from core.domain.tenancy.tiers import Tier
from core.frozen import Frozen, replace
from ports.tenancy.organizations import Added, HeldOrganization


class OrganizationRow(Frozen, kw_only=True):
    """The columns of `ORGANIZATION`. Statements that read further columns extend this class."""

    id: UUID
    slug: str
    name: str
    status: str
    tier_id: UUID
    owner_user_id: UUID | None
    max_services: int | None
    max_users: int | None
    approved_at: datetime | None
    approved_by: UUID | None
    rejected_at: datetime | None
    rejection_reason: str | None
    suspended_at: datetime | None
    suspension_reason: str | None
    created_at: datetime
    updated_at: datetime

    def organization(self) -> Organization:
        return Organization(
            id=OrganizationId(self.id),
            slug=self.slug,
            name=self.name,
            status=OrganizationStatus(self.status),
            tier=TierId(self.tier_id),
            owner=None if self.owner_user_id is None else UserId(self.owner_user_id),
            max_services=self.max_services,
            max_users=self.max_users,
            approved_at=self.approved_at,
            approved_by=None if self.approved_by is None else UserId(self.approved_by),
            rejected_at=self.rejected_at,
            rejection_reason=self.rejection_reason,
            suspended_at=self.suspended_at,
            suspension_reason=self.suspension_reason,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class WithTierRow(OrganizationRow, kw_only=True):
    """The columns of `ORGANIZATION` and `TIER`."""

    tier_name: str
    tier_display_name: str
    tier_default_max_services: int
    tier_default_max_users: int
    tier_price_cents: int
    member_count: int

    def tier(self) -> Tier:
        return Tier(
            id=TierId(self.tier_id),
            name=self.tier_name,
            display_name=self.tier_display_name,
            default_max_services=self.tier_default_max_services,
            default_max_users=self.tier_default_max_users,
            price_cents=self.tier_price_cents,
        )


# The organization's columns, for a statement that reads `organizations`.
ORGANIZATION: Final = """
           organizations.id, organizations.slug, organizations.name, organizations.status, organizations.tier_id,
           organizations.owner_user_id, organizations.max_services, organizations.max_users, organizations.approved_at,
           organizations.approved_by, organizations.rejected_at, organizations.rejection_reason, organizations.suspended_at,
           organizations.suspension_reason, organizations.created_at, organizations.updated_at"""

# Further columns of a statement that reads `organizations` and joins `tiers`: the organization's tier, and the number of its members.
TIER: Final = """
           tiers.name as tier_name, tiers.display_name as tier_display_name, tiers.default_max_services as tier_default_max_services,
           tiers.default_max_users as tier_default_max_users, tiers.price_cents as tier_price_cents, organizations.member_count"""


class OrganizationRows:
    """Implements `ports.tenancy.organizations.OrganizationStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, user: UserId) -> Sequence[OrganizationOverview]:
        return await self._statements.ask_for_many(_OverviewRow, LIST, {"user": user, "most": MOST_LISTED}, _OverviewRow.overview)

    async def get(self, organization: OrganizationId, user: UserId) -> OrganizationOverview | None:
        rows = await self._statements.ask(_WholeRow, GET, {"user": user, "organization": organization})
        return rows[0].overview() if rows else None

    async def add(self, organization: Organization) -> Added | None:
        added = await self._statements.ask(
            Added, _ADD, {**_columns(organization), "slug": organization.slug, "created_at": organization.created_at}
        )
        return added[0] if added else None

    async def hold(self, organization: OrganizationId) -> HeldOrganization | None:
        await self._statements.tell(_HOLD, {"id": organization})
        found = await self._statements.ask(_HeldRow, _FIND_HELD, {"id": organization})
        if not found:
            return None
        return HeldOrganization(found[0].organization(), found[0].tier(), found[0].member_count, found[0].owner_governs)

    async def save(self, organization: Organization) -> None:
        await self._statements.tell(_SAVE, _columns(organization))

    async def save_metadata(self, organization: OrganizationId, metadata: Metadata, at: datetime) -> bool:
        parameters = {"id": organization, "metadata": Jsonb(storable(metadata)), "at": at}
        return bool(await self._statements.ask(IdRow, _SAVE_METADATA, parameters))

    async def delete(self, organization: OrganizationId, at: datetime) -> bool:
        return bool(await self._statements.ask(IdRow, _DELETE, {"id": organization, "at": at}))


class _HeldRow(WithTierRow, kw_only=True):
    owner_governs: bool


class _OverviewRow(WithTierRow, kw_only=True):
    membership_id: UUID
    membership_user_id: UUID
    membership_role: str
    membership_role_id: UUID | None
    membership_created_at: datetime
    membership_own_since: datetime | None
    service_count: int
    second_factor_due: datetime | None
    role_name: str | None
    is_unconfirmed_owner: bool

    def overview(self) -> OrganizationOverview:
        organization = self.organization()
        membership = Membership(
            MembershipId(self.membership_id),
            organization.id,
            UserId(self.membership_user_id),
            self.membership_role,
            self.membership_created_at,
            None if self.membership_role_id is None else RoleId(self.membership_role_id),
            own_since=self.membership_own_since,
        )
        return OrganizationOverview(
            organization,
            membership,
            self.member_count,
            self.service_count,
            self.tier(),
            self.second_factor_due,
            self.role_name or "",
            is_unconfirmed_owner=self.is_unconfirmed_owner,
        )


class _WholeRow(_OverviewRow, kw_only=True):
    metadata: dict[str, Any]

    def overview(self) -> OrganizationOverview:
        return replace(super().overview(), metadata=self.metadata)


def _columns(organization: Organization) -> dict[str, Any]:
    """The id, and every column that may change."""
    return {
        "id": organization.id,
        "name": storable_text(organization.name),
        "status": organization.status.value,
        "tier": organization.tier,
        "owner": organization.owner,
        "max_services": organization.max_services,
        "max_users": organization.max_users,
        "approved_at": organization.approved_at,
        "approved_by": organization.approved_by,
        "rejected_at": organization.rejected_at,
        "rejection_reason": _text(organization.rejection_reason),
        "suspended_at": organization.suspended_at,
        "suspension_reason": _text(organization.suspension_reason),
        "updated_at": organization.updated_at,
    }


def _text(text: str | None) -> str | None:
    return None if text is None else storable_text(text)


# While an organization is being deleted, its slug is free again: the unique index covers only the others.
_ADD: Final = """
    insert into all_organizations
           (id, slug, name, status, tier_id, owner_user_id, max_services, max_users, approved_at, approved_by, rejected_at,
            rejection_reason, suspended_at, suspension_reason, created_at, updated_at)
    values (%(id)s, %(slug)s, %(name)s, %(status)s, %(tier)s, %(owner)s, %(max_services)s, %(max_users)s, %(approved_at)s, %(approved_by)s,
            %(rejected_at)s, %(rejection_reason)s, %(suspended_at)s, %(suspension_reason)s, %(created_at)s, %(updated_at)s)
        on conflict (slug) where deleted_at is null do nothing
 returning (select count(*) from organizations where owner_user_id = %(owner)s and status = 'pending') as waiting,
           (select count(*) from organizations where owner_user_id = %(owner)s) as owned
"""

# The lock is a separate statement. So the next statement sees what others committed while this one waited, including a change of tier.
# The lock is the weakest one that works: other transactions can meanwhile add sessions and events that refer to the organization.
_HOLD: Final = "select from organizations where id = %(id)s for no key update"

_FIND_HELD: Final = f"""
    select {ORGANIZATION},
           {TIER},
           exists (select from users where users.id = organizations.owner_user_id and users.is_platform_owner) as owner_governs
      from organizations
      join tiers on tiers.id = organizations.tier_id
     where organizations.id = %(id)s
"""

# Counting an organization's services is cheap, because the number of services is limited.
_OVERVIEW: Final = f"""
           {ORGANIZATION},
           {TIER},
           memberships.id as membership_id, memberships.user_id as membership_user_id, memberships.role as membership_role,
           memberships.role_id as membership_role_id, memberships.created_at as membership_created_at,
           memberships.own_since as membership_own_since,
           (select count(*) from services where services.org_id = organizations.id) as service_count,
           {second_factor_due("memberships.user_id")} as second_factor_due,
           (select roles.name from roles where roles.id = memberships.role_id) as role_name,
           {IS_UNCONFIRMED_OWNER} as is_unconfirmed_owner
      from memberships
      join organizations on organizations.id = memberships.org_id
      join tiers on tiers.id = organizations.tier_id
     where memberships.user_id = %(user)s
"""

# The list takes the organizations that the person owns first, then the oldest memberships. So the person still sees these organizations
# when somebody makes the person a member of many others.
LIST: Final = f"""
    select *
      from (
               select {_OVERVIEW}
                order by memberships.role = 'owner' desc, memberships.created_at, memberships.id
                limit %(most)s
           ) as shown
     order by lower(shown.name), shown.slug
"""

GET: Final = f"""
    select organizations.metadata, {_OVERVIEW}
       and memberships.org_id = %(organization)s
"""

_SAVE: Final = """
    update organizations
       set name = %(name)s, status = %(status)s, tier_id = %(tier)s, owner_user_id = %(owner)s, max_services = %(max_services)s,
           max_users = %(max_users)s, approved_at = %(approved_at)s, approved_by = %(approved_by)s, rejected_at = %(rejected_at)s,
           rejection_reason = %(rejection_reason)s, suspended_at = %(suspended_at)s, suspension_reason = %(suspension_reason)s,
           updated_at = %(updated_at)s
     where id = %(id)s
"""

_SAVE_METADATA: Final = """
    update organizations set metadata = %(metadata)s, updated_at = %(at)s where id = %(id)s and metadata <> %(metadata)s returning id
"""

_DELETE: Final = """
    update all_organizations set deleted_at = %(at)s where id = %(id)s and deleted_at is null returning id
"""
