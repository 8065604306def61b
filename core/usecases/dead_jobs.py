"""Dead jobs: background work that was given up. A platform owner takes a job up again once its cause is gone."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import found
from core.domain.identifiers import JobId
from core.domain.jobs import DeadJob
from core.domain.record.events import Actor, Event, Target
from core.frozen import Frozen
from ports.jobs import DeadJobLookup
from ports.unit_of_work import UnitOfWorkFactory

MOST_LISTED: Final = 50


class GivenUpJobs(Frozen):
    """The caller has checked that the request comes from a platform owner."""

    unit_of_work: UnitOfWorkFactory
    lookup: DeadJobLookup

    async def list(self) -> Sequence[DeadJob]:
        """The jobs that died last."""
        return await self.lookup.dead(MOST_LISTED)

    async def revive(self, job: JobId, actor: Actor) -> str:
        """The job waits again, as if it were new. Returns its kind. Raises `NotFound` when no dead job has this id, so that of two calls
        one revives it.
        """
        async with self.unit_of_work() as uow:
            kind = found(await uow.jobs.revive(job), "There is no such dead job")
            await uow.record(Event("platform.job.revived", actor, Target("job", str(job)), details={"kind": kind}))
            await uow.commit()
        return kind
