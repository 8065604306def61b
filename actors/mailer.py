"""The mailer: hands queued mail to the transport. What the server refuses dies at once; what it cannot take now is tried for a day."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import DEFAULT_PACE, JobDelayed, JobRefused, JobWorker, Pace, Task
from core.domain.email import Email
from core.domain.jobs import Job, Retry
from core.domain.json import Json
from core.domain.mail import MAIL_JOB, Mail
from ports.clock import Clock
from ports.jobs import Doorbell, JobQueue
from ports.mail import MailDelayed, MailRefused, MailTransport
from ports.metrics import Metrics

log = structlog.get_logger()

RETRY: Final = Retry(first=timedelta(seconds=30), longest=timedelta(hours=1), give_up_after=timedelta(days=1))
# Above what the SMTP transport allows one conversation, so that its own, better explained time-out comes first.
TIMEOUT: Final = timedelta(minutes=3)


def mailer(
    transport: MailTransport,
    *,
    queue: JobQueue,
    doorbell: Doorbell,
    clock: Clock,
    metrics: Metrics,
    spread: Callable[[], float],
    pace: Pace = DEFAULT_PACE,
) -> JobWorker:
    async def send(job: Job) -> None:
        mail = _mail(job.payload)
        try:
            await transport.send(mail, job.id)
        except MailRefused as refusal:
            raise JobRefused(str(refusal)) from None
        except MailDelayed as delay:
            raise JobDelayed(str(delay)) from None
        log.info("mail_sent", domain=Email(mail.to).domain, attempts=job.attempts)

    task = Task(MAIL_JOB, send, RETRY, TIMEOUT)
    return JobWorker("mailer", [task], queue=queue, doorbell=doorbell, clock=clock, metrics=metrics, spread=spread, pace=pace)


def _mail(payload: Mapping[str, Json]) -> Mail:
    to, subject, text, html = (payload.get(part) for part in ("to", "subject", "text", "html"))
    if not (isinstance(to, str) and isinstance(subject, str) and isinstance(text, str) and isinstance(html, str)):
        raise JobRefused("The payload is not a mail")
    return Mail(to, subject, text, html)
