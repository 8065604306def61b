"""The records of an organization and of its tier, for members and platform owners."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.domain.tenancy.tiers import Tier
from entrypoints.http.machinery.derived import shown
from entrypoints.http.machinery.fields import CreatedAt, Id, UpdatedAt, example


class TierRecord(msgspec.Struct, frozen=True):
    """A tier: the limits of organizations, and their price."""

    id: Id
    name: Annotated[str, example("free")]
    """The tier's name for programs."""
    display_name: Annotated[str, example("Free")]
    """The tier's name for people."""
    default_max_services: Annotated[int, example(3)]
    """The number of services that an organization may have."""
    default_max_users: Annotated[int, example(100)]
    """The number of members that an organization may have."""
    price_cents: Annotated[int, example(0)]
    """The price in US cents."""


class OrganizationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An organization: a tenant with its own people, roles and services."""

    id: Id
    slug: Annotated[str, example("acme")]
    """The organization's slug, which never changes."""
    name: Annotated[str, example("Acme Ltd")]
    """The organization's name."""
    status: OrganizationStatus
    """The state of the organization."""
    tier_id: UUID
    """The tier of the organization."""
    owner_user_id: UUID | None
    """The user who owns the organization; null if the account was deleted."""
    max_services: Annotated[int, example(5)] | None
    """The organization's own limit on services; null if the tier's limit applies."""
    max_users: Annotated[int, example(20)] | None
    """The organization's own limit on members; null if the tier's limit applies."""
    approved_at: datetime | None
    """When the organization was approved; null if it was not."""
    approved_by: UUID | None
    """The platform owner who approved the organization; null if nobody did."""
    rejected_at: Annotated[datetime | None, example(None)]
    """When the organization was rejected; null if it was not."""
    rejection_reason: Annotated[str | None, example(None)]
    """The reason for the rejection."""
    suspended_at: Annotated[datetime | None, example(None)]
    """When the organization was suspended; null if it is not."""
    suspension_reason: Annotated[str | None, example(None)]
    """The reason for the suspension."""
    created_at: CreatedAt
    updated_at: UpdatedAt


organization_record = shown(Organization, OrganizationRecord, named={"tier_id": "tier", "owner_user_id": "owner"})


def tier_record(tier: Tier) -> TierRecord:
    return TierRecord(tier.id, tier.name, tier.display_name, tier.default_max_services, tier.default_max_users, tier.price_cents)
