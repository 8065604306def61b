"""The store of resource servers."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, ResourceServerId
from core.domain.services.resource_servers import (
    NamedServices,
    ResourceApproval,
    ResourceHost,
    ResourceServer,
)
from core.frozen import Frozen
from ports.tenancy.domains import ProofStore


class ExistingResourceServers(Frozen):
    """What a new resource server meets in its organization."""

    count: int
    has_identifier: bool
    token: str | None
    """The text by which the organization proves the host already, or would: one proof is enough."""
    is_proved: bool


class Given(Frozen):
    """`is_new`: no tokens were made for the resource server before."""

    server: ResourceServer
    is_new: bool


class ResourceServerStore(ProofStore[ResourceHost], Protocol):
    """Outside a unit of work, `list`, `find_own`, `approvals` and `claim_due` are one statement and one round trip
    each. The other methods need a unit of work; when a member acts, the caller has already locked the organization. Only PostgreSQL
    implements `ResourceServerStore`.

    `verify` of the proofs is not called: `prove` does more.
    """

    async def list(self, organization: OrganizationId) -> Sequence[ResourceServer]:
        """Oldest first."""

    async def find_own(self, organization: OrganizationId, server: ResourceServerId) -> ResourceServer | None: ...

    async def existing(self, organization: OrganizationId, identifier: str, host: str) -> ExistingResourceServers: ...

    async def services(self, organization: OrganizationId, slugs: Collection[str], stands: str | None) -> NamedServices:
        """Those of the services that exist, and the permissions of the one that stands for the API. They stay until the unit of work
        ends.
        """

    async def add(self, server: ResourceServer) -> bool:
        """False when the organization has the identifier: of two callers, one gets False. Named services are those in `save`."""

    async def save(self, server: ResourceServer) -> None:
        """Saves everything that an organization sets, with the services that it names."""

    async def remove(self, server: ResourceServerId) -> None:
        """Its identifier stays the organization's, so that no other organization ever gets it."""

    async def prove(self, server: ResourceServer, at: datetime, next_check_at: datetime) -> Given | None:
        """The organization has proved the host, so tokens are made for the identifier from now on; after another organization had it by an
        approval, from `SETTLES_AFTER` on. None when another organization has proved the host or has had the identifier by a proof, or when
        the resource server is gone. Of two organizations that prove a host, one gets it. Called after `claim`.
        """

    async def claim(self, server: ResourceServer) -> Sequence[ResourceServer]:
        """Nobody else proves or approves anything until the unit of work ends. Ends the approvals that other organizations have on the
        host, and returns their resource servers.
        """

    async def ask_approval(self, server: ResourceServerId, at: datetime) -> bool:
        """False when the resource server does not wait, or has asked already."""

    async def approvals(self, most: int) -> Sequence[ResourceApproval]:
        """Those that asked for an approval, longest first, of active organizations; then all that have one, the newest first."""

    async def find(self, server: ResourceServerId) -> ResourceServer | None:
        """Of any organization that is not being deleted. Nobody else proves or approves anything until the unit of work ends."""

    async def approve(self, server: ResourceServer, at: datetime) -> Given | None:
        """None when another organization has proved the host, or has had the identifier, or when the resource server does not wait.
        Called after `find`.
        """

    async def withdraw_approval(self, server: ResourceServerId, at: datetime) -> bool:
        """False when it has no approval."""
