"""The account mailer: does what the requests for verification and reset mails leave to it, out of sight of whoever asked."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import DEFAULT_PACE, JobRefused, JobWorker, Pace, Task
from core.domain.account_mails import ACCOUNT_MAIL_JOB, AccountMail
from core.domain.email import Email
from core.domain.jobs import Job, Retry
from core.usecases.account_mails import AccountMails
from ports.clock import Clock
from ports.jobs import Doorbell, JobQueue
from ports.metrics import Metrics

log = structlog.get_logger()

RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(hours=6))


def account_mailer(
    account_mails: AccountMails,
    *,
    queue: JobQueue,
    doorbell: Doorbell,
    clock: Clock,
    metrics: Metrics,
    spread: Callable[[], float],
    pace: Pace = DEFAULT_PACE,
) -> JobWorker:
    async def send(job: Job) -> None:
        kind, email, organization = (job.payload.get(part) for part in ("mail", "email", "organization"))
        if not (kind in set(AccountMail) and isinstance(email, str) and isinstance(organization, str)):
            raise JobRefused("The payload asks for no account mail")
        queued = await account_mails.send(AccountMail(str(kind)), Email(email), organization)
        log.info("account_mail_handled", mail=kind, queued=queued)

    task = Task(ACCOUNT_MAIL_JOB, send, RETRY)
    return JobWorker("account_mailer", [task], queue=queue, doorbell=doorbell, clock=clock, metrics=metrics, spread=spread, pace=pace)
