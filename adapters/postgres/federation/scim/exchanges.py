"""The last exchanges with directories, in PostgreSQL."""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, tell
from adapters.postgres.storable import storable
from core.domain.federation.scim.tokens import MOST_KEPT, ScimExchange
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId

_AT_ONCE: Final = 100


def _as_it_is(request: Json) -> Json:
    return request


# They are written as JSON, many at once.
EXCHANGE: Final = Columns(
    ScimExchange,
    "scim_exchanges",
    named={"organization": "org_id", "token": "token_id"},
    turned={"request": (_as_it_is, _as_it_is)},
)


class PostgresScimExchanges:
    """Implements `ports.federation.scim.ScimExchangeStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, exchanges: Sequence[ScimExchange]) -> None:
        for begin in range(0, len(exchanges), _AT_ONCE):
            part = exchanges[begin : begin + _AT_ONCE]
            await tell(self._pool, _ADD, {"exchanges": Jsonb([_as_json(one) for one in part])})
        for organization in dict.fromkeys(one.organization for one in exchanges):
            await tell(self._pool, _TRIM, {"organization": organization, "most": MOST_KEPT})

    async def list(self, organization: OrganizationId, limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        return await ask(self._pool, EXCHANGE.row, _LIST, {"organization": organization, "limit": limit, "refused": refused})


def _as_json(one: ScimExchange) -> Any:
    return storable({EXCHANGE.columns[name]: value for name, value in msgspec.to_builtins(one).items()})


# A deleted organization gets no exchanges.
_ADD: Final[LiteralString] = f"""
    insert into scim_exchanges ({EXCHANGE.into()})
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
    select {EXCHANGE.names}
      from scim_exchanges
     where org_id = %(organization)s and (not %(refused)s or status >= 400)
     order by id desc
     limit %(limit)s
"""
