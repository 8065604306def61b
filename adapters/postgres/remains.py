"""What is left in PostgreSQL of things that are deleted at once, taken away in batches: what the parts of each kind have in common.

A batch begins after the last row of the one before, and not at the first that is left: while a long transaction elsewhere keeps deleted
rows from being cleaned up, each batch would have to step over all that went before it. Its rows are locked in the order of their ids, as
whoever else touches several of them does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.pool import Pool
from adapters.postgres.statements import ask
from ports.remains import Swept

_BEFORE_ALL: Final = UUID(int=0)

# A batch that a crash of the server undoes is swept once more: nobody waits for the disk on its account, least of all the other tenants.
AT_LEISURE: Final = "set_config('synchronous_commit', 'off', true) = 'off'"

# The end of a part's statement, whose rows are `batch` and of them changed `gone`.
SWEPT: Final[LiteralString] = f"""
        select (select id from batch order by id desc limit 1) as last, (select count(*) from gone) as rows
         where {AT_LEISURE}"""


@dataclass(frozen=True, slots=True)
class _Identity:
    id: UUID


class PostgresRemains:
    """Implements `ports.remains.Remains`, of one kind of thing.

    Each of `statements` is a part's. It takes the batch of `limit` rows that comes `after` an id away from `owner`, and finds none unless
    that is being deleted; `last` and `rows` are its answer. `named` is what the jobs' payload calls the owner.
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
        (swept,) = await ask(self._pool, Swept, self._statements[part], parameters)
        return swept

    async def finish(self, owner: UUID) -> bool:
        return bool(await ask(self._pool, _Identity, self._finish, {"owner": owner}))

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[UUID]:
        parameters = {**self._job, "patience": patience, "limit": limit}
        return [row.id for row in await ask(self._pool, _Identity, self._stranded, parameters)]


# What was written into it since its part went, or by a later release that knows more parts, goes with it by its foreign keys.
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
