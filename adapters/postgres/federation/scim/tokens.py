"""SCIM tokens, by which directories come, and the last exchanges with them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, storable
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import Transaction, ask, first, tell
from adapters.postgres.tenancy.management_keys import KeyLookups, KeyTable, added, adding, asked_keys
from adapters.postgres.tenancy.profile_fields import shape_of
from core.domain.federation.scim.tokens import MOST_KEPT, ScimExchange, ScimHolder, ScimToken
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ScimTokenId
from core.domain.tenancy.management_keys import KnownKey

TOKEN: Final = Columns(ScimToken, "scim_tokens", named={"organization": "org_id"}, texts=("name",))


class _Known(NamedTuple):
    id: UUID
    digest: bytes
    name: str
    prefix: str
    expires_at: datetime | None
    organization_id: UUID
    organization_slug: str
    organization_is_active: bool
    mapping: Mapping[str, Mapping[str, Any]] | None

    def known(self) -> KnownKey[ScimHolder]:
        holder = ScimHolder(
            ScimTokenId(self.id),
            self.name,
            self.prefix,
            OrganizationId(self.organization_id),
            self.organization_slug,
            {name: shape_of(field) for name, field in (self.mapping or {}).items()},
        )
        return KnownKey(holder, self.digest, self.expires_at, self.organization_is_active)


class PostgresScimTokens(KeyLookups[ScimHolder]):
    """Implements `ports.federation.scim.ScimTokenLookup`."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool, _Known, FIND_SCIM_TOKEN)

    async def list(self, organization: OrganizationId) -> Sequence[ScimToken]:
        return await ask(self._pool, TOKEN.row, _LIST, {"organization": organization})


class ScimTokenRows:
    """Implements `ports.federation.scim.ScimTokenStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, token: ScimToken, digest: bytes) -> int | None:
        return await added(self._transaction, _ADD, {**TOKEN.values(token), "org_id": token.organization, "digest": digest})

    async def delete(self, organization: OrganizationId, token: ScimTokenId) -> ScimToken | None:
        return first(await self._transaction.ask(TOKEN.row, _DELETE, {"organization": organization, "id": token}))


SCIM_TOKENS: Final = KeyTable("scim_tokens", "org_id")

FIND_SCIM_TOKEN: Final[LiteralString] = f"""
    select keys.id, keys.digest, keys.name, keys.prefix, keys.expires_at,
           organizations.id as organization_id, organizations.slug as organization_slug,
           organizations.status = 'active' as organization_is_active,
           (
               select jsonb_object_agg(
                          mapped.key, jsonb_build_object('key', fields.key, 'kind', fields.kind, 'rule', fields.rule)
                      )
                 from scim_groups
                cross join jsonb_each_text(scim_groups.profile_mapping) as mapped
                 join profile_fields as fields on fields.org_id = scim_groups.org_id and fields.key = mapped.value
                where scim_groups.org_id = keys.org_id and 'directory' = any (fields.written_by)
           ) as mapping
      from {asked_keys(SCIM_TOKENS)}
     cross join lateral (select * from organizations where organizations.id = keys.org_id limit 1) as organizations
"""

# An organization has few enough tokens to show them all.
_LIST: Final[LiteralString] = f"select {TOKEN.names} from scim_tokens where org_id = %(organization)s order by created_at desc, id desc"

_ADD: Final[LiteralString] = adding(SCIM_TOKENS)

_DELETE: Final[LiteralString] = f"delete from scim_tokens where id = %(id)s and org_id = %(organization)s returning {TOKEN.names}"


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
            await tell(self._pool, _EXCHANGE_ADD, {"exchanges": Jsonb([_as_json(one) for one in part])})
        for organization in dict.fromkeys(one.organization for one in exchanges):
            await tell(self._pool, _TRIM, {"organization": organization, "most": MOST_KEPT})

    async def list(self, organization: OrganizationId, limit: int, *, refused: bool) -> Sequence[ScimExchange]:
        return await ask(self._pool, EXCHANGE.row, _EXCHANGE_LIST, {"organization": organization, "limit": limit, "refused": refused})


def _as_json(one: ScimExchange) -> Any:
    return storable({EXCHANGE.columns[name]: value for name, value in msgspec.to_builtins(one).items()})


# A deleted organization gets no exchanges.
_EXCHANGE_ADD: Final[LiteralString] = f"""
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

_EXCHANGE_LIST: Final[LiteralString] = f"""
    select {EXCHANGE.names}
      from scim_exchanges
     where org_id = %(organization)s and (not %(refused)s or status >= 400)
     order by id desc
     limit %(limit)s
"""
