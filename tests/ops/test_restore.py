"""The runbook's restore, typed as the runbook says, moves an installation from one PostgreSQL to another."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
import pytest
import trio

from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.embedded import BINARIES, EmbeddedPostgres
from adapters.postgres.migrate import migrate
from core.domain.identifiers import OrganizationId
from core.domain.record.events import Actor, Event, Target
from entrypoints.bootstrap import open_postern
from entrypoints.first_start import complete
from entrypoints.settings import Settings, read
from tests.ops.operations.pages import RUNBOOK
from tests.places import ROOT, open_directory

KEYS: Final = EncryptionKey("test", b"k" * 32).line()
OWNED, SERVING = "postern_owner", "postern_app"


def section(name: str) -> str:
    return RUNBOOK.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def make_command(folder: Path) -> None:
    command = folder / "postern"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m entrypoints.cli.main "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


class Cluster:
    """A PostgreSQL with the runbook's roles, and the connection of the operator who types its commands."""

    def __init__(self, directory: Path) -> None:
        self.server = EmbeddedPostgres(directory, settings={"fsync": "off"})

    def url(self, role: str) -> str:
        return self.server.url("postern", role)

    def run(self, statements: str, *, database: str = "postgres") -> None:
        with psycopg.connect(self.server.url(database), autocommit=True) as connection:
            for statement in re.sub(r"--.*", "", statements).replace("'…'", "'made-up'").split(";"):
                if statement.strip():
                    connection.execute(statement.encode())

    def shell(self, script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        make_command(folder)
        return subprocess.run(
            ["/bin/sh", "-e", "-c", script],
            cwd=folder,
            env={
                "PATH": f"{folder}:{BINARIES}:{os.environ['PATH']}",
                "PGHOST": str(self.server.socket_dir),
                "PGPORT": "5432",
                "PGUSER": "postgres",
                "POSTERN_ENCRYPTION_KEYS": KEYS,
                "POSTERN_DATA_DIR": str(folder),
                "owner_url": self.url(OWNED),
                "app_url": self.url(SERVING),
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def old_and_new() -> Iterator[tuple[Cluster, Cluster]]:
    with open_directory() as here, open_directory() as there:
        old, new = Cluster(here), Cluster(there)
        with old.server, new.server:
            yield old, new


def test_a_restore_on_another_cluster_serves_and_still_only_adds_to_the_audit_log(
    old_and_new: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    old, new = old_and_new
    everything, inside = roles_block().split("\\connect postern\n")
    old.run(everything)
    old.run(inside, database="postern")
    done = old.shell('export POSTERN_DATABASE_URL="$owner_url"; postern migrate; postern grants --apply', tmp_path)
    assert done.returncode == 0, done.stderr
    settings = read({"POSTERN_DATABASE_URL": old.url(SERVING), "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_DATA_DIR": str(tmp_path)})
    trio.run(_live, settings)
    (lines,) = [block for block in blocks("sh", section("Backup and restore")) if block.startswith("postern backup create --to /backups")]
    done = old.shell(lines.replace("/backups", f"{tmp_path}/backups"), tmp_path, POSTERN_DATABASE_URL=old.url(OWNED))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified. It can be restored, is complete and can be decrypted, and sign-in works." in done.stdout

    new.run("; ".join(one for one in roles_block().split(";") if re.match(r"\s*(--.*\s*)*(create|alter) role", one)))
    (restore,) = [block for block in blocks("sh", section("Backup and restore")) if block.startswith("createdb")]
    done = new.shell(restore.replace("/backups", f"{tmp_path}/backups"), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^ok +grants +postern_app reads and writes rows, and can only add to the audit log$", done.stdout, re.MULTILINE)
    assert "FAIL" not in done.stdout

    with psycopg.connect(new.url(SERVING), autocommit=True) as connection:
        assert connection.execute("select count(*) from users").fetchone() == (1,)
        connection.execute("update users set updated_at = now()")
        for statement in ("delete from audit_entries", "update audit_links set digest = digest"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
    # No other role can connect, and the serving role can use tables that later migrations make.
    new.run("create role stranger login")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(new.url("stranger"))
    with psycopg.connect(new.url(OWNED), autocommit=True) as connection:
        connection.execute("create table later (id integer)")
    with psycopg.connect(new.url(SERVING), autocommit=True) as connection:
        connection.execute("insert into later values (1)")
    # The server starts on the restored database: its keys decrypt the secrets there, and the audit log is whole.
    trio.run(_live, read({"POSTERN_DATABASE_URL": new.url(SERVING), "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_DATA_DIR": str(tmp_path)}))
    verified = new.shell('POSTERN_DATABASE_URL="$app_url" postern audit verify', tmp_path)
    assert verified.returncode == 0, verified.stdout


def backed_up(cluster: Cluster, folder: Path) -> None:
    """An installation with the runbook's roles and grants, and its backup."""
    everything, inside = roles_block().split("\\connect postern\n")
    cluster.run(everything)
    cluster.run(inside, database="postern")
    script = f'export POSTERN_DATABASE_URL="$owner_url"; postern migrate --grant {SERVING}; postern backup create --to "{folder}/backups"'
    done = cluster.shell(script, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def prepared(cluster: Cluster, *, roles: str = "") -> None:
    """The database that the whole block of the runbook makes, and roles of the operator's."""
    everything, inside = roles_block().split("\\connect postern\n")
    cluster.run(everything + roles)
    cluster.run(inside, database="postern")


RESTORE: Final = 'POSTERN_DATABASE_URL="$owner_url" postern backup restore --hold --in "{}/backups"'
NOW: Final = "Now run `postern grants --apply` as the owner of the tables, and `postern doctor`."


def test_a_restore_into_a_database_of_the_whole_block_ends_with_the_grants(old_and_new: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    old, new = old_and_new
    backed_up(old, tmp_path)
    prepared(new, roles="create role reporter login password 'made-up'; ")
    done = new.shell(RESTORE.format(tmp_path), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{SERVING} has the permissions that serving needs. Now run `postern doctor`."
    found = new.shell('POSTERN_DATABASE_URL="$app_url" postern doctor || true', tmp_path).stdout
    assert re.search(rf"^ok +grants +{SERVING} reads and writes rows, and can only add to the audit log$", found, re.MULTILINE), found
    with psycopg.connect(new.url("postgres"), autocommit=True) as connection:
        assert connection.execute("select has_table_privilege('reporter', 'users', 'select')").fetchone() == (False,)


def test_a_serving_role_of_another_name_gets_the_grants_where_the_database_is_prepared_for_it(
    old_and_new: tuple[Cluster, Cluster], tmp_path: Path
) -> None:
    """The manifest knows no role of that name."""
    old, new = old_and_new
    backed_up(old, tmp_path)
    everything, inside = (part.replace(SERVING, "serves") for part in roles_block().split("\\connect postern\n"))
    new.run(everything)
    new.run(inside, database="postern")
    done = new.shell(RESTORE.format(tmp_path), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "serves has the permissions that serving needs. Now run `postern doctor`."


def test_where_the_grants_are_not_ours_the_last_line_is_the_command(old_and_new: tuple[Cluster, Cluster], tmp_path: Path) -> None:
    old, new = old_and_new
    backed_up(old, tmp_path)
    prepared(new)
    new.run(
        f"alter database postern owner to postgres; revoke connect on database postern from {SERVING}; "
        f"grant connect on database postern to {OWNED}"
    )
    new.run(f"create schema partitions authorization {OWNED}", database="postern")
    done = new.shell(RESTORE.format(tmp_path), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "postern grants --apply"
    assert f"The database role {SERVING} may not connect to the database" in done.stdout
    told = new.shell(f"dropdb postern; createdb --owner=postern_owner postern; {RESTORE.format(tmp_path)} --json", tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stderr.splitlines()[-1] == NOW


def test_an_upgrade_is_typed_as_written_but_for_the_new_code_and_the_restart(tmp_path: Path) -> None:
    with open_directory() as here:
        cluster = Cluster(here)
        with cluster.server:
            everything, inside = roles_block().split("\\connect postern\n")
            cluster.run(everything)
            cluster.run(inside, database="postern")
            done = cluster.shell('POSTERN_DATABASE_URL="$owner_url" postern migrate --grant postern_app', tmp_path)
            assert done.returncode == 0, done.stderr
            kept = {
                "POSTERN_DATABASE_URL": cluster.url(SERVING),
                "POSTERN_ENCRYPTION_KEYS": KEYS,
                "POSTERN_BASE_URL": "https://id.example.com",
            }
            trio.run(_live, read({**kept, "POSTERN_DATA_DIR": str(tmp_path)}))
            (tmp_path / "postern.conf").write_text("".join(f"{name}={value}\n" for name, value in kept.items()))
            block = blocks("sh", section("Upgrade"))[0]
            lines = [line for line in block.splitlines() if re.match("(postern|export|unset) ", line)]
            assert len(lines) == len([line for line in block.splitlines() if re.match("[a-z]", line)]) - 2
            script = "\n".join(lines).replace("/backups", f"{tmp_path}/backups")
            done = cluster.shell(script, tmp_path, POSTERN_CONFIG=str(tmp_path / "postern.conf"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^ok +schema +current", done.stdout, re.MULTILINE)
    assert re.search(r"^ok +grants +postern_app reads", done.stdout, re.MULTILINE)


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Path]:
    """The directory of an embedded installation that was backed up as the runbook says. Its last audit entry was not linked yet."""
    with open_directory() as directory:
        data = directory / "data"
        with EmbeddedPostgres(data, settings={"fsync": "off"}) as database:
            database.prepare_application()
            settings = read(
                {"POSTERN_DATABASE_URL": database.application_url, "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_DATA_DIR": str(data)}
            )
            trio.run(migrate, database.application_url, lambda _line: None)
            trio.run(_live, settings)
            trio.run(_act, settings)
            (data / "encryption.keys").write_text(f"{KEYS}\n")
            backup = re.sub("^DATA=.*", "", embedded_block("DATA=.postern"), flags=re.MULTILINE)
            done = typed(f"DATA={data}\n{backup}", tmp_path)
            assert done.returncode == 0, done.stderr
        yield directory


def embedded_block(start: str) -> str:
    (block,) = [block for block in blocks("sh", section("Backup and restore")) if block.startswith(start)]
    return block


def typed(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    make_command(folder)
    return subprocess.run(
        ["/bin/sh", "-e", "-c", script.replace(".venv/bin/python", sys.executable)],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def restored(directory: Path) -> str:
    """The runbook's restore block for our directory, without the start of the server at its end."""
    return re.sub("^POSTERN_DATA_DIR=.*serve.*", "", embedded_block("install -d"), flags=re.MULTILINE).replace(
        "/srv/new", str(directory / "new")
    )


def test_a_restore_of_the_embedded_database_goes_on_with_its_keys(embedded: Path, tmp_path: Path) -> None:
    directory = embedded
    done = typed(restored(directory), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (directory / "new" / "encryption.keys").read_text().strip() == KEYS
    with EmbeddedPostgres(directory / "new") as database:
        url = database.application_url
        now = read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_DATA_DIR": str(directory)})
        trio.run(_live, now)
        assert trio.run(_faults, now) == []
        # The restore refuses to overwrite data, also while another process uses the directory.
        again = typed(restored(directory), tmp_path)
        assert "The database is not empty" in again.stderr
    again = typed(restored(directory), tmp_path)
    assert again.returncode != 0
    assert "The database is not empty" in again.stderr


@pytest.mark.usefixtures("embedded")
def test_an_embedded_installation_moves_to_a_database_of_its_own_as_written(empty_database_url: str, tmp_path: Path) -> None:
    (block,) = [block for block in blocks("sh", section("Backup and restore")) if "--file=postern.sql" in block]
    done = typed(block, tmp_path, owner_url=empty_database_url)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*.sql")) == []
    now = read({"POSTERN_DATABASE_URL": empty_database_url, "POSTERN_ENCRYPTION_KEYS": KEYS, "POSTERN_DATA_DIR": str(tmp_path)})
    trio.run(_live, now)
    assert trio.run(_faults, now) == []


@pytest.mark.usefixtures("embedded")
def test_what_is_moved_asks_nothing_that_older_servers_do_not_know(tmp_path: Path) -> None:
    """Looks at settings that older servers do not know. The runs of the tests on older servers cover the rest."""
    (block,) = [block for block in blocks("sh", section("Backup and restore")) if "--file=postern.sql" in block]
    done = typed("".join(block.splitlines(keepends=True)[:3]), tmp_path)
    assert done.returncode == 0, done.stderr
    known = set(re.findall(r"^SET (\w+)", (tmp_path / "postern.sql").read_text(), re.MULTILINE))
    assert "statement_timeout" in known
    assert "transaction_timeout" not in known


def roles_block() -> str:
    (block,) = [block for block in blocks("sql", section("Database roles")) if "create role" in block]
    return block


async def _live(settings: Settings) -> None:
    """Starts Postern, and records an event."""
    async with open_postern(settings) as postern:
        await complete(postern, settings)
    await _act(settings)
    async with open_postern(settings) as postern:
        await postern.record.audit.link()


async def _act(settings: Settings) -> None:
    async with open_postern(settings) as postern, postern.foundation.unit_of_work() as uow:
        await uow.record(Event("role.created", Actor(), Target("role", "1"), OrganizationId(UUID(int=7))))
        await uow.commit()


async def _faults(settings: Settings) -> list[str]:
    """The faults that `postern audit verify` finds. Every entry must be linked."""
    faults: list[str] = []
    async with open_postern(settings) as postern:
        await postern.record.audit.verify(lambda name, finding: faults.append(f"{name} {finding}"), lambda _chain: None)
        assert (await postern.record.audit.backlog()).pending == 0
    return faults
