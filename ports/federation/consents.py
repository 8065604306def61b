"""The store of consents."""

from collections.abc import Sequence
from typing import Protocol

from core.domain.federation.oauth.agents import AgentGrant, AgentReach
from core.domain.federation.oauth.consents import ApplicationAccess, Consent, ConsentedService
from core.domain.identifiers import AgentGrantId, ConsentId, OrganizationId, ResourceServerId, ServiceId, UserId


class ConsentStore(Protocol):
    """Outside a unit of work, `list`, `list_grants` and `find_grant` are one statement and one round trip each. The other methods need a
    unit of work in which the caller has already locked the account, so that nobody withdraws a consent of the person meanwhile. Only
    PostgreSQL implements `ConsentStore`.
    """

    async def list(self, user: UserId) -> Sequence[ApplicationAccess]:
        """The applications that can act for this person, by the names of their organizations and their own."""

    async def list_grants(
        self, organization: OrganizationId, reach: AgentReach, before: AgentGrantId | None, limit: int
    ) -> Sequence[AgentGrant]:
        """What people let the organization's agents do at this moment, the newest first, from before this one on."""

    async def find_grant(self, organization: OrganizationId, grant: AgentGrantId) -> AgentGrant | None: ...

    async def give(self, id: ConsentId, consent: Consent) -> ConsentedService | None:  # noqa: A002 - the noun's own word
        """Adds scopes to what the person has allowed the service before. Returns the service; None when the service is
        being deleted. Nothing is kept when the account has ended.
        """

    async def revoke(self, user: UserId, service: ServiceId) -> ApplicationAccess | None:
        """Withdraws the consent, and ends the service's sessions for this person and the codes that the service has not redeemed. Returns
        the access that there was; None when there was none.
        """

    async def revoke_resource(self, user: UserId, service: ServiceId, resource: ResourceServerId) -> ApplicationAccess | None:
        """Withdraws what the person has allowed at one API, and ends the sessions and codes that were granted it. Returns the access that
        there was; None when there was none at all.
        """

    async def revoke_all(self, user: UserId) -> None:
        """Withdraws all consents of the person, and ends the sessions that rest on them. The caller has ended the codes."""

    async def remove_all(self, user: UserId) -> None:
        """For an account that goes to somebody else. The caller ends its sessions."""
