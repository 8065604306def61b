"""The doctor's findings without a database, or without enough of a resource."""

import argparse
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from adapters.postgres.backups.snapshots import server_version
from adapters.postgres.database import PostgresDatabase
from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import migrate as apply
from adapters.postgres.migrate import shipped_views_and_functions
from core.frozen import replace
from entrypoints import checks
from entrypoints.bootstrap import open_postern
from entrypoints.checks import Finding, Verdict
from entrypoints.cli import doctor
from entrypoints.failures import StartFailed
from entrypoints.installation import require_answer
from entrypoints.settings import Settings, read
from tests.adapters.crypto.known_passwords.lists import built
from tests.adapters.postgres.oldest.server import old_server
from tests.adapters.postgres.wire import Wire
from tests.adapters.shifted_clock import ShiftedClock
from tests.e2e.postern import command
from tests.entrypoints.backups.installation import with_programs_of
from tests.places import ROOT
from tests.tools import needs

KEY = "2026-01-31.abc:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def on(url: str) -> Settings:
    return read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY})


async def test_a_database_that_is_away_or_says_nothing_is_not_waited_for() -> None:
    """A server would wait for half a minute with these settings; the doctor does not."""
    with pytest.raises(StartFailed, match=r"The database cannot be reached: .*refused"):
        await require_answer(on("postgresql://me@127.0.0.1:1/postern"), 20)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(StartFailed, match=r"no answer within 0\.2 s"):
        await require_answer(on(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/postern"), 0.2)


async def test_of_two_hosts_the_first_may_be_silent(database_url: str) -> None:
    """The server is ready with this address, so the doctor must not say that the database is away."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with Wire(database_url) as wire:
            port = f"{silent.getsockname()[1]},{wire.port}"
            both = {"host": "127.0.0.1,127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"}
            url = make_conninfo("", **{**conninfo_to_dict(wire.url), **both})
            away: list[str] = []
            await doctor._notice_absence(on(url), away)
            assert away == []


async def test_an_embedded_database_that_does_not_run_is_not_away(tmp_path: Path) -> None:
    await require_answer(read({"POSTERN_DATA_DIR": str(tmp_path)}), 0.1)


def test_the_doctor_says_at_once_that_the_database_is_away(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        examined = command(
            tmp_path,
            "doctor",
            POSTERN_DATABASE_URL=f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/postern",
            POSTERN_ENCRYPTION_KEYS=KEY,
        )
        # The doctor tries once, for five seconds. A server would go on for thirty.
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert examined.returncode == 1
    assert examined.stdout.splitlines()[-1] == "FAIL  database           The database cannot be reached: no answer within 5 s"
    assert not examined.stderr


def test_a_data_directory_with_too_little_space_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read({"POSTERN_DATA_DIR": str(tmp_path)})
    monkeypatch.setattr(checks, "_LITTLE_SPACE", 1)
    monkeypatch.setattr(checks, "_TOO_LITTLE_SPACE", 0)
    assert checks.data_directory(settings).verdict is Verdict.OK
    monkeypatch.setattr(checks, "_LITTLE_SPACE", 1 << 60)
    assert checks.data_directory(settings).verdict is Verdict.SOON
    monkeypatch.setattr(checks, "_TOO_LITTLE_SPACE", 1 << 60)
    found = checks.data_directory(settings)
    assert found.verdict is Verdict.FAIL
    assert found.text.endswith("GiB free: make room, since writes fail when it is full")


def test_the_folders_of_mails_and_backups_need_room_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mails, backups, data = tmp_path / "mails", tmp_path / "backups", tmp_path / "data"
    settings = read({"POSTERN_DATA_DIR": str(data), "POSTERN_MAIL": f"file:{mails}"})
    monkeypatch.setattr(checks, "_LITTLE_SPACE", 1 << 60)
    monkeypatch.setattr(checks, "_TOO_LITTLE_SPACE", 0)
    found = checks.mail_folder(settings)
    assert (found.verdict, found.text.startswith(f"{mails}, ")) == (Verdict.SOON, True)
    assert checks.mail_folder(read({"POSTERN_MAIL": "console"})).text == "not used"
    # Nobody has made a backup yet; a folder that an operator names has to be there.
    assert checks.backup_folder(settings, None).verdict is Verdict.OK
    assert checks.backup_folder(settings, backups).verdict is Verdict.FAIL
    for given, folder in ((backups, backups), (None, data / "backups")):
        folder.mkdir(parents=True)
        found = checks.backup_folder(settings, given)
        assert (found.verdict, found.text.startswith(f"{folder}, ")) == (Verdict.SOON, True)
    monkeypatch.setattr(checks, "_TOO_LITTLE_SPACE", 1 << 60)
    assert checks.backup_folder(settings, backups).verdict is Verdict.FAIL
    assert checks.mail_folder(settings).verdict is Verdict.FAIL


def test_it_says_where_browsers_would_not_bind_their_sessions() -> None:
    offered = {"POSTERN_BOUND_SESSIONS": "offer"}
    found = checks.bound_sessions(read({}))
    assert (found.verdict, found.is_used) == (Verdict.OK, False)
    for url, verdict in (
        ("https://id.example.org", Verdict.OK),
        ("http://localhost:8000", Verdict.OK),
        ("http://id.example.org", Verdict.WARN),
    ):
        assert checks.bound_sessions(read({**offered, "POSTERN_BASE_URL": url})).verdict is verdict


def test_it_says_what_knows_stolen_passwords_and_how_old_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "filter"
    found = checks.stolen_passwords(read({}))
    assert (found.verdict, found.is_used, found.text.startswith("the shipped list alone")) == (Verdict.OK, False, True)
    found = checks.stolen_passwords(read({"POSTERN_PASSWORD_RANGES": "https://ranges.example/range"}))
    assert found == Finding(Verdict.OK, "asked at https://ranges.example/range")
    settings = read({"POSTERN_PASSWORD_FILTER": str(file)})
    assert checks.stolen_passwords(settings) == Finding(Verdict.FAIL, f"the file {file} cannot be read: No such file or directory")
    built(file, "one", "two")
    monkeypatch.setattr(checks, "_OLD_LISTS", timedelta(days=365_000))
    found = checks.stolen_passwords(settings)
    assert (found.verdict, found.text.startswith("2 hashes of 2026-05-01, "), found.is_used) == (Verdict.OK, True, True)
    monkeypatch.setattr(checks, "_OLD_LISTS", timedelta(days=-365_000))
    found = checks.stolen_passwords(settings)
    assert (found.verdict, "postern passwords build" in found.text) == (Verdict.WARN, True)
    file.write_bytes(file.read_bytes()[:-1])
    assert "is cut off, or damaged" in checks.stolen_passwords(settings).text


async def test_it_says_of_clocks_that_differ_or_are_in_doubt_and_of_a_table_in_the_way(database_url: str, tmp_path: Path) -> None:
    settings = read({"POSTERN_DATABASE_URL": database_url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_DATA_DIR": str(tmp_path)})
    async with open_postern(settings) as postern:
        assert [(await check(postern)).verdict for check in (checks.clock, checks.months)] == [Verdict.OK, Verdict.OK]
        for ahead, words in (
            (timedelta(days=60), "this process is 5184000 s ahead of the database"),
            (timedelta(days=-1), "86400 s behind"),
        ):
            database = PostgresDatabase(postern.foundation.pool, ShiftedClock(ahead))
            found = await checks.clock(replace(postern, foundation=replace(postern.foundation, database=database)))
            assert (found.verdict, words in found.text) == (Verdict.FAIL, True)
        async with await Connection.connect(database_url) as connection:
            await connection.execute("insert into storage_samples values (current_date - 9, 'users', 1)")
            (name,) = await (
                await connection.execute(
                    "select 'events_' || to_char(date_trunc('month', now() at time zone 'UTC') + interval '3 months', 'YYYY_MM')"
                )
            ).fetchone() or ("",)
            await connection.execute(f"alter table events detach partition partitions.{name}".encode())
        found = await checks.clock(postern)
        assert (found.verdict, "nothing is deleted for its age" in found.text) == (Verdict.SOON, True)
        found = await checks.months(postern)
        assert (found.verdict, name in found.text) == (Verdict.SOON, True)


@pytest.mark.parametrize(
    ("migrate", "verdict", "said"),
    [("on", Verdict.WARN, "or the next `postern serve` applies it"), ("off", Verdict.FAIL, "run `postern migrate`, or no process starts")],
)
async def test_it_says_who_applies_a_migration(empty_database_url: str, migrate: str, verdict: Verdict, said: str) -> None:
    settings = read({"POSTERN_DATABASE_URL": empty_database_url, "POSTERN_ENCRYPTION_KEYS": KEY, "POSTERN_MIGRATE": migrate})
    found, usable = await checks.schema(settings)
    assert (found.verdict, usable) == (verdict, False)
    assert found.text.endswith(said)
    # The views and functions come last. Of them alone, the same is said.
    assert f", {shipped_views_and_functions()} not applied yet; " in found.text
    await apply(empty_database_url, lambda _line: None)
    async with await Connection.connect(empty_database_url) as connection:
        await connection.execute("drop function schema_edition()")
    assert (await checks.schema(settings))[0] == Finding(verdict, found.text[found.text.index("edition ") :])


async def test_it_tells_views_and_functions_of_a_newer_postern(database_url: str) -> None:
    settings = read({"POSTERN_DATABASE_URL": database_url, "POSTERN_ENCRYPTION_KEYS": KEY})
    found, usable = await checks.schema(settings)
    assert (found.verdict, usable) == (Verdict.OK, True)
    newer = shipped_views_and_functions().edition.number + 1
    body = f"select {newer}, 'another'::text"
    async with await Connection.connect(database_url) as connection:
        await connection.execute(
            f"create or replace function schema_edition(out number integer, out digest text) language sql as $$ {body} $$".encode()
        )
    told = f"at edition {newer} of the views and functions, from a newer Postern; this one can run on it"
    assert await checks.schema(settings) == (Finding(Verdict.WARN, told), True)


@needs("pg_ctl")
async def test_it_says_when_the_database_compiles_for_this_role() -> None:
    with old_server(jit="on") as server, server.database() as url:

        async def examined() -> Finding:
            return await checks.database(read({"POSTERN_DATABASE_URL": url, "POSTERN_ENCRYPTION_KEYS": KEY}))

        async with await Connection.connect(url) as connection:
            (can_compile,) = await (await connection.execute("select pg_jit_available()")).fetchone() or (False,)
        found = await examined()
        # A server that was built without a compiler (as the embedded one is) has `jit` on and compiles nothing.
        assert found.verdict is (Verdict.WARN if can_compile else Verdict.OK)
        assert ("alter role postgres set jit = off" in found.text) is can_compile
        async with await Connection.connect(url) as connection:
            await connection.execute("alter role postgres set jit = off")
        found = await examined()
        assert (found.verdict, "jit" in found.text) == (Verdict.OK, False)


def test_few_descriptors_are_told(tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", sys.executable, "-m", "entrypoints.cli.main", "doctor", "--json"]
    variables = {"PATH": os.environ["PATH"], "POSTERN_DATA_DIR": str(tmp_path), "POSTERN_DATABASE_URL": "postgresql://me@127.0.0.1:1/x"}
    variables["POSTERN_ENCRYPTION_KEYS"] = KEY
    examined = subprocess.run(limited, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    (found,) = (one for one in json.loads(examined.stdout)["items"] if one["code"] == "descriptors")
    assert (found["verdict"], found["text"].startswith("at most 64,")) == ("warn", True)


async def test_a_mail_server_that_dribbles_is_not_well(nursery: trio.Nursery) -> None:
    """Each of its bytes comes in time, and no mail goes."""

    async def dribble(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                await stream.send_all(b"2")
                await trio.sleep(0.01)

    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    nursery.start_soon(trio.serve_listeners, dribble, [listener])
    port = listener.socket.getsockname()[1]
    settings = read({"POSTERN_MAIL": f"smtp://127.0.0.1:{port}?starttls=never"})
    found = await checks.mail(settings, within=0.2)
    assert (found.verdict, "is not through within 0.2 s" in found.text) == (Verdict.FAIL, True)
    nursery.cancel_scope.cancel()


def test_the_whole_look_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "LONGEST", 0.2)

    async def hang(*_: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(doctor, "_report_all", hang)
    given = argparse.Namespace(processes=None, backups=None, json=False)
    assert doctor.run(given, read({"POSTERN_DATA_DIR": str(tmp_path)})) == 1
    assert "FAIL  doctor             stopped after 0.2 s: checks that are not listed above did not run" in capsys.readouterr().out


async def test_it_tries_what_the_night_will_do(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_programs_of(await server_version(database_url), monkeypatch)
    tried = await checks.next_backup(on(database_url))
    assert (tried.verdict, tried.text.startswith("can read every table; pg_dump ")) == (Verdict.OK, True)
    # The machine's programs may be too old for the server, or not there. Backups may be made elsewhere.
    (tmp_path / "pg_restore").touch()
    (tmp_path / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 13.4'\n")
    (tmp_path / "pg_dump").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    tried = await checks.next_backup(on(database_url))
    assert tried.verdict is Verdict.WARN
    assert "is of version 13, and the server of version" in tried.text


async def test_it_says_what_a_backup_could_not_read(database_url: str) -> None:
    async with await Connection.connect(database_url) as connection:
        # A type without a binary form, as an extension may have one: only a try with a row shows it.
        await connection.execute("alter table tiers add column acl aclitem default '=r/postgres'")
    tried = await checks.next_backup(on(database_url))
    assert tried.verdict is Verdict.FAIL
    assert tried.text.startswith("`postern backup create` would fail: the table tiers cannot be read: ")
