"""`postern audit verify --resume`: a run that was stopped goes on, and says in the end what one run would say."""

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import trio

from core.domain.record.audit import ChainCheck, ChainHead, Reached
from core.usecases import record
from entrypoints.bootstrap import open_postern
from entrypoints.cli import audit
from entrypoints.cli.audit import NotResumed, ResumeFile, _Report, run
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import FAILURE, OK, USAGE, StartFailed, sole
from entrypoints.settings import Settings
from tests.entrypoints.commands.test_audit_command import ACME
from tests.entrypoints.commands.test_audit_command import settings as settings  # noqa: PLC0414 - a fixture
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "READ_AT_ONCE", 1)


def asked(*words: str) -> argparse.Namespace:
    return command_line().parse_args(["audit", "verify", *words])


class _Stopped(Exception):
    pass


def stopped_after(settings: Settings, file: Path, parts: int) -> None:
    """A run that wrote its place after so many parts, and was killed then."""

    async def verify() -> None:
        async with open_postern(settings) as postern:
            report, seen = _Report(), 0
            report.begin(None, None, None, postern.foundation.clock.now())

            def reached(check: ChainCheck) -> None:
                nonlocal seen
                report.reached(check)
                seen += 1
                if seen == parts:
                    raise _Stopped

            with pytest.raises(_Stopped):
                await postern.record.audit.verify(report.found, report.checked, reached=reached)
            place = report.place()
            assert place is not None
            file.write_text(await postern.record.audit.progress_of(place))

    trio.run(verify)


def alter(settings: Settings, entry: int) -> None:
    """Of acme's log, in its order."""
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url.reveal(), autocommit=True) as connection:
        connection.execute(
            "update audit_entries set action = 'role.deleted' where id ="
            " (select entry_id from audit_links where chain_id = %s order by sequence limit 1 offset %s)",
            [ACME, entry],
        )


Lines = Callable[[], list[str]]


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Lines:
    def read() -> list[str]:
        return capsys.readouterr().out.splitlines()

    return read


@pytest.mark.parametrize("parts", range(1, 7))
def test_a_run_that_was_stopped_anywhere_ends_as_one_run(settings: Settings, tmp_path: Path, lines: Lines, parts: int) -> None:
    file = tmp_path / "place"
    assert run(asked(), settings) == OK
    whole = lines()
    stopped_after(settings, file, parts)
    lines()
    assert run(asked("--resume", str(file)), settings) == OK
    resumed = lines()
    assert resumed[0].startswith("Continuing at link")
    assert resumed[-1] == whole[-1]
    assert [line for line in resumed[1:-1] if line not in whole] == []
    assert not file.exists()


def test_what_is_altered_after_the_place_is_found_and_faults_of_before_count(settings: Settings, tmp_path: Path, lines: Lines) -> None:
    file = tmp_path / "place"
    alter(settings, 2)
    assert run(asked(), settings) == FAILURE
    whole = lines()
    seen = set()
    for parts in range(1, 7):
        stopped_after(settings, file, parts)
        lines()
        kept = file.read_bytes()
        assert run(asked("--resume", str(file)), settings) == FAILURE
        told = lines()
        assert told[-1] == whole[-1]
        # In JSON, too, nothing that the stopped run found is lost.
        file.write_bytes(kept)
        assert run(asked("--json", "--resume", str(file)), settings) == FAILURE
        found = json.loads("\n".join(lines()))
        before = sum(found["resumed"]["faults"].values())
        assert (found["fault_count"], len(found["faults"]) + before) == (1, 1)
        assert ("The interrupted run found 1 fault" in told[0]) is bool(before)
        assert f" of {found['resumed']['chain']}, after" in told[0]
        seen.add(bool(before))
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("delete from audit_links where chain_id = %s and sequence >= %s", "before the noted head"),
        ("delete from audit_links where chain_id = %s and sequence = %s", "links are missing"),
        ("update audit_links set digest = sha256('x') where chain_id = %s and sequence = %s", "whose head was noted"),
    ],
)
def test_the_place_itself_has_to_be_there_still(settings: Settings, tmp_path: Path, lines: Lines, statement: str, fault: str) -> None:
    file = tmp_path / "place"
    # The platform's two links come first, so this is acme's second.
    stopped_after(settings, file, 4)
    assert f'"{ACME}", "head": "2:' in file.read_text()
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url.reveal(), autocommit=True) as connection:
        connection.execute(statement.encode(), [ACME, 2])
    lines()
    assert run(asked("--resume", str(file)), settings) == FAILURE
    assert any(fault in line for line in lines())


def test_for_programs_nothing_but_the_object_is_printed(settings: Settings, tmp_path: Path, lines: Lines) -> None:
    file = tmp_path / "place"
    stopped_after(settings, file, 2)
    lines()
    assert run(asked("--json", "--resume", str(file)), settings) == OK
    assert json.loads("\n".join(lines()))["fault_count"] == 0


def test_without_a_file_it_begins_anew_and_leaves_none(settings: Settings, tmp_path: Path, lines: Lines) -> None:
    assert run(asked("--resume", str(tmp_path / "none")), settings) == OK
    assert list(tmp_path.glob("none*")) == []
    assert not lines()[0].startswith("Continuing")


@pytest.mark.parametrize("text", ["", "{}\nabc\n", '{"chain": 1}'])
def test_a_file_that_nobody_with_the_keys_wrote_is_refused(settings: Settings, tmp_path: Path, text: str) -> None:
    file = tmp_path / "place"
    file.write_text(text)
    with pytest.raises((StartFailed, BaseExceptionGroup)) as refused:
        run(asked("--resume", str(file)), settings)
    error = sole(refused.value) if isinstance(refused.value, BaseExceptionGroup) else refused.value
    assert isinstance(error, StartFailed)
    assert error.status == USAGE
    assert file.exists()


def test_a_place_of_one_chain_is_none_of_all(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "place"
    stopped_after(settings, file, 1)
    with pytest.raises((StartFailed, BaseExceptionGroup)):
        run(asked("--resume", str(file), "--organization", "acme"), settings)


async def test_the_place_is_kept_every_few_seconds_for_its_owner_alone(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_EVERY", 0.01)
    place = Reached(datetime.now(UTC), None, ACME, ChainHead(1, b"d" * 32), 1, 0)

    async def kept(file: ResumeFile, told: Reached | None) -> None:
        """Until it has asked twice: then it has written what it heard first."""
        asked = 0

        def reached() -> Reached | None:
            nonlocal asked
            asked += 1
            if asked == 2:
                nursery.cancel_scope.cancel()
            return told

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(file.keep, reached)

    async with open_postern(settings) as postern:
        file = ResumeFile(postern.record.audit, tmp_path / "place")
        await kept(file, place)
        assert await file.begin(None, None, postern.foundation.clock) == place
        assert (tmp_path / "place").stat().st_mode & 0o777 == 0o600
        assert [one.name for one in tmp_path.glob("place*")] == ["place"]
        await kept(ResumeFile(postern.record.audit, tmp_path / "nothing"), None)
        assert not (tmp_path / "nothing").exists()
        with pytest.raises(NotResumed):
            await ResumeFile(postern.record.audit, tmp_path / "no" / "place").write(place)
        with pytest.raises(NotResumed, match=r" cannot be written: Is a directory$"):
            await ResumeFile(postern.record.audit, tmp_path).write(place)
        with pytest.raises(NotResumed, match=r" cannot be written: No such file or directory$"):
            await ResumeFile(postern.record.audit, tmp_path / "no" / "place").begin(None, None, postern.foundation.clock)
        with pytest.raises(NotResumed, match=r" cannot be read: Is a directory$"):
            await ResumeFile(postern.record.audit, tmp_path).begin(None, None, postern.foundation.clock)
