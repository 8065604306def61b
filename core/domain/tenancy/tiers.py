"""Tiers: the limits and the price of an organization."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.identifiers import TierId
from core.frozen import Frozen

# Used when neither the organization nor its tier sets a number.
DEFAULT_MAX_USERS: Final = 5
FREE: Final = TierId(UUID("01900000-0000-7000-8000-000000000001"))

# A price has no currency of its own, unlike a plan's.
PRICE_CURRENCY: Final = "usd"


class Tier(Frozen):
    id: TierId
    name: str
    display_name: str
    default_max_services: int
    default_max_users: int
    price_cents: int


def largest(tiers: Iterable[Tier]) -> Tier:
    """The tier with the most services; of several, the one with the most members, and then the dearest."""
    return max(tiers, key=lambda tier: (tier.default_max_services, tier.default_max_users, tier.price_cents, str(tier.id)))


class LimitSource(StrEnum):
    """The source of an organization's limit."""

    CUSTOM = "custom"
    TIER = "tier"
    DEFAULT = "default"


class UserLimit(Frozen):
    max_users: int
    source: LimitSource


def user_limit(custom: int | None, tier: int | None) -> UserLimit:
    """The number of members that an organization may have: its own number, otherwise its tier's, otherwise a small default."""
    if custom is not None:
        return UserLimit(custom, LimitSource.CUSTOM)
    if tier is not None:
        return UserLimit(tier, LimitSource.TIER)
    return UserLimit(DEFAULT_MAX_USERS, LimitSource.DEFAULT)
