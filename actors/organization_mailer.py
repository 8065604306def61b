"""The organization mailer: hands in what organizations send, at their own servers where they have some. A queue of its own, since those
servers are in others' hands, and nobody's sign-in mail shall wait for them.
"""

from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import JobDelayed, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.email import Email
from core.domain.jobs import Job, Retry
from core.domain.mail import NoMail
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB, OrganizationMail
from core.usecases.tenancy.mail_servers import AT_ONCE, MailServers
from ports.mail import MailDelayed, MailRefused

log = structlog.get_logger()

# Soon enough that a mail that waits for its server to come back goes by ours not long after the hour.
RETRY: Final = Retry(first=timedelta(seconds=30), longest=timedelta(minutes=10), give_up_after=timedelta(days=1))
# Longer than the conversations with both servers.
TIMEOUT: Final = timedelta(minutes=3)
# Some hands are always free for what goes by our own server.
PACE: Final = JobPace(concurrency=AT_ONCE + 4)


def organization_mailer(mail_servers: MailServers, workplace: Workplace, *, pace: JobPace = PACE) -> JobWorker:
    async def send(job: Job) -> None:
        try:
            wanted = OrganizationMail.of_job(job.payload)
            await mail_servers.deliver(wanted, job.id)
        except NoMail:
            raise JobRefused("The payload is not a mail of an organization") from None
        except MailRefused as refusal:
            raise JobRefused(str(refusal)) from None
        except MailDelayed as delay:
            raise JobDelayed(str(delay), after=delay.after) from None
        log.info("organization_mail_sent", domain=Email(wanted.mail.to).domain, attempts=job.attempts)

    return JobWorker("organization_mailer", [Task(ORGANIZATION_MAIL_JOB, send, RETRY, TIMEOUT)], workplace, pace=pace)
