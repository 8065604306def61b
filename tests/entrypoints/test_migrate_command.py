"""`postern migrate`, `postern doctor` and a start name the older processes that serve the database."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg
import pytest
import trio

from adapters.postgres.listening_processes import name_of_listener
from adapters.postgres.migrate import shipped
from entrypoints import checks
from entrypoints.checks import Verdict
from entrypoints.cli import migrate
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import OK, StartFailed
from entrypoints.installation import bring_up_to_date
from entrypoints.settings import Settings, read
from tests.conftest import CapturedLog
from tests.places import MIGRATIONS

KEY: Final = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
CURRENT: Final = f"{len(shipped()):04}"
LATER: Final = f"{len(shipped()) + 1:04}_later"
AGREED: Final = "--although-older-processes-run"
Migrated = Callable[..., list[str]]


@pytest.fixture
def settings(database_url: str) -> Settings:
    return read({"POSTERN_DATABASE_URL": database_url, "POSTERN_ENCRYPTION_KEYS": KEY})


@pytest.fixture
def migrated(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Migrated:
    def run(*arguments: str) -> list[str]:
        assert migrate.run(command_line().parse_args(["migrate", *arguments]), settings) == OK
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives this program one migration more, with this first line."""

    def later(first_line: str) -> None:
        folder = tmp_path / "migrations"
        shutil.copytree(MIGRATIONS, folder)
        (folder / f"{LATER}.sql").write_text(f"{first_line}\nalter table users add column later text;\n")
        monkeypatch.setattr("adapters.postgres.migrate._FOLDER", folder)

    return later


def test_plan_and_migrate_name_older_processes_that_go_on(database_url: str, migrated: Migrated, add: Callable[[str], None]) -> None:
    add("-- additive")
    with psycopg.connect(database_url, application_name=name_of_listener("0.2.0")):
        line = f"Older processes serve this database, carrying {CURRENT} (0.2.0) on "
        planned = migrated("--plan")
        assert planned[-1].startswith(line)
        assert planned[-1].endswith(" UTC. They go on. Restart them with this version.")
        (told,) = json.loads("\n".join(migrated("--plan", "--json")))["older_processes"]
        assert (told["migration"], told["version"], told["goes_on"]) == (len(shipped()) - 1, "0.2.0", True)
        assert {"host", "since"} < told.keys()
        assert migrated()[-1].startswith(line)
    assert migrated("--plan")[-1] == "The database is current."


def test_a_breaking_migration_waits_until_they_are_stopped(
    database_url: str, settings: Settings, migrated: Migrated, add: Callable[[str], None]
) -> None:
    add("-- breaking")
    with psycopg.connect(database_url, application_name=name_of_listener("0.2.0")):
        planned = migrated("--plan")[-1]
        assert planned.startswith(f"in the way: older processes serve this database, carrying {CURRENT} (0.2.0) on ")
        assert planned.endswith("; `postern migrate` refuses until 1 of them is stopped")
        assert json.loads("\n".join(migrated("--plan", "--json")))["older_processes"][0]["goes_on"] is False
        refusal = rf"^Migration {LATER} is not applied \(breaking: .*\) while an older process serves this database \(carrying {CURRENT} "
        with pytest.raises(StartFailed, match=refusal):
            migrated()
        with pytest.raises(StartFailed, match=refusal):
            trio.run(bring_up_to_date, settings)
        assert migrated(AGREED)[-1].endswith(" UTC. 1 of them cannot run on this schema and may fail: stop them.")
        assert migrated()[-1] == "The database is current.", "the line about older processes stands before it"
    with psycopg.connect(database_url) as connection:
        connection.execute("select later from users")


def test_a_start_migrates_beside_older_processes_that_go_on(
    database_url: str, settings: Settings, add: Callable[[str], None], log: CapturedLog
) -> None:
    add("-- additive")
    with psycopg.connect(database_url, application_name=name_of_listener("0.2.0")):
        trio.run(bring_up_to_date, settings)
    assert log.events("migrations_applied")[0]["newest"] == LATER


@pytest.mark.parametrize(
    ("name", "needs", "verdict", "end"),
    [
        (name_of_listener("0.2.0"), 0, Verdict.OK, "none serves"),
        ("postern listener 0.2.0 0004", 0, Verdict.WARN, " UTC: restart with the newest version"),
        ("postern listener 0.2.0 0004", None, Verdict.FAIL, " UTC; 1 cannot run on this schema and may fail: stop the old version"),
        ("postern listener 0.1.0", 0, Verdict.FAIL, " UTC; 1 cannot run on this schema and may fail: stop the old version"),
    ],
)
def test_the_doctor_names_them(database_url: str, settings: Settings, name: str, needs: int | None, verdict: Verdict, end: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("update schema_migrations set needs = %s where number = (select max(number) from schema_migrations)", [needs])
    with psycopg.connect(database_url, application_name=name):
        found = trio.run(checks.processes_of_before, settings)
    assert found is not None
    assert (found.verdict, found.text.endswith(end)) == (verdict, True), found.text
