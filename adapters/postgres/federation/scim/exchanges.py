"""The last exchanges with directories, in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, tell
from adapters.postgres.storable import storable
from core.domain.federation.scim.exchanges import MOST_KEPT, ScimExchange
from core.domain.identifiers import OrganizationId, ScimExchangeId, ScimTokenId
from core.frozen import Frozen

_AT_ONCE: Final = 100


class _Exchange(Frozen):
    id: UUID
    org_id: UUID
    token_id: UUID
    token_name: str
    method: str
    path: str
    query: str | None
    request: Any
    status: int
    scim_type: str | None
    reason: str | None
    occurred_at: datetime

    def exchange(self) -> ScimExchange:
        return ScimExchange(
            id=ScimExchangeId(self.id),
            organization=OrganizationId(self.org_id),
            token=ScimTokenId(self.token_id),
            token_name=self.token_name,
            method=self.method,
            path=self.path,
            query=self.query,
            request=self.request,
            status=self.status,
            scim_type=self.scim_type,
            reason=self.reason,
            occurred_at=self.occurred_at,
        )


class PostgresScimExchanges:
    """Implements `ports.federation.scim.exchanges.ScimExchangeStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, exchanges: Sequence[ScimExchange]) -> None:
        for begin in range(0, len(exchanges), _AT_ONCE):
            part = exchanges[begin : begin + _AT_ONCE]
            await tell(self._pool, _ADD, {"exchanges": Jsonb([_told(one) for one in part])})
        for organization in dict.fromkeys(one.organization for one in exchanges):
            await tell(self._pool, _TRIM, {"organization": organization, "most": MOST_KEPT})

    async def list(self, organization: OrganizationId, limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        rows = await ask(self._pool, _Exchange, _LIST, {"organization": organization, "limit": limit, "refused": refused})
        return [row.exchange() for row in rows]


def _told(one: ScimExchange) -> Any:
    return storable(
        {
            "id": str(one.id),
            "org_id": str(one.organization),
            "token_id": str(one.token),
            "token_name": one.token_name,
            "method": one.method,
            "path": one.path,
            "query": one.query,
            "request": one.request,
            "status": one.status,
            "scim_type": one.scim_type,
            "reason": one.reason,
            "occurred_at": one.occurred_at.isoformat(),
        }
    )


_COLUMNS: Final = "id, org_id, token_id, token_name, method, path, query, request, status, scim_type, reason, occurred_at"

# A deleted organization gets no exchanges.
_ADD: Final[LiteralString] = f"""
    insert into scim_exchanges ({_COLUMNS})
    select told.id, told.org_id, told.token_id, told.token_name, told.method, told.path, told.query, nullif(told.request, 'null'),
           told.status, told.scim_type, told.reason, told.occurred_at
      from jsonb_to_recordset(%(exchanges)s)
        as told (id uuid, org_id uuid, token_id uuid, token_name text, method text, path text, query text, request jsonb, status smallint,
                 scim_type text, reason text, occurred_at timestamptz)
      join organizations on organizations.id = told.org_id
        on conflict do nothing
"""

# The statement skips rows that another process removes at this moment.
_TRIM: Final = """
    delete from scim_exchanges
     where id = any (array(
               select id
                 from scim_exchanges
                where org_id = %(organization)s
                order by id desc
               offset %(most)s
                  for update skip locked
           ))
"""

_LIST: Final[LiteralString] = f"""
    select {_COLUMNS}
      from scim_exchanges
     where org_id = %(organization)s and (not %(refused)s or status >= 400)
     order by id desc
     limit %(limit)s
"""
