"""The store of outbound SCIM connections: the drafts of members, and what owners have activated."""

from collections.abc import Collection, Sequence
from typing import Protocol

from core.domain.federation.provisioning.connections import ProvisioningConnection
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, ServiceId, TeamId
from core.frozen import Frozen


class ServiceProvisioning(Frozen):
    """A service of the organization, and its connection outwards, if it has one."""

    service: ServiceId
    connection: ProvisioningConnection | None
    active_there: int
    """People who are active there, as far as we know."""


class ProvisioningConnectionStore(Protocol):
    """Outside a unit of work, `find` may be called, as one statement and one round trip. The other methods need a unit of work whose caller
    holds the service.
    """

    async def find(self, organization: OrganizationId, service_slug: str) -> ServiceProvisioning | None:
        """None when the organization has no such service."""

    async def hold(self, service: ServiceId) -> ProvisioningConnection | None:
        """It stays as it is until the unit of work ends. A run that is under way waits with its next write."""

    async def add(self, connection: ProvisioningConnection, sealed_token: bytes | None) -> None: ...

    async def save(self, connection: ProvisioningConnection, *, keeps_token: bool, sealed_token: bytes | None) -> None:
        """With `keeps_token`, the token of before stays, and `sealed_token` says nothing. Whoever works for the connection loses it, and
        one that is active is looked at as a whole, at once.
        """

    async def forget_people(self, connection: ProvisioningConnectionId) -> None:
        """Ids of one system mean other people in another one, so nothing of them may be written there."""

    async def delete(self, connection: ProvisioningConnectionId) -> None:
        """With runs, marks, and what is known of people there."""

    async def teams(self, organization: OrganizationId, teams: Collection[TeamId]) -> Collection[TeamId]:
        """Those that the organization has."""

    async def directories(self, organization: OrganizationId) -> Sequence[str]:
        """The addresses of its directories by LDAP, as they were typed."""

    async def takes_from(self, digest: bytes) -> OrganizationId | None:
        """The organization whose directory has a token of this digest here."""
