"""Webhooks in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.columns import Columns
from adapters.postgres.rows import CountRow, IdRow
from adapters.postgres.statements import first, only
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import OrganizationId, WebhookId
from core.domain.tenancy.webhooks import Webhook
from ports.tenancy.receivers import Owner

WEBHOOK: Final = Columns(Webhook, "webhooks", named={"organization": "org_id"}, texts=("name",))


class WebhookRows(OnStatements):
    """Implements `ports.tenancy.receivers.WebhookStore`."""

    async def list(self, organization: OrganizationId) -> Sequence[Webhook]:
        return await self._statements.ask(WEBHOOK.row, _LIST, {"organization": organization})

    async def find(self, organization: OrganizationId, webhook: WebhookId) -> Webhook | None:
        return first(await self._statements.ask(WEBHOOK.row, _GET, {"organization": organization, "id": webhook}))

    async def count(self, organization: OrganizationId) -> int:
        return only(await self._statements.ask(CountRow, _COUNT, {"organization": organization})).count

    async def add(self, webhook: Webhook, sealed_secret: bytes) -> bool:
        parameters = {**WEBHOOK.values(webhook), "sealed_secret": sealed_secret}
        return bool(await self._statements.ask(IdRow, _ADD, parameters))

    async def hold(self, organization: OrganizationId, webhook: WebhookId) -> Webhook | None:
        return first(await self._statements.ask(WEBHOOK.row, _HOLD, {"organization": organization, "id": webhook}))

    async def save(self, webhook: Webhook) -> bool:
        return bool(await self._statements.ask(IdRow, _SAVE, WEBHOOK.values(webhook)))

    async def sealed_secret(self, webhook: WebhookId) -> bytes:
        return only(await self._statements.ask_in_order(bytes, "select sealed_secret from webhooks where id = %(id)s", {"id": webhook}))

    async def replace_secret(self, webhook: WebhookId, sealed: bytes, previous_sealed: bytes, previous_until: datetime) -> None:
        parameters = {"id": webhook, "sealed": sealed, "previous": previous_sealed, "until": previous_until}
        await self._statements.tell(_ROTATE, parameters)

    async def delete(self, webhook: WebhookId) -> None:
        await self._statements.tell("delete from webhooks where id = %(id)s", {"id": webhook})

    async def pause(self, webhook: WebhookId, failing_since: datetime, at: datetime) -> Webhook | None:
        return first(await self._statements.ask(WEBHOOK.row, _PAUSE, {"id": webhook, "since": failing_since, "at": at}))

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


_COUNT: Final = "select count(*) as count from webhooks where org_id = %(organization)s"

_ADD: Final[LiteralString] = f"""
    insert into webhooks ({WEBHOOK.into("sealed_secret")}) values ({WEBHOOK.inserted("sealed_secret")})
        on conflict (org_id, name) do nothing
 returning id
"""

_GET: Final[LiteralString] = f"select {WEBHOOK.names} from webhooks where id = %(id)s and org_id = %(organization)s"

_HOLD: Final[LiteralString] = f"{_GET} for no key update"

_LIST: Final[LiteralString] = f"select {WEBHOOK.names} from webhooks where org_id = %(organization)s order by created_at, id"

# The caller holds the organization's row, so nobody else takes the name meanwhile.
_SAVE: Final[LiteralString] = f"""
    update webhooks
       set {WEBHOOK.changes("id", "organization", "created_at", "failing_since")},
           failing_since = case when url = %(url)s and is_active = %(is_active)s then failing_since end,
           rests_until = case when url = %(url)s then rests_until end
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
 returning {WEBHOOK.names}
"""
