"""The guide to point-in-time recovery, walked with PostgreSQL's own programs: archive, base backup, back to a moment, proof."""

import os
import pwd
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
import trio

from adapters.postgres.embedded import BINARIES, SETTINGS, EmbeddedPostgres
from adapters.postgres.migrate import migrate
from core.domain.identifiers import OrganizationId
from core.domain.record.events import Actor, Event, Target
from entrypoints.bootstrap import open_postern
from entrypoints.first_start import complete
from entrypoints.settings import Settings
from tests.e2e.postern import command
from tests.entrypoints.backups.installation import KEY, OWNER, PASSWORD, settings_for
from tests.places import ROOT, open_directory

GUIDE: Final = (ROOT / "docs" / "guides" / "point-in-time-recovery.md").read_text()
PORT: Final = "5433"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def archiving(archive: Path) -> dict[str, str]:
    """The settings of the guide's first step. The archive is filled at once here, and not after a minute."""
    (written,) = blocks("ini")
    settings = dict(line.split(" = ", 1) for line in written.splitlines())
    return {name: value.strip("'").replace("$ARCHIVE", str(archive)) for name, value in settings.items()}


class Operator:
    """Types the guide's lines as the user who runs PostgreSQL."""

    def __init__(self, owner: int, **variables: str) -> None:
        self._user = pwd.getpwuid(owner)
        self._variables = variables

    def types(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        as_root = os.geteuid() == 0
        return subprocess.run(
            ["/bin/sh", "-e", "-c", script],
            env={"PATH": f"{BINARIES}:{os.environ['PATH']}", **self._variables, **more},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            user=self._user.pw_uid if as_root else None,
            group=self._user.pw_gid if as_root else None,
        )


def postern(url: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {"PATH": f"{BINARIES}:{os.environ['PATH']}", "POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY.line()}
    return command(folder, *arguments, **settings)


@contextmanager
def stopped_afterwards(operator: Operator) -> Iterator[None]:
    try:
        yield
    finally:
        operator.types('pg_ctl --pgdata="$NEW" --mode=immediate stop')


def test_the_guide_leads_back_to_a_moment_and_the_copy_is_proved(tmp_path: Path) -> None:
    with open_directory() as place:
        place.chmod(0o711)
        archive, new = place / "kept" / "archive", place / "kept" / "new"
        server = EmbeddedPostgres(place / "old", settings=archiving(archive))
        with server:
            server.prepare_application()
            owner = server.cluster.stat().st_uid
            (place / "kept").mkdir()
            os.chown(place / "kept", owner, -1)
            # The embedded server has its settings on its command line, not in its directory.
            options = f"-p {PORT} -k {place / 'kept'} -c listen_addresses='' -c max_connections={SETTINGS['max_connections']}"
            operator = Operator(owner, ARCHIVE=str(archive), NEW=str(new), OPTIONS=options, base_url=server.url("postgres"))
            make, base, back, prove, serve = blocks("sh")
            assert operator.types(make).returncode == 0
            url = server.application_url
            settings = settings_for(url, tmp_path)
            trio.run(migrate, url, lambda _line: None)
            trio.run(begin, settings)
            done = operator.types(base)
            assert done.returncode == 0, done.stderr

            trio.run(act, settings, 1)
            (moment,) = asked(url, "select clock_timestamp()::text")
            trio.run(act, settings, 2)
            last = asked(server.url("postgres"), "select pg_walfile_name(pg_switch_wal())")[0]
            while not (archive / "wal" / last).exists():
                time.sleep(0.05)

            with stopped_afterwards(operator):
                done = operator.types(back, MOMENT=moment)
                assert done.returncode == 0, done.stdout + done.stderr
                copy = f"postgresql://postern@/postern?host={place / 'kept'}&port={PORT}"
                while asked(copy, "select pg_is_in_recovery()::text") == ["true"]:
                    time.sleep(0.05)
                assert asked(copy, "select target_id from audit_entries where action = 'role.created'") == ["1"]
                assert asked(url, "select target_id from audit_entries where action = 'role.created' order by id") == ["1", "2"]

                # Step 4, as the guide types it, with the settings of the installation that serves.
                (line,) = prove.splitlines()
                checked = postern(url, tmp_path, *line.replace('"$copy_url"', copy).split()[1:])
                assert checked.returncode == 0, checked.stdout + checked.stderr
                assert "the restored database: no faults found. Not verified: its contents" in checked.stdout
                assert asked(copy, "select email from users") == [OWNER]
                # Step 5.
                for line in serve.splitlines():
                    done = postern(copy, tmp_path, *line.partition(" postern ")[2].split())
                    assert done.returncode == 0, done.stdout + done.stderr
                assert "FAIL" not in done.stdout
                # The database that serves is no copy.
                refused = postern(url, tmp_path, "backup", "check", "--database", url)
                assert refused.returncode == 1
                assert "This is the database of this installation, not a copy" in refused.stderr


def asked(url: str, statement: str) -> list[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        return [str(row[0]) for row in connection.execute(statement.encode()).fetchall()]


async def begin(settings: Settings) -> None:
    assert settings.owner_password is not None
    assert settings.owner_password.reveal() == PASSWORD
    async with open_postern(settings) as postern:
        await complete(postern, settings)
        await postern.record.audit.link()


async def act(settings: Settings, number: int) -> None:
    async with open_postern(settings) as postern:
        async with postern.foundation.unit_of_work() as uow:
            await uow.record(Event("role.created", Actor(), Target("role", str(number)), OrganizationId(UUID(int=7))))
            await uow.commit()
        await postern.record.audit.link()
