"""Client secrets in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.rows import CountRow
from adapters.postgres.statements import Statements
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import Transaction
from core.domain.identifiers import ClientSecretId, ManagementKeyId, OrganizationId, ServiceId, UserId
from core.domain.services.client_secrets import ClientSecret, PlacedSecret
from core.frozen import Frozen


class _Secret(Frozen):
    """For a service without secrets, the list has one row of nulls."""

    id: UUID | None
    service_id: UUID
    prefix: str | None
    created_by: UUID | None
    created_at: datetime | None
    made_by_key: UUID | None

    def secret(self) -> ClientSecret | None:
        if self.id is None or self.prefix is None or self.created_at is None:
            return None
        created_by = None if self.created_by is None else UserId(self.created_by)
        made_by_key = None if self.made_by_key is None else ManagementKeyId(self.made_by_key)
        return ClientSecret(ClientSecretId(self.id), ServiceId(self.service_id), self.prefix, created_by, self.created_at, made_by_key)


class _PlacedSecret(Frozen):
    id: UUID
    service_id: UUID
    prefix: str
    created_by: UUID | None
    created_at: datetime
    made_by_key: UUID
    service_slug: str
    organization_id: UUID

    def placed(self) -> PlacedSecret:
        created_by = None if self.created_by is None else UserId(self.created_by)
        secret = ClientSecret(
            ClientSecretId(self.id),
            ServiceId(self.service_id),
            self.prefix,
            created_by,
            self.created_at,
            ManagementKeyId(self.made_by_key),
        )
        return PlacedSecret(secret, self.service_slug, OrganizationId(self.organization_id))


class ClientSecretRows:
    """Implements `ports.services.client_secrets.ClientSecretStore`."""

    def __init__(self, statements: Statements | Transaction) -> None:
        self._statements = statements

    async def list(self, organization: OrganizationId, service_slug: str) -> Sequence[ClientSecret] | None:
        rows = await self._statements.ask(_Secret, _LIST, {"organization": organization, "slug": storable_text(service_slug)})
        if not rows:
            return None
        return [secret for row in rows if (secret := row.secret()) is not None]

    async def count(self, service: ServiceId) -> int:
        (answer,) = await self._statements.ask(CountRow, _COUNT, {"service": service})
        return answer.count

    async def add(self, secret: ClientSecret, digest: bytes) -> None:
        await self._statements.tell(
            _ADD,
            {
                "id": secret.id,
                "service": secret.service,
                "prefix": secret.prefix,
                "digest": digest,
                "created_by": secret.created_by,
                "created_at": secret.created_at,
                "made_by_key": secret.made_by_key,
            },
        )

    async def delete(self, service: ServiceId, secret: ClientSecretId) -> ClientSecret | None:
        rows = await self._statements.ask(_Secret, _DELETE, {"service": service, "id": secret})
        return rows[0].secret() if rows else None

    async def delete_made(self, key: ManagementKeyId) -> Sequence[PlacedSecret]:
        await self._statements.tell(_HOLD_MADE, {"key": key})
        return [row.placed() for row in await self._statements.ask(_PlacedSecret, _DELETE_MADE, {"key": key})]


_COLUMNS: Final = """client_secrets.id, client_secrets.prefix, client_secrets.created_by, client_secrets.created_at,
           client_secrets.made_by_key"""

_COUNT: Final = "select count(*) as count from client_secrets where service_id = %(service)s"

_ADD: Final = """
    insert into client_secrets (id, service_id, prefix, digest, created_by, created_at, made_by_key)
    values (%(id)s, %(service)s, %(prefix)s, %(digest)s, %(created_by)s, %(created_at)s, %(made_by_key)s)
"""

_DELETE: Final[LiteralString] = f"""
    delete from client_secrets
     where id = %(id)s and service_id = %(service)s
 returning client_secrets.service_id, {_COLUMNS}
"""

# Deleting a secret changes its service. Two transactions that take the services in one order cannot deadlock.
_HOLD_MADE: Final = """
    select
      from all_services
     where id in (select service_id from client_secrets where made_by_key = %(key)s)
     order by id
       for no key update
"""

_DELETE_MADE: Final[LiteralString] = f"""
    delete from client_secrets
     using services
     where services.id = client_secrets.service_id and client_secrets.made_by_key = %(key)s
 returning client_secrets.service_id, {_COLUMNS}, services.slug as service_slug, services.org_id as organization_id
"""

_LIST: Final[LiteralString] = f"""
    select services.id as service_id, {_COLUMNS}
      from services
      left join client_secrets on client_secrets.service_id = services.id
     where services.org_id = %(organization)s and services.slug = %(slug)s
     order by client_secrets.created_at, client_secrets.id
"""
