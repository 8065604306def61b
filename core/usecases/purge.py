"""Removing what is left of deleted things, batch by batch. Each batch is a transaction, and the work resumes after a crash."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog

from core.domain.jobs import NewJob
from core.frozen import Frozen
from ports.deleted_rows import DeletedRows
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

# A batch is small, so that other transactions wait neither for its locks nor for its part of the write-ahead log.
BATCH: Final = 500
# After this time, a removal without progress has no job.
PATIENCE: Final = timedelta(minutes=15)
_MOST_STRANDED: Final = 100


class Purge(Frozen):
    """Removes one kind of thing. `job` makes the job that removes one thing."""

    unit_of_work: UnitOfWorkFactory
    remains: DeletedRows
    job: Callable[[UUID], NewJob]

    async def run(self, owner: UUID, breathe: Callable[[], Awaitable[None]]) -> bool:
        """Removes everything of `owner`. `breathe` is awaited after each batch and sets the pace. May be repeated, interrupted anywhere,
        and run by several processes at once. Returns False when there was nothing to do: the owner is gone already, or was never deleted
        and stays untouched.
        """
        total = 0
        for part in self.remains.parts:
            swept = await self.remains.sweep(part, owner, None, BATCH)
            while swept.last is not None:
                total += swept.rows
                await breathe()
                swept = await self.remains.sweep(part, owner, swept.last, BATCH)
        finished = await self.remains.finish(owner)
        if finished:
            log.info("purged", owner=str(owner), rows=total)
        return finished

    async def take_up_stranded(self) -> Sequence[UUID]:
        """Queues the removals that have no job, because an operator deleted the job or restored a table from a backup."""
        stranded = await self.remains.stranded(PATIENCE, _MOST_STRANDED)
        if stranded:
            jobs = [self.job(owner) for owner in stranded]
            async with self.unit_of_work() as uow:
                for job in jobs:
                    await uow.jobs.add(job)
                await uow.commit()
            log.warning("purges_were_stranded", kind=jobs[0].kind, purges=len(jobs))
        return stranded
