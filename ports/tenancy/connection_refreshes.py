"""The store of what Postern does with connections by itself: it reads their metadata again, and warns of ends."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.identity.upstream.refreshes import ConnectionEnding, RefreshFault
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.frozen import Frozen
from ports.tenancy.webhooks import Owner


class DueConnection(Frozen):
    provider: UpstreamProvider
    organization_slug: str
    is_active_organization: bool


class ConnectionsEnding(Frozen):
    """Connections of active organizations with which somebody has to do something."""

    ending: int
    """Their last certificate, or ours, ends within thirty days."""
    urgent: int
    """The same, within seven days."""
    waiting: int
    """A certificate waits for an owner."""
    failing: int
    """Their metadata could not be read for days."""


class ConnectionRefreshStore(Protocol):
    """Outside a unit of work, `claim_due` and `counted` are one statement and one round trip each. The other methods need a unit of
    work.
    """

    async def claim_due(self, at: datetime, until: datetime, limit: int) -> Sequence[DueConnection]:
        """Connections whose turn it is, the longest overdue first. No other process gets them before `until`."""

    async def counted(self, now: datetime, soon: datetime, failing_before: datetime, *, urgent: datetime) -> ConnectionsEnding: ...

    async def hold(self, provider: UpstreamProviderId) -> UpstreamProvider | None:
        """The provider stays as it is until the unit of work ends. None when it is gone."""

    async def read(self, provider: UpstreamProvider, at: datetime, next_turn: datetime) -> None:
        """After `hold`. Stores the certificates, and that the metadata were read."""

    async def decided(self, provider: UpstreamProvider) -> None:
        """After `hold`. Stores the certificates after an owner's decision."""

    async def failed(self, provider: UpstreamProviderId, fault: RefreshFault, at: datetime, next_turn: datetime) -> None: ...

    async def put_off(self, provider: UpstreamProviderId, next_turn: datetime) -> None: ...

    async def dated(self, provider: UpstreamProviderId, certificate: str, until: datetime) -> None:
        """Notes when our certificate ends, unless another one is in its place by now."""

    async def warned(self, provider: UpstreamProviderId, ending: ConnectionEnding, ends_at: datetime, days: int) -> bool:
        """Of several callers, one gets True for each end and number of days. A smaller number includes the larger."""

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...
