"""What a change of the limits of sessions would reach."""

from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, SessionId
from core.domain.identity.session_limits.reach import SessionLimits, SessionReach


class SessionReachLookup(Protocol):
    async def reach(
        self,
        organization: OrganizationId,
        service: ServiceId | None,
        before: SessionLimits,
        after: SessionLimits,
        *,
        asker: SessionId | None,
    ) -> SessionReach:
        """One round trip. With a service, its sessions alone; otherwise those in the organization and its services, and the sign-ins of
        people who belong to it by their own act. `asker` is the session of the person who asks. At most `MOST_COUNTED` sessions are read.
        """
