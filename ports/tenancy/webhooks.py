"""The store of webhooks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.branding import POSTERN, Branding
from core.domain.email import Email
from core.domain.identifiers import OrganizationId, UserId, WebhookId
from core.domain.languages import Language
from core.domain.tenancy.webhooks import Webhook
from core.frozen import Frozen


class Owner(Frozen):
    """An owner of an organization, for a mail about its settings."""

    user: UserId
    email: Email
    language: Language | None
    branding: Branding = POSTERN
    is_own: bool = False
    """Whether they belong to the organization by their own act."""


class WebhookStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. The other methods need a unit of work in
    which the caller has already locked the organization. Only PostgreSQL implements `WebhookStore`.
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
