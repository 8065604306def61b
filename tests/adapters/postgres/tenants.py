"""Organizations, roles and members for the tests of the store, put there by the store itself."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from core.domain.identifiers import MembershipId, OrganizationId, RoleId
from core.domain.identity.accounts import Account
from core.domain.tenancy.members import Membership
from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.domain.tenancy.roles import Capability, Role
from core.domain.tenancy.tiers import FREE
from tests.adapters.postgres.conftest import Store


@dataclass(frozen=True)
class StoredTenants:
    store: Store

    async def add(self, slug: str = "acme") -> OrganizationId:
        now = datetime.now(UTC)
        organization = Organization(
            id=OrganizationId(self.store.ids.new()),
            slug=slug,
            name=slug.title(),
            status=OrganizationStatus.ACTIVE,
            tier=FREE,
            owner=None,
            created_at=now,
            updated_at=now,
        )
        async with self.store.unit_of_work() as uow:
            assert await uow.organizations.add(organization)
            await uow.commit()
        return organization.id

    def membership(self, organization: OrganizationId, account: Account, role: str = "member", role_id: RoleId | None = None) -> Membership:
        now = datetime.now(UTC)
        return Membership(MembershipId(self.store.ids.new()), organization, account.id, role, now, role_id, own_since=now)

    async def join(self, organization: OrganizationId, account: Account, role: str = "member", role_id: RoleId | None = None) -> Membership:
        membership = self.membership(organization, account, role, role_id)
        async with self.store.unit_of_work() as uow:
            assert await uow.members.add(membership)
            await uow.commit()
        return membership

    def role(self, organization: OrganizationId, slug: str = "auditor", permissions: Collection[Capability] = ()) -> Role:
        now = datetime.now(UTC)
        return Role(RoleId(self.store.ids.new()), organization, slug, slug.title(), "", frozenset(permissions), now, now)

    async def add_role(self, organization: OrganizationId, slug: str = "auditor", permissions: Collection[Capability] = ()) -> Role:
        role = self.role(organization, slug, permissions)
        async with self.store.unit_of_work() as uow:
            assert await uow.roles.add(role)
            await uow.commit()
        return role
