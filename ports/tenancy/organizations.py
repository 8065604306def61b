"""The store of organizations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, SessionId, UserId
from core.domain.tenancy.metadata import Metadata
from core.domain.tenancy.organizations import Organization, OrganizationOverview
from core.domain.tenancy.tiers import Tier, UserLimit, user_limit
from core.frozen import Frozen


class HeldOrganization(Frozen):
    """An organization that stays as it is until the unit of work ends, with the numbers that its limits come from."""

    organization: Organization
    tier: Tier
    member_count: int
    owner_governs: bool = False
    """The owner is a platform owner."""

    @property
    def user_limit(self) -> UserLimit:
        return user_limit(self.organization.max_users, self.tier.default_max_users)


class Added(Frozen):
    """The owner has `owned` other organizations, of which `waiting` wait for approval."""

    waiting: int
    owned: int


class OrganizationStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. The other methods need a unit of work.
    Organizations that are being deleted do not exist here.
    """

    async def list(self, user: UserId, session: SessionId | None = None) -> Sequence[OrganizationOverview]:
        """The organizations that this person belongs to, by name. If there are more than `MOST_LISTED`, those that the person owns come
        first, then the oldest memberships. `session` is the one that asks, if its directory's second factor may count.
        """

    async def find(self, organization: OrganizationId, user: UserId) -> OrganizationOverview | None:
        """None when there is no such organization, or the person is not a member."""

    async def add(self, organization: Organization) -> Added | None:
        """None when the slug is taken: of two callers, one gets None."""

    async def hold(self, organization: OrganizationId) -> HeldOrganization | None:
        """One change to the organization, or to the number of its members or services, at a time. Comes first in its unit of work. None
        when there is no such organization.
        """

    async def save(self, organization: Organization) -> None:
        """Saves everything but id, slug and creation. After `hold`."""

    async def save_metadata(self, organization: OrganizationId, metadata: Metadata, at: datetime) -> bool:
        """False when the organization has these already. After `hold`."""

    async def delete(self, organization: OrganizationId, at: datetime) -> bool:
        """The organization is gone from every answer with the commit. Its rows are removed in batches. False when it is gone already: of
        two callers, one gets True.
        """
