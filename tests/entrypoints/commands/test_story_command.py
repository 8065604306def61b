"""`postern story`: its lines and its exit status. tests/http/record/test_stories.py covers what it finds."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio

from adapters.crypto.key_ring import EncryptionKey
from adapters.system import SystemIds
from core.domain.causes import caused_by, named_by_client
from core.domain.identifiers import OrganizationId, UserId
from core.domain.jobs import NewJob
from core.domain.record.events import Actor, Event, Target
from entrypoints.bootstrap import open_postern
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.record.story import run
from entrypoints.failures import FAILURE, OK, USAGE, StartFailed, sole
from entrypoints.settings import Settings, read

GONE, ADA = OrganizationId(SystemIds().new()), UserId(SystemIds().new())


@pytest.fixture
def request_id() -> UUID:
    return SystemIds().new()


@pytest.fixture
def settings(emptied_database_url: str, tmp_path: Path, request_id: UUID) -> Settings:
    settings = read(
        {
            "POSTERN_DATABASE_URL": emptied_database_url,
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        }
    )
    trio.run(_something_follows, settings, request_id)
    return settings


async def _something_follows(settings: Settings, request_id: UUID) -> None:
    async with open_postern(settings) as postern:
        for request in (request_id, UUID(named_by_client(SystemIds().new(), "trace-7"))):
            with caused_by(request):
                async with postern.foundation.unit_of_work() as uow:
                    await uow.record(Event("role.created", Actor(ADA, address="192.0.2.7"), Target("role", "1"), GONE))
                    mail = {"to": "ada@example.org", "subject": "Secret", "text": "https://id.example.org/?token=t", "html": ""}
                    await uow.jobs.add(NewJob("mail", mail, sealed=True))
                    await uow.commit()
        (job,) = await postern.foundation.jobs.claim(["mail"], 1, timedelta(minutes=1))
        await postern.foundation.jobs.bury(job, "550 no such\x1b[2J mailbox: <ada@example.org>")


Tell = Callable[..., tuple[int, str]]


@pytest.fixture
def tell(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Tell:
    def told(*arguments: str) -> tuple[int, str]:
        status = run(command_line().parse_args(["story", *arguments]), settings)
        return status, capsys.readouterr().out

    return told


def test_a_story_is_told_line_by_line(tell: Tell, request_id: UUID) -> None:
    status, told = tell(str(request_id))
    assert status == OK
    first, *others, found, hint = told.splitlines()
    lines = {line.split("  ")[1].strip(): line for line in (first, *others)}
    assert set(lines) == {"audit entry", "event", "mail"}
    assert lines["audit entry"].endswith(f"role.created role 1  not linked yet, by {ADA}, in {GONE}")
    assert "dead, 1 attempt, to ***@example.org, 550 no such?[2J mailbox: <***@example.org>" in lines["mail"]
    assert found.startswith("3 rows, from 20")
    assert found.endswith("among audit entries, events, sign-ins, deliveries, jobs, mails.")
    assert "request_id" in hint
    for secret in ("ada@", "token", "Secret", "192.0.2.7", "\x1b"):
        assert secret not in told


def test_programs_get_json(tell: Tell, request_id: UUID) -> None:
    status, told = tell(str(request_id), "--json")
    assert status == OK
    story: dict[str, Any] = json.loads(told)
    assert (story["is_whole"], len(story["rows"])) == (True, 3)
    assert {row["request"] for row in story["rows"]} == {str(request_id)}
    (mail,) = [row for row in story["rows"] if row["noun"] == "mail"]
    assert (mail["recipient"], mail["error"]) == ("***@example.org", "550 no such\x1b[2J mailbox: <***@example.org>")
    assert "\x1b" not in told


def test_the_text_of_a_client_is_looked_for_since_a_time(tell: Tell) -> None:
    since = datetime.now(UTC) - timedelta(hours=1)
    status, told = tell("trace-7", "--since", since.isoformat())
    assert status == OK
    assert "3 rows, from" in told
    until = since + timedelta(minutes=1)
    assert tell("trace-7", "--since", since.isoformat(), "--until", f"{until:%Y-%m-%dT%H:%M:%S.%f}")[0] == FAILURE


def test_what_nobody_knows_is_a_failure_that_says_where_it_looked(tell: Tell) -> None:
    status, told = tell(str(SystemIds().new()))
    assert status == FAILURE
    assert told.startswith("0 rows, from 20")
    status, told = tell(str(SystemIds().new()), "--json")
    assert (status, json.loads(told)["rows"]) == (FAILURE, [])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("a b",), "up to 128 letters"),
        (("' or 1=1 --",), "up to 128 letters"),
        (("trace-7",), "--since"),
        (("trace-7", "--since", "yesterday"), "--since must be a time"),
        (("trace-7", "--since", "0001-01-01T00:00+14:00"), "--since must be a time"),
        ((str(SystemIds().new()), "--until", "1999-01-01"), "ends before it begins"),
    ],
)
def test_a_wrong_question_is_refused(tell: Tell, arguments: tuple[str, ...], reason: str) -> None:
    with pytest.raises((StartFailed, ExceptionGroup)) as refused:
        tell(*arguments)
    error = sole(refused.value)
    assert isinstance(error, StartFailed)
    assert error.status == USAGE
    assert reason in str(error)


def test_a_cut_story_says_so(tell: Tell, request_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.postgres.record.events.MOST_ROWS", 2)
    status, told = tell(str(request_id))
    assert status == OK
    assert "… and more: the first" in told
    assert "2 rows" in told
    assert json.loads(tell(str(request_id), "--json")[1])["is_whole"] is False


def test_several_requests_under_one_text_are_counted(tell: Tell, settings: Settings) -> None:
    async def again() -> None:
        async with open_postern(settings) as postern:
            with caused_by(UUID(named_by_client(SystemIds().new(), "trace-7"))):
                async with postern.foundation.unit_of_work() as uow:
                    await uow.record(Event("role.created", Actor(ADA), Target("role", "2"), GONE))
                    await uow.commit()

    trio.run(again)
    _, told = tell("trace-7", "--since", (datetime.now(UTC) - timedelta(hours=1)).isoformat())
    assert "5 rows of 2 requests that had the same id, from" in told
    named = re.findall(r"of request (\S+?)(?:,|$)", told, re.MULTILINE)
    assert (len(named), len(set(named))) == (5, 2)
    assert "of request" not in tell(named[-1])[1]
