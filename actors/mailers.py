"""Mailers, which take mails and notifications about accounts from the queue."""

from datetime import timedelta
from typing import Final

import structlog

from actors.job_worker import DEFAULT_PACE, JobDelayed, JobPace, JobRefused, JobWorker, Task, Workplace
from core.domain.federation.backchannel_requests import TELL_JOB, BackchannelNotice
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB, AskedMail, MailWaits, NoAccountMail
from core.domain.identity.risk_policies.owner_mails import OWNER_NOTICE_JOB, NoOwnerNotice, OwnerNotice
from core.domain.identity.session_limits import DISPLACED_JOB, Displacement, NoDisplacement
from core.domain.jobs import Job, Retry
from core.domain.mail import MAIL_JOB, Email, Mail, NoMail
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB, OrganizationMail
from core.usecases.federation.backchannel_requests import BackchannelRequests
from core.usecases.identity.account_mails import AccountMails
from core.usecases.identity.sessions import DisplacedSessions
from core.usecases.tenancy.mail_servers import AT_ONCE, MailServers
from core.usecases.tenancy.risk import OwnerNotices
from ports.mail import MailDelayed, MailRefused, MailTransport

log = structlog.get_logger()


MAIL_RETRY: Final = Retry(first=timedelta(seconds=30), longest=timedelta(hours=1), give_up_after=timedelta(days=1))
# Longer than the SMTP transport's timeout for one conversation, so that the transport's timeout, whose error says more, comes first.
MAIL_TIMEOUT: Final = timedelta(minutes=3)


def mailer(
    transport: MailTransport,
    workplace: Workplace,
    *,
    pace: JobPace = DEFAULT_PACE,
) -> JobWorker:
    """Hands queued mail to the transport. The mailer gives up at once on mail that the server refuses, and tries for a day to send mail
    that the server cannot take now.
    """

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

    task = Task(MAIL_JOB, send, MAIL_RETRY, MAIL_TIMEOUT)
    return JobWorker("mailer", [task], workplace, pace=pace)


# A mail is made a second and a half after the request on average, and four seconds at the most. Two at once: a directory's import may ask
# for thousands of mails, and the event loop must stay free for requests.
ACCOUNT_MAIL_PACE: Final = JobPace(concurrency=2, rhythm=timedelta(seconds=4))
# Longer than the day that a budget of mails holds one back at most.
ACCOUNT_MAIL_RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(hours=30))


def account_mailer(
    account_mails: AccountMails,
    workplace: Workplace,
    *,
    pace: JobPace = ACCOUNT_MAIL_PACE,
) -> JobWorker:
    """Sends the verification and reset mails that requests have queued. The times at which the mailer works do not depend on any request,
    so the caller cannot tell from a response time whether an account exists.
    """

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

    task = Task(ACCOUNT_MAIL_JOB, send, ACCOUNT_MAIL_RETRY)
    return JobWorker("account_mailer", [task], workplace, pace=pace)


# The longest pause is short, so that a mail that has waited an hour for its organization's server soon goes through ours.
ORGANIZATION_MAIL_RETRY: Final = Retry(first=timedelta(seconds=30), longest=timedelta(minutes=10), give_up_after=timedelta(days=1))
# Longer than the conversations with both servers.
ORGANIZATION_MAIL_TIMEOUT: Final = timedelta(minutes=3)
# Some hands are always free for mails that go through our own server.
ORGANIZATION_MAIL_PACE: Final = JobPace(concurrency=AT_ONCE + 4)


def organization_mailer(mail_servers: MailServers, workplace: Workplace, *, pace: JobPace = ORGANIZATION_MAIL_PACE) -> JobWorker:
    """Sends the mails of organizations, through the organization's own mail server if it has one. The mailer has a queue of its own,
    because others run those servers, and no sign-in mail may wait for a slow server.
    """

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

    return JobWorker(
        "organization_mailer", [Task(ORGANIZATION_MAIL_JOB, send, ORGANIZATION_MAIL_RETRY, ORGANIZATION_MAIL_TIMEOUT)], workplace, pace=pace
    )


# Its times do not depend on any request, so nobody can tell from an answer whether there is such a person.
AFAR_REQUEST_PACE: Final = JobPace(concurrency=2, rhythm=timedelta(seconds=4))
AFAR_REQUEST_RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=1), give_up_after=timedelta(hours=1))


def backchannel_request_teller(requests: BackchannelRequests, workplace: Workplace, *, pace: JobPace = AFAR_REQUEST_PACE) -> JobWorker:
    """Notifies users of backchannel authentication requests (CIBA). Only this work knows whether there is a user to notify, and no request
    waits for it.
    """

    async def tell(job: Job) -> None:
        notice = BackchannelNotice.of_job(job.payload)
        if notice is None:
            raise JobRefused("The payload names no request")
        log.info("afar_request_told", request=str(notice.request), mailed=await requests.tell(notice))

    return JobWorker("afar_request_teller", [Task(TELL_JOB, tell, AFAR_REQUEST_RETRY)], workplace, pace=pace)


DISPLACED_SESSION_RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(hours=6))


def displaced_session_teller(displaced: DisplacedSessions, workplace: Workplace, *, pace: JobPace = DEFAULT_PACE) -> JobWorker:
    """Notifies of sessions that a later sign-in has ended. The sign-in itself waits for none of it."""

    async def tell(job: Job) -> None:
        try:
            displacement = Displacement.of_job(job.payload)
        except NoDisplacement:
            raise JobRefused("The payload names no sessions") from None
        told = await displaced.tell(displacement)
        log.info("sessions_displaced", sessions=len(displacement.sessions), told=told)

    return JobWorker("displaced_session_teller", [Task(DISPLACED_JOB, tell, DISPLACED_SESSION_RETRY)], workplace, pace=pace)


OWNER_NOTICE_RETRY: Final = Retry(first=timedelta(seconds=5), longest=timedelta(minutes=5), give_up_after=timedelta(hours=6))


def owner_notifier(notices: OwnerNotices, workplace: Workplace, *, pace: JobPace = DEFAULT_PACE) -> JobWorker:
    """Mails owners about sign-ins, because risk policies say so. The sign-in itself waits for none of it."""

    async def send(job: Job) -> None:
        try:
            notice = OwnerNotice.of_job(job.payload)
        except NoOwnerNotice:
            raise JobRefused("The payload names no sign-in") from None
        owners = await notices.send(notice)
        log.info("risk_owners_notified", policy=str(notice.policy), owners=owners)

    return JobWorker("owner_notifier", [Task(OWNER_NOTICE_JOB, send, OWNER_NOTICE_RETRY)], workplace, pace=pace)
