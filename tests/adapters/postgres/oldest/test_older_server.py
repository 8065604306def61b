"""What an older PostgreSQL has to know: migrations, statements, backups, and what the doctor asks.

The other tests run on the embedded PostgreSQL, of another version. `make test DATABASE=…` runs all of them on another server.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import pytest
import trio
from psycopg._queries import _query2pg

from adapters.postgres.embedded import MAJOR_VERSION
from adapters.postgres.migrate import OLDEST_SERVER, migrate, plan, shipped
from entrypoints.cli import doctor
from entrypoints.cli.backups import check, restore
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import OK
from tests.adapters.postgres.oldest.house_texts import house_texts
from tests.adapters.postgres.oldest.server import OldServer
from tests.entrypoints.backups.installation import BackedUp, backed_up, settings_for

# More statements than these can be prepared as they are. The rest are fragments, or have parameters whose types only the driver knows.
_STATEMENTS: Final = 1_250


@pytest.fixture(scope="module")
def backup(oldest: OldServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackedUp]:
    """An installation that began with the first migration, and its backup, made with the programs of the server."""
    with pytest.MonkeyPatch.context() as monkeypatch, oldest.database() as url:
        monkeypatch.setenv("PATH", str(oldest.programs), prepend=":")
        trio.run(partial(migrate, migrations=shipped()[:1]), url, print)
        with psycopg.connect(url, autocommit=True) as connection:
            # Somebody is there before the upgrade.
            connection.execute(
                "insert into users (id, email, email_key, created_at, updated_at)"
                " values (gen_random_uuid(), 'old@example.org', 'old@example.org', now(), now())"
            )
        done = trio.run(migrate, url, print)
        assert done == list(shipped()[1:])
        with backed_up(url, tmp_path_factory.mktemp("oldest")) as made:
            yield made


def test_the_server_is_older_than_the_embedded_one(oldest: OldServer) -> None:
    with psycopg.connect(oldest.url("postgres")) as connection:
        assert OLDEST_SERVER <= connection.info.server_version // 10_000 < int(MAJOR_VERSION)


def test_a_backup_is_made_proved_and_restored(
    oldest: OldServer, backup: BackedUp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(module: object, *arguments: str, url: str) -> list[str]:
        status = module.run(command_line().parse_args(["backup", *arguments]), settings_for(url, tmp_path))  # type: ignore[attr-defined]
        assert status == OK, capsys.readouterr()
        return capsys.readouterr().out.splitlines()

    assert backup.settings.database_url is not None
    source, place = backup.settings.database_url.reveal(), str(backup.folder.path)
    lines = run(check, "check", place, "--scratch", oldest.url("postgres"), url=source)
    assert lines[-1].endswith(": verified. It can be restored, is complete and can be decrypted, and sign-in works.")
    with oldest.database() as target:
        lines = run(restore, "restore", place, "--hold", url=target)
        assert any(line.startswith(f"{backup.folder.path.name} is restored") for line in lines)
        assert trio.run(plan, target).pending == []
        lines = run(check, "check", place, "--database", target, url=source)
        assert lines[-1].endswith(": verified. It can be restored, is complete and can be decrypted, and sign-in works.")


def test_the_doctor_finds_nothing_broken_and_has_tried_the_next_backup(backup: BackedUp, capsys: pytest.CaptureFixture[str]) -> None:
    doctor.run(command_line().parse_args(["doctor"]), backup.settings)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith(("FAIL", "SOON"))] == []
    (tried,) = [line for line in lines if line[6:].startswith("next backup")]
    assert tried.startswith("ok    next backup        can read every table; pg_dump ")


def test_every_statement_of_the_house_can_be_prepared(backup: BackedUp, shared_database: str) -> None:
    """Every one that the server of the other tests can prepare."""
    assert backup.settings.database_url is not None
    texts = sorted({text for _, text in house_texts()})
    known = list(prepared(shared_database, texts))
    assert len(known) > _STATEMENTS
    assert sorted(set(known) - set(prepared(backup.settings.database_url.reveal(), known))) == []


def prepared(url: str, texts: list[str]) -> Iterator[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        for text in texts:
            try:
                # As the driver sends it, with $1 in place of %(name)s.
                connection.execute(b"prepare one as " + _query2pg(text.encode(), "utf-8")[0])
            except (psycopg.Error, ValueError):
                continue
            connection.execute("deallocate one")
            yield text
