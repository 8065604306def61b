"""Tells of sessions that a later sign-in has ended. The sign-in itself waits for none of it."""

from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import DEFAULT_PACE, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.identity.session_limits import DISPLACED_JOB, Displacement, NoDisplacement
from core.domain.jobs import Job, Retry
from core.usecases.identity.sessions import DisplacedSessions

log = structlog.get_logger()

RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(hours=6))


def displaced_session_teller(displaced: DisplacedSessions, workplace: Workplace, *, pace: JobPace = DEFAULT_PACE) -> JobWorker:
    async def tell(job: Job) -> None:
        try:
            displacement = Displacement.of_job(job.payload)
        except NoDisplacement:
            raise JobRefused("The payload names no sessions") from None
        told = await displaced.tell(displacement)
        log.info("sessions_displaced", sessions=len(displacement.sessions), told=told)

    return JobWorker("displaced_session_teller", [Task(DISPLACED_JOB, tell, RETRY)], workplace, pace=pace)
