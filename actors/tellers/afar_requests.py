"""Tells people of requests from afar. Only this work knows whether there is anybody to tell, and no request waits for it."""

from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.federation.afar_requests import TELL_JOB, AfarNotice
from core.domain.jobs import Job, Retry
from core.usecases.federation.afar_requests import AfarRequests

log = structlog.get_logger()

# Its times do not depend on any request, so nobody can tell from an answer whether there is such a person.
PACE: Final = JobPace(concurrency=2, poll=timedelta(seconds=4), heeds_bell=False)
RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=1), give_up_after=timedelta(hours=1))


def afar_request_teller(requests: AfarRequests, workplace: Workplace, *, pace: JobPace = PACE) -> JobWorker:
    async def tell(job: Job) -> None:
        notice = AfarNotice.of_job(job.payload)
        if notice is None:
            raise JobRefused("The payload names no request")
        log.info("afar_request_told", request=str(notice.request), mailed=await requests.tell(notice))

    return JobWorker("afar_request_teller", [Task(TELL_JOB, tell, RETRY)], workplace, pace=pace)
