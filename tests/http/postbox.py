"""The mails that requests lead to: does the jobs that requests leave, as the actors do, up to the mail itself."""

import re
from datetime import timedelta
from html import unescape

from actors.job_worker import Workplace
from actors.mailers import account_mailer
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB
from core.domain.jobs import Job
from core.domain.mail import MAIL_JOB, Mail
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB
from entrypoints.bootstrap import Postern
from tests.http.people import BASE_URL

_LINK = re.compile(r"https?://\S+\?token=\S+")
_CODE = re.compile(r"(?<=\s)\d{8}(?=\s)")
_LEASE = timedelta(minutes=1)


class Postbox:
    def __init__(self, postern: Postern) -> None:
        self._postern = postern

    async def asked_for(self) -> list[Job]:
        """The requests for account mails. This function takes and handles each."""
        jobs = list(await self._postern.foundation.jobs.claim([ACCOUNT_MAIL_JOB], 100, _LEASE))
        for job in jobs:
            await self._handle(job)
            await self._postern.foundation.jobs.complete(job)
        return jobs

    async def empty(self) -> list[Mail]:
        """Takes all mails since the last call, oldest first."""
        await self.asked_for()
        mails = []
        for job in await self._postern.foundation.jobs.claim([MAIL_JOB, ORGANIZATION_MAIL_JOB], 100, _LEASE):
            mails.append(Mail.of_job(job.payload))
            await self._postern.foundation.jobs.complete(job)
        return mails

    async def link(self) -> str:
        """The link in the only mail."""
        (mail,) = await self.empty()
        return link_in(mail)

    async def proof(self) -> str:
        """Proves the address, by the link in the only mail."""
        return proof_by(await self.link())

    async def token(self) -> str:
        return token_in(await self.link())

    async def _handle(self, job: Job) -> None:
        postern = self._postern
        worker = account_mailer(
            postern.identity.account_mails,
            Workplace(
                postern.foundation.jobs,
                postern.foundation.doorbell,
                postern.foundation.clock,
                postern.foundation.metrics,
                postern.foundation.secrets.spread,
            ),
        )
        await worker._tasks[job.kind].handle(job)


def link_in(mail: Mail) -> str:
    """The mail's only link, which must be the same in text and HTML."""
    (link,) = _LINK.findall(mail.text)
    assert set(_LINK.findall(unescape(mail.html.replace('"', " ").replace("<", " ")))) == {link}
    return str(link)


def code_in(mail: Mail) -> str:
    """The mail's only code, which must be the same in text and HTML, and must not stand where a locked screen shows it."""
    (code,) = _CODE.findall(mail.text)
    assert _CODE.findall(mail.html.replace(">", "> ").replace("<", " <")) == [code]
    assert code not in mail.subject
    return str(code)


def token_in(link: str) -> str:
    return link.partition("?token=")[2].partition("&")[0]


def proof_by(link: str) -> str:
    """Visits the path to which an application leads that builds its own links from the mailed token. The visit proves the address."""
    assert link.startswith(f"{BASE_URL}/ui/verify-email?token=")
    return f"/auth/verify-email?token={token_in(link)}"
