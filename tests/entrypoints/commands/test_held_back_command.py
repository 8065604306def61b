"""`postern held-back`: what budgets of mails said no to, and exceptions with an end, by an operator."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from core.domain.errors import RateLimited
from core.domain.identity.account_mails import AccountMail
from core.domain.identity.devices import Client
from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from tests.e2e.postern import command
from tests.http.conftest import database_url, people, postern_on
from tests.http.people import People

__all__ = ["database_url", "people"]  # fixtures

KEY = "test:a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path / "served", {"POSTERN_MAILS_PER_NETWORK": "1"}) as opened:
        yield opened


async def asked(postern: Postern) -> bool:
    """Whether a stranger's request for a mail counts."""
    try:
        await postern.identity.accounts.ask_as_stranger(
            AccountMail.RESET, Email("nobody@acme.example"), "", Client("203.0.113.7", "a robot"), may_wait=False
        )
    except RateLimited:
        return False
    return True


class HeldBackConsole:
    def __init__(self, url: str, folder: Path) -> None:
        self._settings = {"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MAIL": "console"}
        self._folder = folder

    async def __call__(self, *words: str, fails: int = 0) -> str:
        def done() -> tuple[int, str]:
            ended = command(self._folder, "held-back", *words, **self._settings)
            return ended.returncode, ended.stderr if fails else ended.stdout

        status, told = await trio.to_thread.run_sync(done)
        assert status == fails, told
        return told


async def test_an_operator_lifts_a_budget_for_a_while_and_ends_it(
    postern: Postern, people: People, database_url: str, tmp_path: Path
) -> None:
    operator = HeldBackConsole(database_url, tmp_path)
    assert await operator("list") == "No rate-limited emails in the last day.\n"
    assert [await asked(postern) for _ in range(2)] == [True, False]
    shown = await operator("list")
    assert "network 203.0.113.0/24: 1 rate-limited since" in shown
    assert "1 of 1 used" in shown
    network = ("--budget", "network", "--key", "203.0.113.7")
    assert "network 203.0.113.0/24 has no email rate limit until" in await operator("lift", *network, "--hours", "3")
    assert await asked(postern)
    listed = json.loads(await operator("list", "--json"))
    (one,) = [one for one in listed["items"] if one["budget"] == "network"]
    assert one["exempt_until"] is not None
    assert "; lifted until" in await operator("list")
    assert await operator("restore", one["id"]) == "The email rate limit applies again.\n"
    assert not await asked(postern)
    names = [row["action"] for row in people.rows("select action from audit_log where action like 'platform.mail_budget%%' order by id")]
    assert names == ["platform.mail_budget.lifted", "platform.mail_budget.restored"]


async def test_what_names_no_budget_is_refused_in_words(postern: Postern, database_url: str, tmp_path: Path) -> None:
    assert postern.settings.mails_per_network == 1
    operator = HeldBackConsole(database_url, tmp_path)
    refused = await operator("lift", "--budget", "network", "--key", "home", "--hours", "3", fails=1)
    assert "specify a network by an IP address in it" in refused
    assert "at most 7 days" not in refused
    assert "There is no such exception" in await operator("restore", "0197f0c8-0000-7000-8000-000000000001", fails=1)
    assert "must be an id from the list" in await operator("restore", "mine", fails=2)
    assert "until" in await operator("lift", "--budget", "installation", "--hours", "0", fails=1)
    for words in (("--hours", "169"), ("--hours", "x")):
        assert "must be a number up to 168" in await operator("lift", "--budget", "installation", *words, fails=2)
    lifted = json.loads(await operator("lift", "--budget", "installation", "--hours", "1", "--json"))
    assert (lifted["budget"], lifted["key"]) == ("installation", "")
    restored = json.loads(await operator("restore", lifted["id"], "--json"))
    assert restored == {"id": lifted["id"], "restored": True}
