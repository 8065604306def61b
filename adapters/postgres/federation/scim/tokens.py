"""SCIM tokens in PostgreSQL."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

from adapters.postgres.arrays import array
from adapters.postgres.driver.pool import Pool
from adapters.postgres.presence import mark
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import ask, ask_in_order
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import Transaction
from core.domain.federation.scim.tokens import KnownScimToken, ScimHolder, ScimToken
from core.domain.identifiers import OrganizationId, ScimTokenId, UserId
from core.frozen import Frozen

_PAUSE: Final = timedelta(minutes=1)


class _Known(NamedTuple):
    id: UUID
    digest: bytes
    name: str
    prefix: str
    expires_at: datetime | None
    organization_id: UUID
    organization_slug: str
    organization_is_active: bool

    def known(self) -> KnownScimToken:
        holder = ScimHolder(ScimTokenId(self.id), self.name, self.prefix, OrganizationId(self.organization_id), self.organization_slug)
        return KnownScimToken(holder, self.digest, self.expires_at, self.organization_is_active)


class _Token(Frozen):
    id: UUID
    org_id: UUID
    name: str
    prefix: str
    last_used_at: datetime | None
    expires_at: datetime | None
    created_by: UUID
    created_at: datetime

    def token(self) -> ScimToken:
        return ScimToken(
            id=ScimTokenId(self.id),
            organization=OrganizationId(self.org_id),
            name=self.name,
            prefix=self.prefix,
            last_used_at=self.last_used_at,
            expires_at=self.expires_at,
            created_by=UserId(self.created_by),
            created_at=self.created_at,
        )


class _Added(Frozen):
    before: int


class PostgresScimTokens:
    """Implements `ports.federation.scim.tokens.ScimTokenLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = SharedLookups(self._find)

    async def find(self, digest: bytes) -> KnownScimToken | None:
        return await self._known.find(digest)

    async def _find(self, digests: Sequence[bytes]) -> Mapping[bytes, KnownScimToken]:
        rows = await ask_in_order(self._pool, _Known, FIND, {"digests": array([digest.hex() for digest in digests])})
        return {row.digest: row.known() for row in rows}

    async def list(self, organization: OrganizationId) -> Sequence[ScimToken]:
        return [row.token() for row in await ask(self._pool, _Token, _LIST, {"organization": organization})]


class ScimTokenRows:
    """Implements `ports.federation.scim.tokens.ScimTokenStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, token: ScimToken, digest: bytes) -> int | None:
        parameters = {
            "id": token.id,
            "organization": token.organization,
            "name": storable_text(token.name),
            "prefix": token.prefix,
            "digest": digest,
            "expires_at": token.expires_at,
            "created_by": token.created_by,
            "created_at": token.created_at,
        }
        rows = await self._transaction.ask(_Added, _ADD, parameters)
        return rows[0].before if rows else None

    async def delete(self, organization: OrganizationId, token: ScimTokenId) -> ScimToken | None:
        rows = await self._transaction.ask(_Token, _DELETE, {"organization": organization, "id": token})
        return rows[0].token() if rows else None


class PostgresScimTokenUse:
    """Implements `ports.presence.PresenceStore` for SCIM tokens. Each is marked at most once a minute, over all processes."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def mark_seen(self, times: Mapping[ScimTokenId, datetime]) -> None:
        await mark(self._pool, _MARK_USED, times, {"pause": _PAUSE})


_TOKEN: Final = "id, org_id, name, prefix, last_used_at, expires_at, created_by, created_at"  # noqa: S105 - columns

# One look into each index at a time, for one token and for a hundred: `adapters/postgres/tenancy/callers.py` gives the reason.
FIND: Final = """
    select tokens.id, tokens.digest, tokens.name, tokens.prefix, tokens.expires_at,
           organizations.id as organization_id, organizations.slug as organization_slug,
           organizations.status = 'active' as organization_is_active
      from unnest((select %(digests)s::text[])) as asked (digest)
     cross join lateral (select * from scim_tokens where scim_tokens.digest = decode(asked.digest, 'hex') limit 1) as tokens
     cross join lateral (select * from organizations where organizations.id = tokens.org_id limit 1) as organizations
"""

# An organization has few enough to show them all.
_LIST: Final[LiteralString] = f"select {_TOKEN} from scim_tokens where org_id = %(organization)s order by created_at desc, id desc"

# This counts the tokens that existed when the statement began.
_ADD: Final = """
    insert into scim_tokens (id, org_id, name, prefix, digest, expires_at, created_by, created_at)
    values (%(id)s, %(organization)s, %(name)s, %(prefix)s, %(digest)s, %(expires_at)s, %(created_by)s, %(created_at)s)
        on conflict (prefix) do nothing
 returning (select count(*) from scim_tokens as others where others.org_id = %(organization)s) as before
"""

_DELETE: Final[LiteralString] = f"delete from scim_tokens where id = %(id)s and org_id = %(organization)s returning {_TOKEN}"

_MARK_USED: Final = """
    with due as (
             select scim_tokens.id, used.at
               from scim_tokens
               join unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) as used (id, at) on used.id = scim_tokens.id
              where scim_tokens.last_used_at is null or scim_tokens.last_used_at <= used.at - %(pause)s
              order by scim_tokens.id
                for no key update of scim_tokens      -- in one order everywhere: two processes that mark the same tokens cannot deadlock
         )
  update scim_tokens
     set last_used_at = due.at
    from due
   where scim_tokens.id = due.id
"""
