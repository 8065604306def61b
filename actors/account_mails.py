"""The account mailer: sends the verification and reset mails that requests have queued. The times at which the mailer works do not depend
on any request, so the caller cannot tell from a response time whether an account exists.
"""

from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import JobDelayed, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB, AskedMail, MailWaits, NoAccountMail
from core.domain.jobs import Job, Retry
from core.usecases.identity.account_mails import AccountMails

log = structlog.get_logger()

# A mail is made a second and a half after the request on average, and four seconds at the most. Two at once: a directory's import may ask
# for thousands of mails, and the event loop must stay free for requests.
PACE: Final = JobPace(concurrency=2, poll=timedelta(seconds=4), heeds_bell=False)
# Longer than the day that a budget of mails holds one back at most.
RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(hours=30))


def account_mailer(
    account_mails: AccountMails,
    workplace: Workplace,
    *,
    pace: JobPace = PACE,
) -> JobWorker:
    async def send(job: Job) -> None:
        try:
            asked = AskedMail.of_job(job.payload)
        except NoAccountMail:
            raise JobRefused("The payload asks for no account mail") from None
        try:
            queued = await account_mails.send(asked)
        except MailWaits as waits:
            raise JobDelayed(str(waits), after=waits.until - workplace.clock.now(), asked=False) from None
        log.info("account_mail_handled", mail=asked.kind, queued=queued)

    task = Task(ACCOUNT_MAIL_JOB, send, RETRY)
    return JobWorker("account_mailer", [task], workplace, pace=pace)
