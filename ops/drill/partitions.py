"""Moves a large installation to tables that are cut by month, while the release before serves it, and tells who had to wait.

    .venv/bin/python -m ops.drill partitions --sign-ins 1000000

A PostgreSQL of the drill's own gets the schema of the release before and that many sign-ins, events and deliveries. A server of that
release runs, people sign in all the time, and its actors work. Meanwhile the migrations run, are killed in the middle, and run again.
Exit status 1 if a request failed or waited too long, or if a row is missing.
"""

import argparse
import io
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import trio

from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.migrate import migrate, shipped
from ops.bench.filling.fill import fill
from ops.bench.harness import directory, serving
from ops.bench.inside import hashed
from ops.bench.report import ROOT
from ops.drill.migration import PASSWORD, PEOPLE, SERVER, People, fill_sign_ins, say

FIRST: Final = "partition_bounds"
TABLES: Final = ("login_events", "events", "webhook_deliveries")
# The newest commit without the first of these migrations.
_BEFORE: Final = ("log", "-1", "--first-parent", "-m", "--diff-filter=A", "--format=%H^1", "--")
_EVENTS: Final = """
    insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
    select id, 'user.login.success', null, 'user', user_id::text, '{}', created_at from login_events;
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, delivered_at, created_at, updated_at)
    select id, gen_random_uuid(), id, 'user.login.success', created_at, created_at, created_at from login_events;
    vacuum analyze events; vacuum analyze webhook_deliveries;
"""


async def drill(sign_ins: int, quiet: float) -> bool:
    migrations = shipped()
    first = next(one.number for one in migrations if one.name == FIRST)
    with directory() as place, EmbeddedPostgres(place / "server", settings=SERVER) as database:
        tree = await trio.to_thread.run_sync(_release_before, place / "before", f"{first:04}_{FIRST}.sql")
        database.prepare_application()
        url = database.application_url
        await migrate(url, say, migrations[: _carried(tree)])
        async with serving(place, database_url=url, tree=tree) as server:
            people = await trio.to_thread.run_sync(fill, url, PEOPLE, await hashed(server.settings, PASSWORD))
            size = await trio.to_thread.run_sync(fill_sign_ins, database.url("postern"), sign_ins, 1, people)
            await trio.to_thread.run_sync(_fill_the_rest, database.url("postern"))
            print(f"{sign_ins} sign-ins, events and deliveries each; sign-ins: {size}", flush=True)
            crowd = People(server, people)
            async with trio.open_nursery() as nursery:
                crowd.begin(nursery, url)
                await crowd.during("without a migration", partial(trio.sleep, quiet))
                await crowd.during("killed in the middle", partial(_killed, url))
                await crowd.during("to its end", partial(migrate, url, say, migrations))
                await crowd.during("afterwards, the release before", partial(trio.sleep, quiet))
                nursery.cancel_scope.cancel()
        counts = await trio.to_thread.run_sync(_counts, database.url("postern"))
        print(", ".join(f"{table}: {count} rows in {parts} parts" for table, (count, parts) in counts.items()), flush=True)
        # Meanwhile, the janitor takes deliveries away, because nobody has their webhooks.
        return all(phase.holds() for phase in crowd.phases) and all(counts[table][0] >= sign_ins for table in ("login_events", "events"))


def _release_before(place: Path, migration: str) -> Path:
    """The code of the commit before the migration, beside the migrations that came between."""

    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout

    found = git(*_BEFORE, f"adapters/postgres/migrations/{migration}").decode().split()
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", found[0]))) as archive:
        archive.extractall(place, filter="data")
    return place


def _carried(tree: Path) -> int:
    return len(list((tree / "adapters" / "postgres" / "migrations").glob("*.sql")))


def _fill_the_rest(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in _EVENTS.split(";"):
            if statement.strip():
                connection.execute(statement.encode())


async def _killed(url: str) -> None:
    """A process that migrates, killed while it checks the rows."""
    command = [sys.executable, "-c", f"import trio; from adapters.postgres.migrate import migrate; trio.run(migrate, {url!r}, print)"]
    process = await trio.lowlevel.open_process(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None  # noqa: S101 - for the type checker
    said = b""
    while b"Step 2" not in said:
        received = await process.stdout.receive_some()
        if not received:
            break
        said += received
    process.kill()
    await process.wait()
    say(said.decode().splitlines()[-1] + " killed")


def _counts(url: str) -> dict[str, tuple[int, int]]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = {}
        for table in TABLES:
            row = connection.execute(f"select count(*), count(distinct tableoid) from {table}".encode()).fetchone()
            found[table] = (0, 0) if row is None else (row[0], row[1])
        return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.drill partitions", description=__doc__)
    parser.add_argument("--sign-ins", type=int, default=1_000_000, help="rows of each table (default %(default)s; about 1 GB)")
    parser.add_argument("--quiet-seconds", type=float, default=10.0, help="how long people sign in before and after (default %(default)s)")
    given = parser.parse_args(arguments)
    holds = trio.run(drill, given.sign_ins, given.quiet_seconds)
    print("holds" if holds else "does not hold")
    return 0 if holds else 1
