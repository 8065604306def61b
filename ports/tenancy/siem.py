"""Where SIEM configurations are kept, and the entries that are sent by them. The unit of claim is the configuration: one batch of an
organization is on its way at a time, and those of others wait for none of it.
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
    """Under a lease, which ends when a member changes the configuration. `failures` since the last success. `due_at`: since
    when something of it might have been sent.
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
    """Where a batch may go at this moment, under a lease that has just begun anew."""

    endpoint_url: str
    sealed_credentials: bytes | None


class SiemStore(Protocol):
    """Outside a unit of work, `get` and `stored` are one statement and one round trip each. The other methods need a unit of work. The
    organization is held first. Only PostgreSQL implements it.
    """

    async def get(self, organization: OrganizationId) -> ShownSiem | None: ...

    async def stored(self, organization: OrganizationId) -> Stored | None: ...

    async def hold(self, organization: OrganizationId) -> Stored | None:
        """It stays as it is until the unit of work ends. None when the organization has none."""

    async def save(self, configuration: SiemConfiguration, sealed_credentials: bytes | None) -> None:
        """After `hold`. Whatever is on its way does not count as received: it went by the configuration before."""

    async def delete(self, configuration: SiemId) -> None:
        """After `hold`."""

    async def health(self, configuration: SiemId) -> SiemHealth:
        """After `save`."""


class SiemQueue(Protocol):
    """Each call is one statement. What a process had claimed when it died is free again when its lease has run out."""

    async def number(self, most: int) -> int:
        """Gives sign-ins that are committed their numbers, at most this many. Returns how many waited."""

    async def claim(self, limit: int, lease: timedelta, *, failing: bool) -> Sequence[ClaimedExport]:
        """Up to `limit` configurations with something to send, of those whose last attempt failed or of all others."""

    async def entries(self, claimed: ClaimedExport, stream: Stream, after: int, most: int, most_bytes: int) -> Sequence[Numbered]:
        """The next ones in order. The first is there however much it weighs."""

    async def hold(self, claimed: ClaimedExport, lease: timedelta) -> ExportTarget | None:
        """To be asked last before an attempt. None when the lease is lost, or nothing may leave: the configuration is disabled or
        deleted, or its organization is not active.
        """

    async def received(self, claimed: ClaimedExport, stream: Stream, end: Cursor, at: datetime) -> bool:
        """Moves the cursor. False when the lease was lost."""

    async def failed(self, claimed: ClaimedExport, error: str, pause: timedelta) -> None:
        """Nothing of it is claimed before the pause is over. Gives the lease back."""

    async def release(self, claimed: ClaimedExport) -> None:
        """Gives the lease back."""
