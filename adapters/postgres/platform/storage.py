"""How much the tables hold. PostgreSQL knows that without reading them."""

from datetime import date
from typing import Any, Final, LiteralString

from adapters.postgres.database import BELIEVED
from adapters.postgres.statements import ask, tell
from adapters.postgres.transaction import OnPool
from core.domain.platform.installation import Storage, StoredTable


def _sampled(*, today: date, sampled: date | None, whole: int, **table: Any) -> tuple[date, date | None, int, StoredTable]:
    return today, sampled, whole, StoredTable(**table)


class PostgresStorageSamples(OnPool):
    """Implements `ports.platform.StorageSamples`."""

    async def look(self) -> Storage:
        rows = await ask(self._pool, _sampled, _LOOK)
        today, sampled, whole, _ = rows[0]
        return Storage(today, sampled, whole, [table for *_, table in rows])

    async def keep(self) -> bool:
        kept = await tell(self._pool, _KEEP)
        if kept:
            await tell(self._pool, _FORGET)
        return kept > 0


# A part belongs to its table, and what is too long for a row to the row's table.
_TABLES: Final[LiteralString] = """
    select whole.relname::text as name, sum(part.reltuples) filter (where part.reltuples >= 0)::bigint as rows,
           sum(pg_total_relation_size(part.oid))::bigint as bytes,
           coalesce(sum(n_dead_tup) / nullif(sum(n_dead_tup + n_live_tup), 0), 0)::double precision as dead
      from pg_class as part
      join pg_class as whole on whole.oid = coalesce(pg_partition_root(part.oid), part.oid)
      left join pg_stat_all_tables as seen on seen.relid = part.oid
     where part.relkind = 'r' and whole.relnamespace = 'public'::regnamespace
     group by whole.relname
"""
_TODAY: Final = "(now() at time zone 'UTC')::date"

_LOOK: Final[LiteralString] = f"""
    with tables as ({_TABLES}),
         oldest as (
             select min(day) as day from storage_samples where day >= {_TODAY} - 28 and day < {_TODAY}
         )
  select {_TODAY} as today, oldest.day as sampled, pg_database_size(current_database()) as whole, tables.*,
         case when oldest.day is not null then tables.bytes - coalesce(samples.bytes, 0) end as grew
    from tables
   cross join oldest
    left join storage_samples as samples on samples.day = oldest.day and samples.name = tables.name
   order by tables.bytes desc, tables.name
"""

# Another process may do the same at this moment. A sample is a witness of the clock, so a clock that cannot be believed leaves none.
_KEEP: Final[LiteralString] = f"""
    insert into storage_samples (day, name, bytes)
    select {_TODAY}, name, bytes
      from ({_TABLES}) as tables
     where {BELIEVED} and not exists (select from storage_samples where day = {_TODAY})
        on conflict do nothing
"""
_FORGET: Final[LiteralString] = f"delete from storage_samples where day < {_TODAY} - 400"
