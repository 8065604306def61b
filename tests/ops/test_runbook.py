"""The runbook's commands, settings, SQL and promises hold. People read it in an emergency, without time to check."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
import trio
from psycopg.conninfo import make_conninfo

from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres import grants
from adapters.postgres.embedded import BINARIES, EmbeddedPostgres
from adapters.postgres.migrate import migrate, require_current
from core.domain.identifiers import OrganizationId
from core.domain.record.audit import AuditFilter
from core.domain.record.events import Actor, Event, Target
from core.domain.requests import Page
from entrypoints.bootstrap import open_postern
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.settings import CONFIG, DECLARATIONS, Settings, read
from tests.e2e.postern import command
from tests.ops.operations.pages import RUNBOOK
from tests.places import ROOT

INLINE = re.findall(r"`([^`\n]+)`", RUNBOOK)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", RUNBOOK, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every `postern …` with arguments, in a block or in a sentence."""
    lines = [line.partition("  #")[0] for block in blocks("sh") for line in block.splitlines()] + INLINE
    words = r"(?:serve|migrate|owner|organization|access|backup|jobs|keys|audit|grants|config|doctor|version)"
    found = [re.search(rf"(?:^|[\s/&|(])postern ({words}\b[^;&|)]*)", line) for line in lines]
    return sorted({match[1].strip() for match in found if match})


def statements() -> list[str]:
    """Every SQL statement on our tables or the server's views. An id stands where the reader fills one in."""
    written = [line for block in blocks("sql") for line in block.split(";")] + INLINE
    bare = [re.sub(r"^\s*(--.*\n\s*)*", "", one).strip().rstrip(";") for one in written]
    return [
        one.replace("'…'", "'00000000-0000-7000-8000-000000000000'").replace("<pid>", "1")
        for one in bare
        if re.match(r"(select|update|delete from|insert into) ", one)
    ]


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one_that_postern_takes(command: str) -> None:
    command_line().parse_args(shlex.split(command.replace("--processes N", "--processes 2")))


def test_the_runbook_was_read_right() -> None:
    assert {"doctor", "grants --apply", "keys rotate --signing", "migrate --plan", "serve --processes N"} <= set(commands())
    assert len(statements()) > 10


def test_every_setting_exists() -> None:
    named = {name: one for one in DECLARATIONS for name in one.names}
    known = named.keys() | {f"{name}_FILE" for name, one in named.items() if one.secret} | {CONFIG}
    # The variable of the compose file chooses the image. Postern does not read it.
    assert set(re.findall(r"\bPOSTERN_[A-Z0-9_]+\b", RUNBOOK)) <= {*known, "POSTERN_VERSION"}


def test_every_event_that_it_looks_for_is_logged_somewhere() -> None:
    source = "\n".join(file.read_text() for folder in ("actors", "entrypoints", "adapters") for file in (ROOT / folder).rglob("*.py"))
    named = {word for word in INLINE if re.fullmatch(r"(actor|job|process|mail|embedded)_[a-z_]+", word)}
    assert named
    assert {word for word in named if f'"{word}"' not in source} == set()


def test_every_statement_runs(database_url: str) -> None:
    failed = {}
    with psycopg.connect(database_url) as connection:
        for statement in statements():
            try:
                connection.execute(statement)
            except psycopg.Error as error:
                failed[statement] = str(error)
            connection.rollback()
    assert failed == {}


def test_a_job_can_be_declared_dead_and_revived(database_url: str) -> None:
    (bury,) = [one for one in statements() if one.startswith("update jobs set state = 'dead'")]
    (revive,) = [one for one in statements() if one.startswith("update jobs set state = 'waiting'")]
    with psycopg.connect(database_url) as connection:
        connection.execute(
            """insert into jobs (id, kind, payload, attempts, run_at)
               values ('00000000-0000-7000-8000-000000000000', 'mail', '{}', 7, now() - interval '1 day')"""
        )
        assert connection.execute(bury).rowcount == 1
        assert connection.execute(revive).rowcount == 1
        found = connection.execute("select state, attempts, died_at, run_at <= now() from jobs").fetchone()
    assert found == ("waiting", 0, None, True)


@pytest.fixture
def installation(empty_database_url: str, worker_id: str) -> Iterator[dict[str, str]]:
    """The roles and the database of "Database roles", under names of this test's own. Yields connection strings of both roles."""
    names = {name: f"{name}_{worker_id}" for name in ("postern_owner", "postern_app")} | {"postern": f"runbook_{worker_id}"}
    (script,) = [block for block in blocks("sql") if "create role" in block]
    for name, own in names.items():
        script = re.sub(rf"\b{name}\b", own, script)
    before, _, inside = script.replace("'…'", "'made-up'").partition(f"\\connect {names['postern']}\n")
    database = make_conninfo(empty_database_url, dbname=names["postern"])
    try:
        _run(empty_database_url, before)
        _run(database, inside)
        yield {role: make_conninfo(database, user=names[role], password="made-up") for role in ("postern_owner", "postern_app")}
    finally:
        _run(empty_database_url, f"drop database if exists {names['postern']} with (force)")
        _run(empty_database_url, f"drop role if exists {names['postern_app']}; drop role if exists {names['postern_owner']}")


def _run(database: str, script: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in re.sub(r"--.*", "", script).split(";"):
            if statement.strip():
                connection.execute(statement.encode())


def test_the_role_that_serves_reads_and_writes_rows_and_changes_no_table(installation: dict[str, str]) -> None:
    trio.run(migrate, installation["postern_owner"], lambda _line: None)
    trio.run(require_current, installation["postern_app"])
    with psycopg.connect(installation["postern_app"], autocommit=True) as connection:
        tables = [name for (name,) in connection.execute("select tablename::text from pg_tables where schemaname = 'public'").fetchall()]
        assert "users" in tables
        for table in tables:
            for right in ("select", "insert", "update", "delete"):
                assert connection.execute("select has_table_privilege(%s, %s)", (table, right)).fetchone() == (True,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"alter table {table} add column surplus int".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"truncate {table}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("create table surplus (id int)")


def test_the_role_that_serves_can_only_add_to_the_audit_log(installation: dict[str, str], worker_id: str, tmp_path: Path) -> None:
    """With the rights that the runbook leaves this role, the application can do all its work with the log, and nothing more."""
    trio.run(migrate, installation["postern_owner"], lambda _line: None)
    assert "postern_owner:…@db/postern postern migrate --grant postern_app\n" in RUNBOOK
    assert trio.run(grants.apply, installation["postern_owner"], f"postern_app_{worker_id}").fault is None
    settings = read(
        {
            "POSTERN_DATABASE_URL": installation["postern_app"],
            "POSTERN_DATA_DIR": str(tmp_path),
            "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        }
    )
    trio.run(_use_the_audit_log, settings)
    with psycopg.connect(installation["postern_app"], autocommit=True) as connection:
        for table, column in (("audit_entries", "success"), ("audit_links", "digest")):
            assert connection.execute(f"select count(*) from {table}".encode()).fetchone() == (3,)
            for statement in (f"delete from {table}", f"update {table} set {column} = {column}", f"truncate {table} cascade"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())
        # This role deletes personal data when people are forgotten.
        assert connection.execute("delete from audit_personal").rowcount == 3


def test_the_role_that_serves_makes_backups(installation: dict[str, str], worker_id: str, tmp_path: Path) -> None:
    """`postern backup create` connects as this role, unless another is named."""
    trio.run(migrate, installation["postern_owner"], lambda _line: None)
    assert trio.run(grants.apply, installation["postern_owner"], f"postern_app_{worker_id}").fault is None
    with psycopg.connect(installation["postern_owner"], autocommit=True) as connection:
        made = [name for (name,) in connection.execute("select make_partitions('events', 5)").fetchall()]
    assert made
    settings = {
        "POSTERN_DATABASE_URL": installation["postern_app"],
        "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line(),
        "PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}",  # a pg_dump as new as the server
    }
    done = command(tmp_path, "backup", "create", "--to", str(tmp_path / "backups"), **settings)
    assert done.returncode == 0, done.stderr


async def _use_the_audit_log(settings: Settings) -> None:
    acme = OrganizationId(UUID(int=7))
    faults: list[object] = []
    async with open_postern(settings) as postern:
        async with postern.foundation.unit_of_work() as uow:
            event = Event("role.created", Actor(address="192.0.2.7"), Target("role", "1"), acme)
            await uow.record(event)
            await uow.record_all([event, event])
            await uow.commit()
        assert await postern.record.audit.link() == 3
        assert (await postern.record.audit.list(acme, AuditFilter(), Page())).total == 3
        assert (await postern.record.audit.list(acme, AuditFilter(success=True), Page())).total == 3
        await postern.record.audit.verify(lambda _name, finding: faults.append(finding), lambda _chain: None)
        assert (await postern.record.audit.backlog()).pending == 0
    assert not faults


def test_the_embedded_database_is_found_as_written(tmp_path: Path) -> None:
    (data,) = [line.partition(" ")[0] for block in blocks("sh") for line in block.splitlines() if line.startswith("DATA=")]
    assert read({}).data_dir == Path(data.partition("=")[2])
    (line,) = {line for block in blocks("sh") for line in block.splitlines() if line.startswith("BIN=$(")}
    script = f'{line}; echo "$BIN"'.replace(".venv/bin/python", shlex.quote(sys.executable))
    shown = subprocess.run(
        ["/bin/sh", "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    ).stdout
    assert shown.strip() == str(BINARIES)


def test_the_log_of_the_embedded_database_is_where_the_runbook_says(tmp_path: Path) -> None:
    (written,) = re.findall(r"its log is `<data dir>/([^`]+)`", RUNBOOK)
    assert tmp_path / written == EmbeddedPostgres(tmp_path).log_file


def test_connections_are_counted_as_the_runbook_says() -> None:
    (example,) = re.findall(r"Two machines . (\d) processes . \((\d+) \+ (\d)\) = (\d+)", RUNBOOK)
    count, size, more, total = map(int, example)
    assert 2 * count * (size + more) == total
