"""An import that is killed in the middle, and run again."""

import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from adapters.crypto.key_ring import EncryptionKey
from tests.adapters.imports.importing import people_file
from tests.e2e.postern import command, environment, until
from tests.e2e.warm.processes import COMMAND, PosternProcess
from tests.places import ROOT

KILLS = 2
BATCH = 500


def counts(url: str) -> tuple[int, ...]:
    tables = ("users", "imported_people", "memberships", "mfa_secrets", "audit_entries where action = 'user.imported'")
    with psycopg.connect(url) as connection:
        found = [connection.execute(f"select count(*) from {one}".encode()).fetchone() for one in tables]
    return tuple(one[0] for one in found if one is not None)


def test_an_import_that_was_killed_ends_as_any_other(database_url: str, tmp_path: Path) -> None:
    crowd = 8 * BATCH
    file = people_file(
        tmp_path / "people.ndjson",
        [{"id": str(number), "email": f"person{number}@example.org", "totp_secret": "2PRXZWZAYYDAWCD2"} for number in range(crowd)],
    )
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "insert into organizations (id, slug, name, status, max_users, created_at, updated_at)"
            " values (gen_random_uuid(), 'acme', 'Acme', 'active', 100000, now(), now())"
        )
    settings = {"POSTERN_DATABASE_URL": database_url, "POSTERN_ENCRYPTION_KEYS": EncryptionKey("test", b"k" * 32).line()}
    words = ["import", "postern", str(file), "--organization", "acme"]
    done = 0
    for _ in range(KILLS):
        process = PosternProcess(
            [*COMMAND, *words], env=environment(tmp_path, settings), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        # It is at work: at least one further batch is there.
        until(partial(has_more, database_url, done))
        process.send_signal(signal.SIGKILL)
        process.wait()
        # A commit may still be under way.
        until(lambda: not sessions(database_url))
        users, *others = counts(database_url)
        assert users % BATCH == 0
        assert others == [users] * len(others)
        done = users
    assert done < crowd, "the import was over before it was killed"
    finished = command(tmp_path, *words, "--json", **settings)
    assert finished.returncode == 0, finished.stderr
    assert counts(database_url) == (crowd,) * 5
    with psycopg.connect(database_url) as connection:
        row: Any = connection.execute(
            "select (select member_count from organizations), count(distinct email_key), count(distinct id) from users"
        ).fetchone()
    assert row == (crowd, crowd, crowd)


def has_more(url: str, before: int) -> bool:
    return counts(url)[1] > before


def sessions(url: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend'"
        ).fetchall()
