"""The connections that may issue identity assertions, and the assertions that were used."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ServiceId, UpstreamProviderId, UserId
from core.domain.identity.upstream.identity_assertions import AssertionUse, IssuingConnection, UsedIdentityAssertion


class IssuingConnections(Protocol):
    """Each method is one statement and one round trip, outside any unit of work. Only PostgreSQL implements it."""

    async def find_by_id(self, organization: OrganizationId, connection: UpstreamProviderId) -> IssuingConnection | None:
        """The organization's connection with this id, whatever its state."""

    async def find(self, organization: OrganizationId, issuer: str) -> IssuingConnection | None:
        """The organization's connection with this issuer, whatever its state: the one that issues assertions, if there are several."""


class IdentityAssertionStore(Protocol):
    """In a unit of work that holds the account."""

    async def use(self, used: UsedIdentityAssertion, user: UserId) -> AssertionUse:
        """Remembers the assertion, if the connection issues assertions, the person is a member, and nobody has used it: of two callers, one
        gets True. Connection and membership stay as they are until the unit of work ends.
        """

    async def enter(self, user: UserId, service: ServiceId, at: datetime) -> None:
        """The person uses the service, without having told it so themselves. Needs no round trip of its own."""
