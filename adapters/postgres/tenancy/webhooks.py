"""Webhooks in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import OrganizationId, WebhookId
from core.domain.tenancy.webhooks import Webhook
from core.frozen import Frozen
from ports.tenancy.webhooks import Owner


class _Webhook(Frozen):
    id: UUID
    org_id: UUID
    name: str
    url: str
    events: list[str]
    is_active: bool
    paused_at: datetime | None
    created_at: datetime
    updated_at: datetime

    def webhook(self) -> Webhook:
        return Webhook(
            id=WebhookId(self.id),
            organization=OrganizationId(self.org_id),
            name=self.name,
            url=self.url,
            events=tuple(self.events),
            is_active=self.is_active,
            paused_at=self.paused_at,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class _Sealed(Frozen):
    sealed_secret: bytes


class WebhookRows:
    """Implements `ports.tenancy.webhooks.WebhookStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, organization: OrganizationId) -> Sequence[Webhook]:
        return [row.webhook() for row in await self._statements.ask(_Webhook, _LIST, {"organization": organization})]

    async def get(self, organization: OrganizationId, webhook: WebhookId) -> Webhook | None:
        rows = await self._statements.ask(_Webhook, _GET, {"organization": organization, "id": webhook})
        return rows[0].webhook() if rows else None

    async def count(self, organization: OrganizationId) -> int:
        (answer,) = await self._statements.ask(CountRow, _COUNT, {"organization": organization})
        return answer.count

    async def add(self, webhook: Webhook, sealed_secret: bytes) -> bool:
        parameters = {**_parameters(webhook), "sealed_secret": sealed_secret}
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def hold(self, organization: OrganizationId, webhook: WebhookId) -> Webhook | None:
        rows = await self._statements.ask(_Webhook, _HOLD, {"organization": organization, "id": webhook})
        return rows[0].webhook() if rows else None

    async def save(self, webhook: Webhook) -> bool:
        return bool(await self._statements.ask(IdRow, _SAVE, _parameters(webhook)))

    async def sealed_secret(self, webhook: WebhookId) -> bytes:
        (row,) = await self._statements.ask(_Sealed, "select sealed_secret from webhooks where id = %(id)s", {"id": webhook})
        return row.sealed_secret

    async def replace_secret(self, webhook: WebhookId, sealed: bytes, previous_sealed: bytes, previous_until: datetime) -> None:
        parameters = {"id": webhook, "sealed": sealed, "previous": previous_sealed, "until": previous_until}
        await self._statements.tell(_ROTATE, parameters)

    async def delete(self, webhook: WebhookId) -> None:
        await self._statements.tell("delete from webhooks where id = %(id)s", {"id": webhook})

    async def pause(self, webhook: WebhookId, failing_since: datetime, at: datetime) -> Webhook | None:
        rows = await self._statements.ask(_Webhook, _PAUSE, {"id": webhook, "since": failing_since, "at": at})
        return rows[0].webhook() if rows else None

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


def _parameters(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "organization": webhook.organization,
        "name": storable_text(webhook.name),
        "url": webhook.url,
        "events": list(webhook.events),
        "is_active": webhook.is_active,
        "paused_at": webhook.paused_at,
        "created_at": webhook.created_at,
        "updated_at": webhook.updated_at,
    }


_COLUMNS: Final = "id, org_id, name, url, events, is_active, paused_at, created_at, updated_at"

_COUNT: Final = "select count(*) as count from webhooks where org_id = %(organization)s"

_ADD: Final = """
    insert into webhooks (id, org_id, name, url, events, is_active, sealed_secret, created_at, updated_at)
    values (%(id)s, %(organization)s, %(name)s, %(url)s, %(events)s::text[], %(is_active)s, %(sealed_secret)s, %(created_at)s,
            %(updated_at)s)
        on conflict (org_id, name) do nothing
 returning id
"""

_GET: Final[LiteralString] = f"select {_COLUMNS} from webhooks where id = %(id)s and org_id = %(organization)s"

_HOLD: Final[LiteralString] = f"{_GET} for no key update"

_LIST: Final[LiteralString] = f"select {_COLUMNS} from webhooks where org_id = %(organization)s order by created_at, id"

# The caller holds the organization's row, so nobody else takes the name meanwhile.
_SAVE: Final = """
    update webhooks
       set name = %(name)s, url = %(url)s, events = %(events)s::text[], is_active = %(is_active)s, paused_at = %(paused_at)s,
           failing_since = case when url = %(url)s and is_active = %(is_active)s then failing_since end,
           rests_until = case when url = %(url)s then rests_until end,
           updated_at = %(updated_at)s
     where id = %(id)s
       and not exists (
               select from webhooks as others where others.org_id = %(organization)s and others.name = %(name)s and others.id <> %(id)s
           )
 returning id
"""

_ROTATE: Final = """
    update webhooks
       set sealed_secret = %(sealed)s, previous_sealed_secret = %(previous)s, previous_until = %(until)s, updated_at = now()
     where id = %(id)s
"""

_PAUSE: Final[LiteralString] = f"""
    update webhooks
       set is_active = false, paused_at = %(at)s, updated_at = %(at)s
     where id = %(id)s and is_active and failing_since <= %(since)s
 returning {_COLUMNS}
"""
