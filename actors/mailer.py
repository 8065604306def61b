"""The mailer: hands queued mail to the transport. The mailer gives up at once on mail that the server refuses, and tries for a day to send
mail that the server cannot take now.
"""

from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import DEFAULT_PACE, JobDelayed, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.jobs import Job, Retry
from core.domain.mail import MAIL_JOB, Email, Mail, NoMail
from ports.mail import MailDelayed, MailRefused, MailTransport

log = structlog.get_logger()

RETRY: Final = Retry(first=timedelta(seconds=30), longest=timedelta(hours=1), give_up_after=timedelta(days=1))
# Longer than the SMTP transport's timeout for one conversation, so that the transport's timeout, whose error says more, comes first.
TIMEOUT: Final = timedelta(minutes=3)


def mailer(
    transport: MailTransport,
    workplace: Workplace,
    *,
    pace: JobPace = DEFAULT_PACE,
) -> JobWorker:
    async def send(job: Job) -> None:
        try:
            mail = Mail.of_job(job.payload)
            await transport.send(mail, job.id)
        except NoMail:
            raise JobRefused("The payload is not a mail") from None
        except MailRefused as refusal:
            raise JobRefused(str(refusal)) from None
        except MailDelayed as delay:
            raise JobDelayed(str(delay), after=delay.after, asked=delay.asked) from None
        log.info("mail_sent", domain=Email(mail.to).domain, attempts=job.attempts)

    task = Task(MAIL_JOB, send, RETRY, TIMEOUT)
    return JobWorker("mailer", [task], workplace, pace=pace)
