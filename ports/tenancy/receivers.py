"""Stores of what an organization sends to external receivers: webhooks and their deliveries, SIEM exports, and mails to its owners."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from core.domain.branding import POSTERN, Branding
from core.domain.identifiers import OrganizationId, SiemId, UserId, WebhookDeliveryId, WebhookId
from core.domain.languages import Language
from core.domain.mail import Email
from core.domain.requests import Listed, Page
from core.domain.tenancy.siem import Cursor, Numbered, SiemConfiguration, SiemHealth, SiemProvider, Stream
from core.domain.tenancy.webhooks import Delivery, Replayed, Webhook
from core.frozen import Frozen
from ports.record import ClaimedReceiver


class Owner(Frozen):
    """An owner of an organization, for a mail about its settings."""

    user: UserId
    email: Email
    language: Language | None
    branding: Branding = POSTERN
    is_own: bool = False
    """Whether they belong to the organization by their own act."""


class WebhookStore(Protocol):
    """Stores webhooks.

    Outside a unit of work, `list` and `find` are one statement and one round trip each. The other methods need a unit of work in which the
    caller has already locked the organization. Only PostgreSQL implements `WebhookStore`.
    """

    async def list(self, organization: OrganizationId) -> Sequence[Webhook]:
        """All webhooks of the organization, oldest first."""

    async def find(self, organization: OrganizationId, webhook: WebhookId) -> Webhook | None: ...

    async def count(self, organization: OrganizationId) -> int: ...

    async def add(self, webhook: Webhook, sealed_secret: bytes) -> bool:
        """False when the organization has a webhook of this name."""

    async def hold(self, organization: OrganizationId, webhook: WebhookId) -> Webhook | None:
        """The webhook stays as it is until the unit of work ends. None when the organization has no such webhook."""

    async def save(self, webhook: Webhook) -> bool:
        """After `hold`. An active webhook begins anew, without failures. False when another webhook of the organization has this name."""

    async def sealed_secret(self, webhook: WebhookId) -> bytes:
        """After `hold`."""

    async def replace_secret(self, webhook: WebhookId, sealed: bytes, previous_sealed: bytes, previous_until: datetime) -> None:
        """After `hold`."""

    async def delete(self, webhook: WebhookId) -> None:
        """Deletes the webhook with all its deliveries. After `hold`."""

    async def pause(self, webhook: WebhookId, failing_since: datetime, at: datetime) -> Webhook | None:
        """Disables an active webhook that has failed since this moment or earlier. None for any other webhook: of two callers, one gets
        None.
        """

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class WantedDeliveries(Frozen):
    """The deliveries to list. None means all."""

    event_type: str | None = None
    delivered: bool | None = None


class ClaimedWebhook(ClaimedReceiver, kw_only=True):
    sealed_secret: bytes
    previous_sealed_secret: bytes | None


class WebhookDeliveryStore(Protocol):
    """Stores deliveries to webhooks.

    Outside a unit of work, `list` is two statements. The other methods need a unit of work in which the caller has already locked the
    webhook. Only PostgreSQL implements `WebhookDeliveryStore`.
    """

    async def list(self, organization: OrganizationId, webhook: WebhookId, wanted: WantedDeliveries, page: Page) -> Listed[Delivery] | None:
        """Newest event first. The total is counted up to `MOST_COUNTED`. None when the organization has no such webhook."""

    async def newest_test(self, webhook: WebhookId) -> Delivery:
        """Called after the test event was recorded in this unit of work."""

    async def redeliver(self, webhook: WebhookId, delivery: WebhookDeliveryId) -> Delivery | None:
        """The delivery is due now, with all its attempts before it. None when the webhook has no such delivery."""

    async def replay(self, webhook: WebhookId, since: datetime, until: datetime, event_type: str | None, limit: int) -> Replayed:
        """Delivers again the events of the organization that the webhook subscribes to, in this span of time, oldest first."""

    async def ring(self) -> None:
        """Wakes the dispatchers once the unit of work is committed."""


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
    """Stores SIEM configurations.

    Outside a unit of work, `find` and `stored` are one statement and one round trip each. The other methods need a unit of work in which
    the caller has already locked the organization. Only PostgreSQL implements `SiemStore`.
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
    """Queues the entries that SIEM configurations send. The unit of claim is the configuration: one batch of an organization is on its way
    at a time, and organizations do not wait for each other.

    Each call is one statement. If a process dies, its claims are free again when their leases have run out. PostgreSQL implements it; a
    broker could.
    """

    async def number(self, most: int) -> int | None:
        """Gives sequence numbers to at most `most` committed sign-ins. Returns how many sign-ins waited for a number, and None when another
        process is numbering.
        """

    async def due_in(self) -> float | None:
        """The seconds until a configuration can be claimed whose last attempt failed, or whose lease runs. None when there is none: the
        doorbell tells of the others.
        """

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
