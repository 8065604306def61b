"""The organization mailer: sends the mails of organizations, through the organization's own mail server if it has one. The mailer has a
queue of its own, because others run those servers, and no sign-in mail may wait for a slow server.
"""

from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import JobDelayed, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.jobs import Job, Retry
from core.domain.mail import Email, NoMail
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB, OrganizationMail
from core.usecases.tenancy.mail_servers import AT_ONCE, MailServers
from ports.mail import MailDelayed, MailRefused

log = structlog.get_logger()

# The longest pause is short, so that a mail that has waited an hour for its organization's server soon goes through ours.
RETRY: Final = Retry(first=timedelta(seconds=30), longest=timedelta(minutes=10), give_up_after=timedelta(days=1))
# Longer than the conversations with both servers.
TIMEOUT: Final = timedelta(minutes=3)
# Some hands are always free for mails that go through our own server.
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
            raise JobDelayed(str(delay), after=delay.after, asked=delay.asked) from None
        log.info("organization_mail_sent", domain=Email(wanted.mail.to).domain, attempts=job.attempts)

    return JobWorker("organization_mailer", [Task(ORGANIZATION_MAIL_JOB, send, RETRY, TIMEOUT)], workplace, pace=pace)
