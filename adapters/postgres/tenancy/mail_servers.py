"""The mail servers of organizations in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

from adapters.postgres.columns import Columns
from adapters.postgres.statements import first, first_made
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import MailServerId, OrganizationId
from core.domain.tenancy.mail_servers import MailServer
from core.frozen import Frozen
from ports.tenancy.organizations import SealedMailServer
from ports.tenancy.receivers import Owner

MAIL_SERVER: Final = Columns(MailServer, "mail_servers", named={"organization": "org_id"}, texts=("username", "from_email", "from_name"))


def _sealed(*, sealed_password: bytes, **columns: Any) -> SealedMailServer:
    return SealedMailServer(MAIL_SERVER.row(**columns), sealed_password)


class _Failing(Frozen):
    failing_since: datetime


class MailServerRows(OnStatements):
    """Implements `ports.tenancy.organizations.MailServerStore`."""

    async def find(self, organization: OrganizationId) -> SealedMailServer | None:
        return first(await self._statements.ask(_sealed, _FIND, {"organization": organization}))

    async def failed(self, server: MailServerId, at: datetime, rests_until: datetime) -> datetime | None:
        return first_made(
            await self._statements.ask(_Failing, _FAILED, {"id": server, "at": at, "rests_until": rests_until}),
            lambda row: row.failing_since,
        )

    async def save(self, server: MailServer, sealed_password: bytes) -> None:
        await self._statements.tell(_SAVE, {**MAIL_SERVER.values(server), "sealed_password": sealed_password})

    async def remove(self, organization: OrganizationId) -> MailServer | None:
        return first(await self._statements.ask(MAIL_SERVER.row, _REMOVE, {"organization": organization}))

    async def fall_back(self, server: MailServerId, failing_since: datetime, at: datetime) -> MailServer | None:
        return first(await self._statements.ask(MAIL_SERVER.row, _FALL_BACK, {"id": server, "since": failing_since, "at": at}))

    async def recover(self, server: MailServerId) -> bool:
        return bool(first(await self._statements.ask_in_order(bool, _RECOVER, {"id": server})))

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


_SAVE: Final[LiteralString] = f"""
    insert into mail_servers ({MAIL_SERVER.into("sealed_password")})
    values ({MAIL_SERVER.inserted("sealed_password")})
        on conflict (org_id) do update
       set {MAIL_SERVER.replaced("organization")}, sealed_password = excluded.sealed_password
"""

_REMOVE: Final[LiteralString] = f"delete from mail_servers where org_id = %(organization)s returning {MAIL_SERVER.names}"

_FIND: Final[LiteralString] = f"select {MAIL_SERVER.names}, sealed_password from mail_servers where org_id = %(organization)s"

_FAILED: Final = """
    update mail_servers
       set failing_since = coalesce(failing_since, %(at)s), rests_until = %(rests_until)s
     where id = %(id)s
 returning failing_since
"""

_FALL_BACK: Final[LiteralString] = f"""
    update mail_servers
       set fallen_back_at = %(at)s
     where id = %(id)s and fallen_back_at is null and failing_since <= %(since)s
 returning {MAIL_SERVER.names}
"""

# `before` reads whether the server had fallen back, because `returning` gives only the values after the update.
_RECOVER: Final = """
    with before as (select id, fallen_back_at is not null as had_fallen_back from mail_servers where id = %(id)s for no key update)
    update mail_servers
       set failing_since = null, rests_until = null, fallen_back_at = null
      from before
     where mail_servers.id = before.id and failing_since is not null
 returning before.had_fallen_back
"""
