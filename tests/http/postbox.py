"""What would be mailed: the jobs that requests leave are done as the actors do them, up to the mail itself."""

import re
from datetime import timedelta
from html import unescape

from actors.account_mails import account_mailer
from actors.job_worker import Workplace
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB
from core.domain.jobs import Job
from core.domain.mail import MAIL_JOB, Mail
from core.domain.tenancy.mail_servers import ORGANIZATION_MAIL_JOB
from entrypoints.bootstrap import Postern
from tests.http.people import BASE_URL

_LINK = re.compile(r"https?://\S+\?token=\S+")
_LEASE = timedelta(minutes=1)


class Postbox:
    def __init__(self, postern: Postern) -> None:
        self._postern = postern

    async def asked_for(self) -> list[Job]:
        """The account mails that were asked for, handled as they are taken."""
        jobs = list(await self._postern.foundation.jobs.claim([ACCOUNT_MAIL_JOB], 100, _LEASE))
        for job in jobs:
            await self._handle(job)
            await self._postern.foundation.jobs.complete(job)
        return jobs

    async def empty(self) -> list[Mail]:
        """All mails since the last time, oldest first."""
        await self.asked_for()
        mails = []
        for job in await self._postern.foundation.jobs.claim([MAIL_JOB, ORGANIZATION_MAIL_JOB], 100, _LEASE):
            mails.append(Mail.of_job(job.payload))
            await self._postern.foundation.jobs.complete(job)
        return mails

    async def link(self) -> str:
        """The link in the one mail that there is."""
        (mail,) = await self.empty()
        return link_in(mail)

    async def proof(self) -> str:
        """Of the address, by the link in the one mail that there is."""
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
    """The same in text and HTML, and there is one."""
    (link,) = _LINK.findall(mail.text)
    assert set(_LINK.findall(unescape(mail.html.replace('"', " ").replace("<", " ")))) == {link}
    return str(link)


def token_in(link: str) -> str:
    return link.partition("?token=")[2].partition("&")[0]


def proof_by(link: str) -> str:
    """Where an application leads to that builds links of its own from the mailed token: a visit proves the address."""
    assert link.startswith(f"{BASE_URL}/ui/verify-email?token=")
    return f"/auth/verify-email?token={token_in(link)}"
