"""Backups of before 0.2.0: the whole second list is proved, restored and taken on. All others are refused before anything is written."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import psycopg
import pytest
import trio

from adapters.backup_folders import MANIFEST, BackupFolder
from adapters.crypto.key_ring import AesGcmKeyRing
from adapters.postgres.backups.snapshots import is_empty
from adapters.postgres.migrate import migrate, require_current
from adapters.postgres.migrating.schema import EARLIER_STONE, STEPPING_STONE
from core.domain.backups import DamageKind
from core.frozen import replace
from entrypoints.cli.backups import check, restore
from entrypoints.cli.backups.create import create
from entrypoints.cli.backups.proof import NOT_CHECKED, STATUS
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.cli.upgrading import rehearse
from entrypoints.failures import OK, StartFailed
from tests.adapters.postgres.migrating.former import CHANGED, EARLIER, FORMER, copy_rows, make_former
from tests.entrypoints.backups.installation import KEY, BackedUp, database_beside, settings_for

PROVED: Final = ": verified. It can be restored, is complete and can be decrypted, and sign-in works."
NOWHERE: Final = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture(scope="module")
def former(backup: BackedUp, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackedUp]:
    """A filled database as the migrations of before have left it, and its backup."""
    directory = tmp_path_factory.mktemp("former")
    with database_beside(backup.restored) as url:
        trio.run(make_former, url, FORMER)
        copy_rows(backup.restored, url)
        manifest = trio.run(create, settings_for(url, directory), directory / "backups")
        assert list(manifest.database.migrations) == FORMER
        yield replace(backup, folder=BackupFolder(directory / "backups" / manifest.id))


def checked(backup: BackedUp, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    status = check.run(command_line().parse_args(["backup", "check", *arguments]), backup.settings)
    return status, capsys.readouterr().out.splitlines()


def test_a_whole_one_is_proved_restored_and_taken_on(former: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = checked(former, capsys, str(former.folder.path), "--scratch", former.url)
    assert (status, lines[-1].endswith(PROVED)) == (OK, True), lines
    with database_beside(former.restored) as target:
        given = command_line().parse_args(["backup", "restore", str(former.folder.path), "--hold"])
        assert restore.run(given, settings_for(target, tmp_path)) == OK
        said = capsys.readouterr().out
        assert "The backup is of an older Postern: run `postern migrate`." in said
        status, lines = checked(former, capsys, "--database", target)
        assert status == STATUS[DamageKind.SCHEMA]
        assert "the schema is older than 0.2.0: run `postern migrate` there first, which upgrades it" in lines[-2]
        with psycopg.connect(target) as connection:
            assert connection.execute("select count(*) from schema_migrations").fetchone() == (len(FORMER),)
        trio.run(migrate, target, lambda _line: None)
        assert trio.run(require_current, target) == []
        status, lines = checked(former, capsys, "--database", target)
        assert (status, [line for line in lines if line.startswith("FAIL")]) == (OK, [])


def test_a_rehearsal_says_that_a_whole_one_is_taken_on_and_that_all_processes_stop_first(
    former: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["upgrade", "rehearse", str(former.folder.path), "--scratch", former.url, "--work", str(tmp_path)]
    status = rehearse.run(command_line().parse_args(given), former.settings)
    page = capsys.readouterr().out
    assert (status, "The schema of before 0.2.0 is taken on in seconds; stop all processes first." in page) == (OK, True), page
    assert "  1. systemctl stop postern  # all processes, on all machines\n" in page
    assert "The version that serves now rejects the migrated database." in page


_ONE: Final = f"check out commit {STEPPING_STONE}, restore it and run `postern migrate` there, and then here"
_TWO: Final = (
    f"check out commit {EARLIER_STONE}, restore it and run `postern migrate` there, then at commit {STEPPING_STONE}, and then here"
)
REFUSED: Final = {
    "shorter": (FORMER[:31], f"The backup has a schema of before 0.2.0 (0031_mail_budgets): {_ONE}"),
    "the 83": (EARLIER, f"The backup has a schema of before 0.2.0 (0083_purposes_validated): {_TWO}"),
    "0.1.0": (EARLIER[:45], f"The backup has a schema of before 0.2.0 (0045_saml_consents): {_TWO}"),
    "changed": (CHANGED, "another"),
    "one more": ([*FORMER, "0099_later x"], "another"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_any_other_is_refused_before_anything_is_written(
    former: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    lines, sentence = REFUSED[case]
    copy = _with(former, lines, tmp_path)
    status, said = checked(former, capsys, str(copy), "--scratch", NOWHERE)
    assert status == NOT_CHECKED
    assert (said[-1].startswith(f"{copy.name}: not checked. The backup "), sentence in said[-1]) == (True, True), said
    assert [line for line in said if line.startswith("FAIL")] == []
    with database_beside(former.restored) as target:
        given = command_line().parse_args(["backup", "restore", str(copy), "--hold"])
        with pytest.raises(StartFailed) as caught:
            restore.run(given, settings_for(target, tmp_path))
        assert sentence in str(caught.value)
        assert trio.run(is_empty, target)


def _with(former: BackedUp, migrations: Sequence[str], directory: Path) -> Path:
    """A copy of the backup whose manifest names these migrations."""
    copy = Path(shutil.copytree(former.folder.path, directory / former.folder.path.name))
    manifest = BackupFolder(copy).read_manifest()
    (copy / MANIFEST).unlink()
    changed = replace(manifest, database=replace(manifest.database, migrations=list(migrations)))
    BackupFolder(copy).write_manifest(changed, AesGcmKeyRing([KEY]))
    return copy
