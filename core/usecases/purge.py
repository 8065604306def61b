"""Taking away what is left of things that were deleted: batch after batch, each a transaction of its own, resumed after a crash."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog

from core.domain.jobs import NewJob
from ports.remains import Remains
from ports.unit_of_work import UnitOfWorkFactory

log = structlog.get_logger()

# Small enough that nobody waits for a lock of it, or for the log of its changes to be written.
BATCH: Final = 500
# A job that is there has been taken up by then.
PATIENCE: Final = timedelta(minutes=15)
_MOST_STRANDED: Final = 100


class Purge:
    """Of one kind of thing: `job` makes the job that takes one away."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, remains: Remains, job: Callable[[UUID], NewJob]) -> None:
        self._unit_of_work = unit_of_work
        self._remains = remains
        self._job = job

    async def run(self, owner: UUID, breathe: Callable[[], Awaitable[None]]) -> bool:
        """`breathe` is awaited after each batch: whoever drives it sets the pace. May be repeated, cut off anywhere, and done by several at
        once. False when there was nothing to finish: it is gone already, or it lives, and then nothing happens to it.
        """
        total = 0
        for part in self._remains.parts:
            swept = await self._remains.sweep(part, owner, None, BATCH)
            while swept.last is not None:
                total += swept.rows
                await breathe()
                swept = await self._remains.sweep(part, owner, swept.last, BATCH)
        finished = await self._remains.finish(owner)
        if finished:
            log.info("purged", owner=str(owner), rows=total)
        return finished

    async def take_up_stranded(self) -> Sequence[UUID]:
        """Queue what no job is left for: an operator took it out of the queue, or restored a table from before."""
        stranded = await self._remains.stranded(PATIENCE, _MOST_STRANDED)
        if stranded:
            jobs = [self._job(owner) for owner in stranded]
            async with self._unit_of_work() as unit:
                for job in jobs:
                    await unit.jobs.add(job)
                await unit.commit()
            log.warning("purges_were_stranded", kind=jobs[0].kind, purges=len(jobs))
        return stranded
