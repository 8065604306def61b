"""The mail servers of organizations in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable_text
from adapters.postgres.tenancy.owners import owners
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import MailServerId, OrganizationId
from core.domain.tenancy.mail_servers import MailServer
from core.frozen import Frozen
from ports.tenancy.mail_servers import SealedMailServer
from ports.tenancy.webhooks import Owner


class _MailServer(Frozen, kw_only=True):
    id: UUID
    org_id: UUID
    host: str
    port: int
    username: str
    from_email: str
    from_name: str | None
    failing_since: datetime | None
    rests_until: datetime | None
    fallen_back_at: datetime | None
    created_at: datetime
    updated_at: datetime

    def server(self) -> MailServer:
        return MailServer(
            id=MailServerId(self.id),
            organization=OrganizationId(self.org_id),
            host=self.host,
            port=self.port,
            username=self.username,
            from_email=self.from_email,
            from_name=self.from_name,
            failing_since=self.failing_since,
            rests_until=self.rests_until,
            fallen_back_at=self.fallen_back_at,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class _Sealed(_MailServer, kw_only=True):
    sealed_password: bytes


class _Failing(Frozen):
    failing_since: datetime


class _Recovered(Frozen):
    had_fallen_back: bool


class MailServerRows:
    """Implements `ports.tenancy.mail_servers.MailServerStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def find(self, organization: OrganizationId) -> SealedMailServer | None:
        rows = await self._statements.ask(_Sealed, _FIND, {"organization": organization})
        return SealedMailServer(rows[0].server(), rows[0].sealed_password) if rows else None

    async def failed(self, server: MailServerId, at: datetime, rests_until: datetime) -> datetime | None:
        rows = await self._statements.ask(_Failing, _FAILED, {"id": server, "at": at, "rests_until": rests_until})
        return rows[0].failing_since if rows else None

    async def save(self, server: MailServer, sealed_password: bytes) -> None:
        await self._statements.tell(
            _SAVE,
            {
                "id": server.id,
                "organization": server.organization,
                "host": server.host,
                "port": server.port,
                "username": storable_text(server.username),
                "sealed_password": sealed_password,
                "from_email": storable_text(server.from_email),
                "from_name": None if server.from_name is None else storable_text(server.from_name),
                "created_at": server.created_at,
                "updated_at": server.updated_at,
            },
        )

    async def remove(self, organization: OrganizationId) -> MailServer | None:
        rows = await self._statements.ask(_MailServer, _REMOVE, {"organization": organization})
        return rows[0].server() if rows else None

    async def fall_back(self, server: MailServerId, failing_since: datetime, at: datetime) -> MailServer | None:
        rows = await self._statements.ask(_MailServer, _FALL_BACK, {"id": server, "since": failing_since, "at": at})
        return rows[0].server() if rows else None

    async def recover(self, server: MailServerId) -> bool:
        rows = await self._statements.ask(_Recovered, _RECOVER, {"id": server})
        return bool(rows) and rows[0].had_fallen_back

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]:
        return await owners(self._statements, organization)


_COLUMNS: Final = (
    "id, org_id, host, port, username, from_email, from_name, failing_since, rests_until, fallen_back_at, created_at, updated_at"
)

_SAVE: Final = """
    insert into mail_servers (id, org_id, host, port, username, sealed_password, from_email, from_name, created_at, updated_at)
    values (%(id)s, %(organization)s, %(host)s, %(port)s, %(username)s, %(sealed_password)s, %(from_email)s, %(from_name)s,
            %(created_at)s, %(updated_at)s)
        on conflict (org_id) do update
       set id = excluded.id, host = excluded.host, port = excluded.port, username = excluded.username,
           sealed_password = excluded.sealed_password, from_email = excluded.from_email, from_name = excluded.from_name,
           failing_since = null, rests_until = null, fallen_back_at = null,
           created_at = excluded.created_at, updated_at = excluded.updated_at
"""

_REMOVE: Final[LiteralString] = f"delete from mail_servers where org_id = %(organization)s returning {_COLUMNS}"

_FIND: Final[LiteralString] = f"select {_COLUMNS}, sealed_password from mail_servers where org_id = %(organization)s"

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
 returning {_COLUMNS}
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
