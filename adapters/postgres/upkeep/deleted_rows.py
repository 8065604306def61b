"""What all kinds of deleted things have in common: their rows leave PostgreSQL in batches after the deletion itself.

A batch begins after the last row of the previous one, and not at the first row that is left. While a long transaction elsewhere keeps
PostgreSQL from cleaning up deleted rows, each batch would otherwise step over all rows deleted before. Rows are locked in the order of
their ids, as everywhere else.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.driver.pool import Pool
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import ask, only
from ports.database import Swept

_BEFORE_ALL: Final = UUID(int=0)

# A batch that a crash of the server undoes is simply repeated. So its commit need not wait for the disk, and other tenants do not wait for
# its commit.
AT_LEISURE: Final = "set_config('synchronous_commit', 'off', true) = 'off'"

# The end of a part's statement. `batch` has the rows of the batch, and `gone` has the changed rows.
SWEPT: Final[LiteralString] = f"""
        select (select id from batch order by id desc limit 1) as last, (select count(*) from gone) as rows
         where {AT_LEISURE}"""


def held(rows: LiteralString, table: LiteralString, key: LiteralString, lock: LiteralString = "update") -> LiteralString:
    """The rows that `rows` finds, in the order of their ids. Only then are the rows of `table` locked that meet `key`, all together in that
    order, as everywhere else. A row that another sweep has removed in between is not `held`. It still counts, because the next batch begins
    after it.
    """
    return f"""
             select next.id, locked.held is not null as held
               from ({rows}) as next
               left join lateral (select true as held from {table} where {key} for {lock}) as locked on true
    """


class PostgresDeletedRows:
    """Implements `ports.database.DeletedRows` for one kind of thing.

    Each of `statements` belongs to a part. A statement removes up to `limit` rows of `owner` that come `after` an id, and finds none unless
    the owner is being deleted. It returns `last` and `rows`. `named` is the key of the owner in the jobs' payload.
    """

    def __init__(self, pool: Pool, statements: Mapping[str, LiteralString], *, table: LiteralString, job: str, named: str) -> None:
        self._pool = pool
        self._statements = statements
        self._finish: LiteralString = _FINISH.format(table=table)
        self._stranded: LiteralString = _STRANDED.format(table=table)
        self._job = {"kind": job, "named": named}
        self.parts: Sequence[str] = tuple(statements)

    async def sweep(self, part: str, owner: UUID, after: UUID | None, limit: int) -> Swept:
        parameters = {"owner": owner, "after": after or _BEFORE_ALL, "limit": limit}
        return only(await ask(self._pool, Swept, self._statements[part], parameters))

    async def finish(self, owner: UUID) -> bool:
        return bool(await ask(self._pool, IdRow, self._finish, {"owner": owner}))

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[UUID]:
        parameters = {**self._job, "patience": patience, "limit": limit}
        return [row.id for row in await ask(self._pool, IdRow, self._stranded, parameters)]


# This also deletes, through their foreign keys, rows that were written after their part was done, or by a later release with more parts.
_FINISH: Final = "delete from {table} where id = %(owner)s and deleted_at is not null returning id"

_STRANDED: Final = """
    select id
      from {table}
     where deleted_at < now() - %(patience)s::interval
       and not exists (
               select from jobs
                where jobs.kind = %(kind)s and jobs.state = 'waiting' and jobs.payload ->> %(named)s = {table}.id::text
           )
     order by deleted_at
     limit %(limit)s
"""
