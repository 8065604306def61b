"""The account mailer: a request that names an address becomes a mail or nothing, and no request is lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from actors import mailers
from actors.job_worker import JobPace, JobRefused, Workplace
from actors.mailers import account_mailer
from adapters.crypto.key_ring import EncryptionKey
from core.domain.identifiers import UserId
from core.domain.identity.account_mails import ACCOUNT_MAIL_JOB, AccountMail, AskedMail, LinkRefused
from core.domain.identity.accounts import Account
from core.domain.jobs import Job, NewJob, Retry
from core.domain.mail import Email
from core.domain.secrets import Token
from core.frozen import replace
from entrypoints.bootstrap import Postern, open_postern
from entrypoints.settings import read
from ops.stand_ins.mail_server import mail_server
from tests.conftest import CapturedLog
from tests.patience import PATIENCE

BASE_URL = "https://id.example.org"
EMAIL = Email("ada@example.org")


@asynccontextmanager
async def opened(database_url: str, directory: Path, mail: str) -> AsyncIterator[Postern]:
    settings = {
        "POSTERN_DATABASE_URL": database_url,
        "POSTERN_DATA_DIR": str(directory),
        "POSTERN_BASE_URL": BASE_URL,
        "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        "POSTERN_MAIL": mail,
        "POSTERN_MAIL_SENDER": "Postern <postern@example.org>",
    }
    async with open_postern(read(settings)) as postern:
        yield postern


async def register(postern: Postern) -> UserId:
    user = UserId(postern.foundation.ids.new())
    account = Account(
        user, EMAIL, is_platform_owner=False, email_verified_at=None, deactivated_at=None, created_at=postern.foundation.clock.now()
    )
    async with postern.foundation.unit_of_work() as uow:
        assert await uow.accounts.add(account, None)
        await uow.jobs.add(AskedMail(AccountMail.VERIFICATION, EMAIL).as_job())
        await uow.commit()
    return user


@asynccontextmanager
async def at_work(postern: Postern) -> AsyncIterator[None]:
    """Runs the two actors that turn a request into a mail and send the mail, with short pauses."""
    pace = JobPace(poll=timedelta(milliseconds=50))
    foundation = postern.foundation
    workplace = Workplace(foundation.jobs, foundation.doorbell, foundation.clock, foundation.metrics, foundation.secrets.spread)
    async with trio.open_nursery() as nursery:
        await nursery.start(account_mailer(postern.identity.account_mails, workplace, pace=pace).run)
        await nursery.start(mailers.mailer(postern.foundation.mail, workplace, pace=pace).run)
        yield
        nursery.cancel_scope.cancel()


async def test_a_verification_mail_reaches_the_mailbox(emptied_database_url: str, tmp_path: Path, log: CapturedLog) -> None:
    with mail_server() as server:
        async with opened(emptied_database_url, tmp_path, server.url()) as postern, at_work(postern):
            await register(postern)
            (received,) = await server.wait_for(1)
    assert received.recipients == ["ada@example.org"]
    assert received.message["Subject"] == "Verify your email address"
    assert f"{BASE_URL}/ui/verify-email?token=" in received.part("plain")
    token = received.part("plain").partition("token=")[2].split()[0]
    assert f"token={token}" in received.part("html")
    log.remember(token, "ada@example.org")


async def test_a_mail_server_that_is_away_delays_mail_and_loses_none(
    emptied_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailers, "MAIL_RETRY", Retry(first=timedelta(milliseconds=50), longest=timedelta(milliseconds=100)))
    with mail_server() as server:
        server.answer("MAIL", "drop", times=1)
        server.answer("MESSAGE", "451 4.3.2 Not now", times=2)
        async with opened(emptied_database_url, tmp_path, server.url()) as postern, at_work(postern):
            await register(postern)
            (received,) = await server.wait_for(1)
        assert received.message["Subject"] == "Verify your email address"
    assert server.commands.count("MESSAGE") == 3


async def test_a_request_succeeds_while_nobody_takes_mail(emptied_database_url: str, tmp_path: Path) -> None:
    async with opened(emptied_database_url, tmp_path, "smtp://127.0.0.1:1") as postern:
        async with at_work(postern):
            await register(postern)
            with trio.fail_after(PATIENCE):
                while not [state for state in await postern.foundation.jobs.state() if state.kind == "mail" and state.waiting]:
                    await trio.sleep(0.02)
        (mail,) = [state for state in await postern.foundation.jobs.state() if state.kind == "mail"]
        assert (mail.waiting, mail.dead) == (1, 0)


class TestHandling:
    @pytest.fixture
    async def postern(self, emptied_database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
        async with opened(emptied_database_url, tmp_path, "file:") as postern:
            yield postern

    async def queued(self, postern: Postern) -> int:
        return sum(state.waiting for state in await postern.foundation.jobs.state() if state.kind == "mail")

    async def test_unknown_addresses_leave_nothing(self, postern: Postern) -> None:
        for kind in AccountMail:
            assert not await postern.identity.account_mails.send(AskedMail(kind, EMAIL, "acme"))
        assert await self.queued(postern) == 0

    async def test_each_kind_has_its_link(self, postern: Postern) -> None:
        await register(postern)
        # Its address is not proved yet, so no link may sign in.
        kinds = [kind for kind in AccountMail if kind is not AccountMail.SIGN_IN_LINK]
        for number, kind in enumerate(kinds, start=1):
            assert await postern.identity.account_mails.send(AskedMail(kind, Email("ADA@example.org"), ""))
            assert await self.queued(postern) == number

    async def test_a_mail_that_can_wait_goes_after_one_that_cannot(self, postern: Postern) -> None:
        await register(postern)
        for can_wait in (True, False):
            await postern.identity.account_mails.send(AskedMail(AccountMail.RESET, EMAIL, "", can_wait=can_wait))
        texts = [str(job.payload["text"]) for job in await postern.foundation.jobs.claim(["mail"], 2, timedelta(seconds=9))]
        first, last = (Token(text.partition("token=")[2].split()[0]) for text in texts)
        with pytest.raises(LinkRefused):
            await postern.identity.account_passwords.look_at_link(last)
        assert (await postern.identity.account_passwords.look_at_link(first)).email == EMAIL

    async def test_repeated_it_mails_again_and_the_last_link_works(self, postern: Postern) -> None:
        await register(postern)
        for _ in range(2):
            assert await postern.identity.account_mails.send(AskedMail(AccountMail.RESET, EMAIL, ""))
        texts = [str(job.payload["text"]) for job in await postern.foundation.jobs.claim(["mail"], 10, timedelta(seconds=9))]
        first, last = (Token(text.partition("token=")[2].split()[0]) for text in texts)
        with pytest.raises(LinkRefused):
            await postern.identity.account_passwords.look_at_link(first)
        assert (await postern.identity.account_passwords.look_at_link(last)).email == EMAIL

    @pytest.mark.parametrize("changes", [{"mail": "other"}, {"mail": None}, {"email": 5}, {"organization": None}])
    async def test_a_job_that_asks_for_nothing_is_refused(self, changes: dict[str, Any], postern: Postern) -> None:
        new: NewJob = AskedMail(AccountMail.RESET, EMAIL).as_job()
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
        async with postern.foundation.unit_of_work() as uow:
            await uow.jobs.add(new)
            await uow.commit()
        (job,) = await postern.foundation.jobs.claim([ACCOUNT_MAIL_JOB], 1, timedelta(seconds=9))
        broken: Job = replace(job, payload={**job.payload, **changes})
        with pytest.raises(JobRefused):
            await worker._tasks[ACCOUNT_MAIL_JOB].handle(broken)
