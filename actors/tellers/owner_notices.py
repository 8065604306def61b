"""Mails owners about sign-ins, because rules for risk say so. The sign-in itself waits for none of it."""

from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import DEFAULT_PACE, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.identity.risk_policies.owner_mails import OWNER_NOTICE_JOB, NoOwnerNotice, OwnerNotice
from core.domain.jobs import Job, Retry
from core.usecases.tenancy.risk import OwnerNotices

log = structlog.get_logger()

RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(hours=6))


def owner_notifier(notices: OwnerNotices, workplace: Workplace, *, pace: JobPace = DEFAULT_PACE) -> JobWorker:
    async def send(job: Job) -> None:
        try:
            notice = OwnerNotice.of_job(job.payload)
        except NoOwnerNotice:
            raise JobRefused("The payload names no sign-in") from None
        owners = await notices.send(notice)
        log.info("risk_owners_notified", policy=str(notice.policy), owners=owners)

    return JobWorker("owner_notifier", [Task(OWNER_NOTICE_JOB, send, RETRY)], workplace, pace=pace)
