"""The store of SIEM configurations, and the queue of the entries that they send. The unit of claim is the configuration: one batch of an
organization is on its way at a time, and organizations do not wait for each other.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from core.domain.identifiers import OrganizationId, SiemId
from core.domain.tenancy.siem import SiemConfiguration, SiemHealth, SiemProvider
from core.domain.tenancy.siem_export import Cursor, Numbered, Stream
from core.frozen import Frozen


class Stored(Frozen):
    configuration: SiemConfiguration
    sealed_credentials: bytes | None


class ShownSiem(Frozen):
    configuration: SiemConfiguration
    health: SiemHealth


class ClaimedExport(Frozen, kw_only=True):
    """A configuration under a lease. The lease ends when a member changes the configuration. `failures` counts since the last success.
    `due_at` is the time since which something could have been sent.
    """

    id: SiemId
    organization: OrganizationId
    provider: SiemProvider
    failures: int
    batch_size: int
    due_at: datetime
    lease: UUID
    cursors: Mapping[Stream, Cursor]


class ExportTarget(Frozen):
    """The target that a batch may go to at this moment, under a lease that has just begun anew."""

    endpoint_url: str
    sealed_credentials: bytes | None


class SiemStore(Protocol):
    """Outside a unit of work, `find` and `stored` are one statement and one round trip each. The other methods need a unit of
    work in which the caller has already locked the organization. Only PostgreSQL implements `SiemStore`.
    """

    async def find(self, organization: OrganizationId) -> ShownSiem | None: ...

    async def stored(self, organization: OrganizationId) -> Stored | None: ...

    async def hold(self, organization: OrganizationId) -> Stored | None:
        """Locks the configuration until the unit of work ends, so that nobody changes it meanwhile. None when the organization has no
        configuration.
        """

    async def save(self, configuration: SiemConfiguration, sealed_credentials: bytes | None) -> None:
        """Call after `hold`. A batch that is being sent at this moment does not count as received, because its sender used the previous
        configuration.
        """

    async def delete(self, configuration: SiemId) -> None:
        """Call after `hold`."""

    async def health(self, configuration: SiemId) -> SiemHealth:
        """Call after `save`."""


class SiemQueue(Protocol):
    """Each call is one statement. If a process dies, its claims are free again when their leases have run out. PostgreSQL implements it; a
    broker could.
    """

    async def number(self, most: int) -> int:
        """Gives sequence numbers to at most `most` committed sign-ins. Returns how many sign-ins waited for a number."""

    async def claim(self, limit: int, lease: timedelta, *, failing: bool) -> Sequence[ClaimedExport]:
        """Claims up to `limit` configurations that have entries to send. With `failing`, claims only configurations whose last attempt
        failed; otherwise only the others.
        """

    async def entries(self, claimed: ClaimedExport, stream: Stream, after: int, most: int, most_bytes: int) -> Sequence[Numbered]:
        """The next entries in order. The first one is returned however long it is."""

    async def hold(self, claimed: ClaimedExport, lease: timedelta) -> ExportTarget | None:
        """Checks for the last time before an attempt that the batch may be sent, and renews the lease. None when the lease is lost, when
        the configuration is disabled or deleted, or when its organization is not active.
        """

    async def received(self, claimed: ClaimedExport, stream: Stream, end: Cursor, at: datetime) -> bool:
        """Moves the cursor. False when the lease was lost."""

    async def failed(self, claimed: ClaimedExport, error: str, pause: timedelta) -> None:
        """Gives the lease back. The configuration cannot be claimed before the pause is over."""

    async def release(self, claimed: ClaimedExport) -> None:
        """Gives the lease back."""
