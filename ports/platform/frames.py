"""The look-up of what frames of pages say."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, UserId
from core.domain.platform.frames import FrameFacts


class FrameLookup(Protocol):
    """Each look-up takes one round trip, and its cost is bounded. Without a person, there are no places."""

    async def get_in_organization(self, person: UserId | None, organization: OrganizationId, now: datetime) -> FrameFacts: ...

    async def get_in_installation(self, person: UserId | None) -> FrameFacts: ...

    async def get_places(self, person: UserId | None) -> FrameFacts:
        """For whoever may not decide about todos."""
