"""Background jobs: reviving the ones that were given up, and purging deleted data in batches."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog

from core.domain.errors import found
from core.domain.identifiers import JobId
from core.domain.jobs import DeadJob, NewJob
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen
from ports.database import DeletedRows
from ports.jobs import DeadJobLookup
from ports.unit_of_work import UnitOfWorkFactory

MOST_DEAD_JOBS_LISTED: Final = 50


class GivenUpJobs(Frozen):
    """Lists dead jobs, which Postern has given up, and revives them. A platform owner revives a job once its cause is
    gone.

    The caller has checked that the request comes from a platform owner.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: DeadJobLookup

    async def list(self) -> Sequence[DeadJob]:
        """The jobs that died last."""
        return await self.lookup.dead(MOST_DEAD_JOBS_LISTED)

    async def revive(self, job: JobId, actor: Actor) -> str:
        """The job waits again, as if it were new. Returns its kind. Raises `NotFound` when no dead job has this id, so that of two calls
        one revives it.
        """
        async with self.unit_of_work() as uow:
            kind = found(await uow.jobs.revive(job), "There is no such dead job")
            await uow.record(Event("platform.job.revived", actor, Target("job", str(job)), details={"kind": kind}))
            await uow.commit()
        return kind


log = structlog.get_logger()

# A batch is small, so that other transactions wait neither for its locks nor for its part of the write-ahead log.
PURGE_BATCH: Final = 500
# After this time, a removal without progress has no job.
PURGE_PATIENCE: Final = timedelta(minutes=15)
_MOST_STRANDED: Final = 100


class Purge(Frozen):
    """Purges one kind of deleted data, batch by batch. Each batch is a transaction, so the work resumes after a crash. `job` makes the job
    that purges one object.
    """

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
            swept = await self.remains.sweep(part, owner, None, PURGE_BATCH)
            while swept.last is not None:
                total += swept.rows
                await breathe()
                swept = await self.remains.sweep(part, owner, swept.last, PURGE_BATCH)
        finished = await self.remains.finish(owner)
        if finished:
            log.info("purged", owner=str(owner), rows=total)
        return finished

    async def take_up_stranded(self) -> Sequence[UUID]:
        """Queues the removals that have no job, because an operator deleted the job or restored a table from a backup."""
        stranded = await self.remains.stranded(PURGE_PATIENCE, _MOST_STRANDED)
        if stranded:
            jobs = [self.job(owner) for owner in stranded]
            async with self.unit_of_work() as uow:
                for job in jobs:
                    await uow.jobs.add(job)
                await uow.commit()
            log.warning("purges_were_stranded", kind=jobs[0].kind, purges=len(jobs))
        return stranded
