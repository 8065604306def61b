"""Where organizations are kept, and what is left of those that are being deleted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import OrganizationId, UserId
from core.domain.organizations import Organization, OrganizationOverview
from core.domain.tiers import Tier, UserLimit, user_limit


@dataclass(frozen=True, slots=True)
class Held:
    """An organization that stays as it is until the unit of work ends, with what its limits are made of."""

    organization: Organization
    tier: Tier
    member_count: int

    @property
    def user_limit(self) -> UserLimit:
        return user_limit(self.organization.max_users, self.tier.default_max_users)


@dataclass(frozen=True, slots=True)
class Added:
    """`waiting` of the same owner's organizations wait for approval besides."""

    waiting: int


class OrganizationStore(Protocol):
    """Part of the unit of work. Knows nothing of organizations that are being deleted."""

    async def add(self, organization: Organization) -> Added | None:
        """None when the slug is taken: of two callers, one gets None."""

    async def hold(self, organization: OrganizationId) -> Held | None:
        """One change to it, or to the number of its members or services, at a time. First in its unit of work. None when there is none."""

    async def save(self, organization: Organization) -> None:
        """Everything but id, slug and creation, as it is now. After `hold`."""

    async def delete(self, organization: OrganizationId, at: datetime) -> bool:
        """Gone from every answer with the commit; its rows follow in batches. False when it is gone already: of two, one gets True."""


class OrganizationLookup(Protocol):
    """Outside any unit of work: one statement each. Knows nothing of organizations that are being deleted."""

    async def list(self, user: UserId) -> Sequence[OrganizationOverview]:
        """Those that this person is a member of, by name."""

    async def get(self, organization: OrganizationId, user: UserId) -> OrganizationOverview | None:
        """None when there is none, or the person is no member of it."""


@dataclass(frozen=True, slots=True)
class Swept:
    """One batch. The next begins after `last`; None when there was nothing left."""

    last: UUID | None
    rows: int


class OrganizationRemains(Protocol):
    """What organizations leave behind that are being deleted. Each call is a transaction of its own and touches no other organization; all
    of it may be repeated, and by several at once.
    """

    @property
    def parts(self) -> Sequence[str]:
        """In the order in which they go."""

    async def sweep(self, part: str, organization: OrganizationId, after: UUID | None, limit: int) -> Swept:
        """Take the next batch of a part away, of `limit` rows or little more. Nothing of an organization that is not being deleted."""

    async def finish(self, organization: OrganizationId) -> bool:
        """The organization itself, after its parts. False when it is gone already, or is not being deleted."""

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[OrganizationId]:
        """Deleted longer ago than this, and no job is there to take them away."""
