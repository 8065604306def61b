"""A rehearsal tries an upgrade on a backup: it says yes or no, calls nobody, and leaves nothing."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import trio

from adapters.backup_folders import MANIFEST, BackupFolder
from adapters.crypto.key_ring import AesGcmKeyRing
from core.frozen import replace
from entrypoints.cli.backups.create import create
from entrypoints.cli.backups.proof import NOT_CHECKED
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.upgrading import journey, rehearse, scratch
from entrypoints.cli.upgrading.page import NO
from entrypoints.failures import OK
from entrypoints.settings import Settings
from tests.conftest import CapturedLog
from tests.entrypoints.backups.installation import KEY, PASSWORD, SECRET, BackedUp, database_beside, name_of, settings_for
from tests.places import MIGRATIONS

KEY_RING: Final = AesGcmKeyRing([KEY])


class Rehearsed:
    def __init__(self, status: int, page: str, told: dict[str, Any]) -> None:
        self.status, self.page, self.told = status, page, told


Rehearse = Callable[..., Rehearsed]


@pytest.fixture
def rehearsed(backup: BackedUp, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Rehearse:
    """Runs the command on the server of the tests."""

    def run(*arguments: str, settings: Settings | None = None, folder: BackupFolder | None = None) -> Rehearsed:
        (work := tmp_path / "work").mkdir(exist_ok=True)
        out = tmp_path / "out.json"
        place = str((folder or backup.folder).path)
        given = command_line().parse_args(
            ["upgrade", "rehearse", place, "--scratch", backup.url, "--work", str(work), "--out", str(out), *arguments]
        )
        status = rehearse.run(given, settings or backup.settings)
        page = capsys.readouterr().out
        assert list(work.iterdir()) == [], "the scratch folder is left"
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        return Rehearsed(status, page, json.loads(out.read_text()))

    return run


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Gives this program one more migration with this text, and returns its name."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    monkeypatch.setattr("adapters.postgres.migrate._FOLDER", folder)

    def add(text: str) -> str:
        name = f"{len(list(folder.glob('*.sql'))) + 1:04}_later"
        (folder / f"{name}.sql").write_text(text)
        return name

    return add


def rows_of(url: str) -> list[object]:
    """Of the real database and its server: what a rehearsal must not change."""
    with psycopg.connect(url) as connection:
        tables = connection.execute("select tablename::text from pg_tables where schemaname = 'public' order by 1").fetchall()
        counted = [(name, connection.execute(f"select count(*) from {name}".encode()).fetchone()) for (name,) in tables]
        left = connection.execute(scratch._LEFT.encode()).fetchall()
    return [*counted, *left]


def test_without_a_pending_migration_it_says_yes_and_records_nothing(backup: BackedUp, rehearsed: Rehearse, log: CapturedLog) -> None:
    log.remember(SECRET)
    log.remember(PASSWORD)
    before = rows_of(backup.url)
    found = rehearsed()
    assert found.status == OK, found.page
    assert "\nYes. The upgrade works with the data of this backup.\n" in found.page
    assert "The service is not away: no migration is pending." in found.page
    assert found.told["pages"] == len(journey.PAGES) == 20
    assert found.told["left_out"] == ["1 sign-in hooks of the installation"]
    assert found.told["refused_calls"] == 0
    assert SECRET not in found.page + json.dumps(found.told)
    assert rows_of(backup.url) == before


def test_migrations_are_timed_and_the_rows_that_they_name_are_counted(rehearsed: Rehearse, later: Callable[[str], str]) -> None:
    additive = later("-- additive\nalter table users add column later text;\n")
    changing = later(
        "-- additive\n-- changes rows of used_usernames\ninsert into used_usernames values ('x');\nupdate users set later = 'x';\n"
    )
    found = rehearsed()
    assert found.status == OK, found.page
    assert [one["migration"] for one in found.told["migrations"]] == [additive, changing]
    assert [lock["table"] for lock in found.told["migrations"][0]["locks"]] == ["users"]
    assert found.told["migrations"][0]["locks"][0]["mode"] == "access exclusive"
    assert found.told["rows"] == {"used_usernames": {"before": 0, "after": 1}}
    assert "  used_usernames: 0 rows before, 1 row now\n" in found.page
    assert "The service is not away: the migrations take about " in found.page
    assert "postern migrate" in found.told["commands"]
    assert not found.told["away"]


def test_a_breaking_migration_takes_the_service_away(rehearsed: Rehearse, later: Callable[[str], str]) -> None:
    name = later("-- breaking\nalter table users add column later text;\n")
    found = rehearsed()
    assert (found.status, found.told["away"]) == (OK, True), found.page
    assert f"The service is away: {name} cannot be applied while older processes serve." in found.page
    assert found.told["commands"][0] == "systemctl stop postern"
    assert "rejects the migrated database" in found.told["way_back"]


FAILING: Final = {
    "a row that it loses": ("-- additive\ndelete from login_events;\n", "No. The table login_events has 0 rows, the backup has "),
    "rows that it changes": (
        "-- additive\nupdate login_events set user_agent = 'x';\n",
        "No. The table login_events has as many rows as the backup has, and",
    ),
    "a table that it drops": ("-- additive\ndrop table used_usernames;\n", "No. The migrations drop the table used_usernames with 0 rows"),
    "a column that it drops": (
        "-- additive\nalter table login_events drop column user_agent cascade;\n",
        "No. The migrations drop user_agent of the table login_events, and none names it",
    ),
    "an error": ("-- additive\nselect 1 / 0;\n", "failed and was rolled back: division by zero."),
    "a long lock": (
        "-- additive\nlock table users in access exclusive mode;\nselect pg_sleep(3);\n",
        "locks users for 3",
    ),
}


FAILS_ON_PAGES: Final = (
    "alter table all_organizations drop constraint all_organizations_status_check;\nupdate all_organizations set status = 'unheard of';\n"
)


@pytest.mark.parametrize("case", FAILING)
def test_a_migration_that_does_harm_is_a_no_in_one_sentence(
    backup: BackedUp, rehearsed: Rehearse, later: Callable[[str], str], case: str
) -> None:
    text, sentence = FAILING[case]
    later(text)
    before = rows_of(backup.url)
    found = rehearsed()
    (line,) = [line for line in found.page.splitlines() if line.startswith("No. ")]
    assert (found.status, sentence in line, found.told["yes"]) == (NO, True, False), found.page
    assert rows_of(backup.url) == before


def test_a_page_that_fails_with_the_old_data_is_a_no(rehearsed: Rehearse, later: Callable[[str], str], log: CapturedLog) -> None:
    log.allow("request_failed")
    later("-- additive\n-- changes rows of all_organizations\n" + FAILS_ON_PAGES)
    found = rehearsed()
    assert (found.status, found.page.count("\nNo. ")) == (NO, 1), found.page


def test_a_damaged_audit_chain_is_a_no_with_the_status_of_a_check(backup: BackedUp, rehearsed: Rehearse, tmp_path: Path) -> None:
    with database_beside(backup.restored, template=name_of(backup.restored)) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("set session_replication_role = replica")
            connection.execute("update audit_entries set action = 'role.deleted' where action = 'role.created'")
        settings = settings_for(url, tmp_path)
        manifest = trio.run(create, settings, tmp_path / "damaged")
        found = rehearsed(settings=settings, folder=BackupFolder(tmp_path / "damaged" / manifest.id))
    assert found.status == 17, found.page
    assert found.page.count("\nNo. The migrated copy is damaged (audit): ") >= 1


def test_a_backup_that_cannot_be_read_is_not_checked(backup: BackedUp, rehearsed: Rehearse, tmp_path: Path) -> None:
    copied = BackupFolder(Path(shutil.copytree(backup.folder.path, tmp_path / backup.folder.path.name)))
    manifest = copied.read_manifest()
    (copied.path / MANIFEST).unlink()
    migrations = [*manifest.database.migrations, "9999_later x"]
    copied.write_manifest(replace(manifest, database=replace(manifest.database, migrations=migrations)), KEY_RING)
    found = rehearsed(folder=copied)
    assert found.status == NOT_CHECKED
    assert "\nNo. The backup was not checked. The backup was created by a newer version of Postern" in found.page
    os.truncate(copied.dump, 10)
    (copied.path / MANIFEST).unlink()
    copied.write_manifest(manifest, KEY_RING)
    assert rehearsed(folder=copied).status == 11
