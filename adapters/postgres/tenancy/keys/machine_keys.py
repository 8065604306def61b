"""Machine keys in PostgreSQL: how keys of each kind are looked up, added, and marked as used."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Generic, LiteralString, TypeVar
from uuid import UUID

from adapters.postgres.arrays import array
from adapters.postgres.driver.pool import Pool
from adapters.postgres.presence import mark
from adapters.postgres.shared_lookups import SharedLookups
from adapters.postgres.statements import Statements, ask_in_order, first
from adapters.postgres.transaction import Transaction
from core.domain.tenancy.management_keys import Holder, KnownKey
from core.frozen import Frozen

# The shortest time between two updates of one key's `last_used_at`.
_PAUSE: Final = timedelta(minutes=1)

Id = TypeVar("Id", bound=UUID)


class KeyTable(Frozen):
    """A table with `id`, `name`, `prefix` and `digest` (both unique), `last_used_at`, `expires_at` and `created_at`. A table of which only
    the use is marked needs `id` and `last_used_at` alone. `owner` is the column that names the key's owner, and `maker` the one that names
    the person who answers for the key. `more` are the columns that only this kind of key has. `also` is another condition under which a
    shown key is found, besides its digest.
    """

    name: LiteralString
    owner: LiteralString
    more: tuple[LiteralString, ...] = ()
    also: LiteralString = ""
    maker: LiteralString = "created_by"


class KeyLookups(Generic[Holder]):
    """Finds keys of one kind. `statement` is made with `asked_keys` and selects the columns of `row` in their order. A `row` has the key's
    `digest`, and its method `known` returns the key.
    """

    def __init__(self, pool: Pool, row: Callable[..., Any], statement: LiteralString) -> None:
        self._pool = pool
        self._row = row
        self._statement: LiteralString = statement
        self._known = SharedLookups(self._find)

    async def find(self, digest: bytes) -> KnownKey[Holder] | None:
        return await self._known.find(digest)

    async def _find(self, digests: Sequence[bytes]) -> Mapping[bytes, KnownKey[Holder]]:
        rows = await ask_in_order(self._pool, self._row, self._statement, {"digests": array([digest.hex() for digest in digests])})
        return {row.digest: row.known() for row in rows}


class PostgresKeyUse:
    """Implements `ports.system.PresenceStore` for one kind of key. All processes together mark a key at most once a minute."""

    def __init__(self, pool: Pool, table: KeyTable) -> None:
        self._pool = pool
        self._mark: LiteralString = _marking(table)

    async def mark_seen(self, times: Mapping[Id, datetime]) -> None:
        await mark(self._pool, self._mark, times, {"pause": _PAUSE})


async def added(transaction: Statements | Transaction, statement: LiteralString, columns: Mapping[str, Any]) -> int | None:
    """Runs a statement that `adding` made. Returns the number of keys before, or None when another key has the prefix."""
    return first(await transaction.ask_in_order(int, statement, columns))


def asked_keys(table: KeyTable) -> LiteralString:
    """The `from` part of a look-up of keys. PostgreSQL looks into the index once for each key, whether there is one key or a hundred:
    `adapters/postgres/tenancy/callers.py` gives the reason.
    """
    found: LiteralString = f"select * from {table.name} where {table.name}.digest = decode(asked.digest, 'hex') limit 1"
    if table.also:
        found = f"({found}) union all (select * from {table.name} where {table.also} limit 1) limit 1"
    return f"""unnest((select %(digests)s::text[])) as asked (digest)
     cross join lateral (
               {found}
           ) as keys"""


def adding(table: KeyTable, others: LiteralString = "") -> LiteralString:
    """The statement that adds a key. It also counts the owner's keys that existed when it began. `others` is the condition for these keys;
    by default they have the same owner.
    """
    columns = ("id", table.owner, "name", "prefix", "digest", *table.more, "expires_at", table.maker, "created_at")
    return f"""
    insert into {table.name} ({", ".join(columns)})
    values ({", ".join(f"%({column})s" for column in columns)})
        on conflict (prefix) do nothing
 returning (select count(*) from {table.name} as others where {others or f"others.{table.owner} = %({table.owner})s"}) as before
"""


def _marking(table: KeyTable) -> LiteralString:
    return f"""
    with due as (
             select keys.id, used.at
               from {table.name} as keys
               join unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) as used (id, at) on used.id = keys.id
              where keys.last_used_at is null or keys.last_used_at <= used.at - %(pause)s
              order by keys.id
                for no key update of keys      -- all processes lock in this order, so two that mark the same keys cannot deadlock
         )
  update {table.name}
     set last_used_at = due.at
    from due
   where {table.name}.id = due.id
"""
