"""Migrates a large database while people sign in, and tells who had to wait.

    .venv/bin/python -m ops.drill migration --sign-ins 10000000

A PostgreSQL of the drill's own gets that many sign-ins. Then a server runs, people sign in all the time, and somebody else's report holds a
table for a while. Meanwhile the drill applies two migrations from a folder that it throws away: one transaction that adds columns to two
hot tables, and one in steps that changes rows in batches and builds an index. Exit status 1 if a request failed or waited too long.
"""

import argparse
import itertools
import json
import random
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import psycopg
import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.embedded import EmbeddedPostgres
from adapters.postgres.migrate import EFFECTS, Migration, migrate, shipped
from entrypoints.cli.output.progress import progress
from ops.bench.filling.fill import Person, fill
from ops.bench.harness import Server, directory, serving
from ops.bench.inside import hashed
from ops.bench.load import Broken, Client, Target
from ops.written.migration_effects import FILE

LONGEST_STALL: Final = 1.2
PASSWORD: Final = "correct-horse-battery"  # noqa: S105 - of made-up people
PEOPLE: Final = 2000
# A small server of its own, that writes to the disk as a real one does.
SERVER: Final = {"shared_buffers": "1GB", "max_wal_size": "2GB", "maintenance_work_mem": "512MB", "checkpoint_timeout": "15min"}

COLUMNS: Final = """-- additive
alter table login_events add column region text;
alter table users add column region text;
"""
COLUMNS_EFFECTS: Final = """
[{name}]
login_events = {{ lock = "access exclusive" }}
users = {{ lock = "access exclusive" }}
"""
STEPS: Final = """-- additive, in steps

-- step: batches of login_events by id
update login_events set region = upper(country) where id between %(first)s and %(last)s and country = 'at' and region is null;

-- step: index login_events_of_region
create index concurrently login_events_of_region on login_events (region, id desc) where region is not null;
"""


@dataclass(slots=True)
class Phase:
    """What the people got during one part of the drill. Times are in seconds."""

    name: str
    seconds: float = 0.0
    requests: int = 0
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0
    longest_probe: float = 0.0
    longest_lock: float = 0.0

    def holds(self) -> bool:
        return not self.failures and self.longest <= LONGEST_STALL

    def __str__(self) -> str:
        failed = f"{len(self.failures)} failed ({', '.join(sorted(set(self.failures)))})" if self.failures else "0 failed"
        elsewhere, lock = f"{self.longest_probe * 1000:.0f}", f"{self.longest_lock * 1000:.0f}"
        longest = f"longest {self.longest * 1000:5.0f} ms (elsewhere {elsewhere} ms), a lock {lock} ms"
        return f"{self.name:<28} {self.seconds:7.1f} s  {self.requests:6} requests  {failed}  {longest}"


class People:
    """Sign in and look at their accounts. An answer counts for the phase in which it comes."""

    def __init__(self, server: Server, people: Sequence[Person]) -> None:
        self._server = server
        self._people = itertools.cycle(random.sample(people, len(people)))
        self.phases = [Phase("before")]

    def begin(self, nursery: trio.Nursery, url: str) -> None:
        for _ in range(3):
            nursery.start_soon(self.sign_in, 0.1)
        for _ in range(3):
            nursery.start_soon(self.look, 0.02)
        nursery.start_soon(self.commit, url)

    async def during(self, name: str, work: Callable[[], Awaitable[object]]) -> Phase:
        phase = Phase(name)
        self.phases.append(phase)
        began = trio.current_time()
        await work()
        phase.seconds = trio.current_time() - began
        print(phase, flush=True)
        return phase

    async def sign_in(self, pause: float) -> None:
        target = self._server.target("/api/auth/login")
        while True:
            email = next(self._people).email
            await self._ask(target.posting({"email": email, "password": PASSWORD}))
            await trio.sleep(pause)

    async def look(self, pause: float) -> None:
        while True:
            email = next(self._people).email
            signed_in = await self._ask(self._server.target("/api/auth/login").posting({"email": email, "password": PASSWORD}))
            token = json.loads(signed_in)["access_token"] if signed_in else ""
            # A token ends after a quarter of an hour.
            for _ in range(500):
                await self._ask(self._server.target("/api/user", {"Authorization": f"Bearer {token}"}))
                await trio.sleep(pause)

    async def commit(self, url: str) -> None:
        """Writes to a table that no migration knows. If that takes long, the machine is busy, and nobody waits for a migration."""
        async with await Connection.connect(url) as connection:
            await connection.execute("create table drill_probe (at timestamptz)")
            while True:
                began = trio.current_time()
                await connection.execute("insert into drill_probe values (now())")
                phase = self.phases[-1]
                phase.longest_probe = max(phase.longest_probe, trio.current_time() - began)
                row = await (await connection.execute(_LONGEST_LOCK)).fetchone()
                phase.longest_lock = max(phase.longest_lock, row[0] if row is not None else 0.0)
                await trio.sleep(0.05)

    async def _ask(self, target: Target) -> bytes:
        began = trio.current_time()
        body, fault = b"", ""
        try:
            async with Client.connected(target) as client:
                answer = await client.get()
                body = answer.body
                if answer.status != 200:
                    fault = str(answer.status)
        except (OSError, Broken) as error:
            fault = type(error).__name__
        phase = self.phases[-1]
        phase.requests += 1
        phase.longest = max(phase.longest, trio.current_time() - began)
        if fault:
            phase.failures.append(fault)
        return body


# Of the server whose people sign in.
_LONGEST_LOCK: Final = """
    select coalesce(max(extract(epoch from clock_timestamp() - waitstart)), 0)::double precision
      from pg_locks
      join pg_stat_activity on pg_stat_activity.pid = pg_locks.pid
     where not granted and application_name = 'postern'
"""


def fill_sign_ins(url: str, count: int, change_every: int, people: Sequence[Person]) -> str:
    """Returns the size of the table. The indexes are built afterwards, and no trigger counts the rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        indexes = connection.execute(
            "select indexrelid::regclass::text, replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ') from pg_index"
            " where indrelid = 'login_events'::regclass and not indisprimary"
        ).fetchall()
        for name, _ in indexes:
            connection.execute(f"drop index {name}".encode())
        connection.execute("set session_replication_role = replica")
        connection.execute(
            "create temporary table people as select row_number() over () as number, id from unnest(%s::uuid[]) as id",
            [[one.user for one in people]],
        )
        connection.execute("create index on people (number); analyze people")
        values = {"count": count, "change_every": change_every, "people": len(people), "now": datetime.now(UTC)}
        with progress("Filling login_events", count, "rows") as advance:
            done = 0
            while done < count:
                part = min(100_000, count - done)
                connection.execute(_ADD, {"from": done, "to": done + part, **values})
                done += part
                advance(part)
        for _, definition in indexes:
            connection.execute(definition.encode())
        connection.execute("vacuum analyze login_events")
        row = connection.execute(
            "select pg_size_pretty(sum(pg_table_size(relid))) || ', indexes ' || pg_size_pretty(sum(pg_indexes_size(relid)))"
            "  from (select relid from pg_partition_tree('login_events') union select 'login_events'::regclass) as parts"
        ).fetchone()
    return str(row[0]) if row is not None else ""


# Ids in the order of time, as the product makes them, over the last two weeks: the janitor would remove older sign-ins.
_ADD: Final = """
    insert into login_events (id, user_id, provider, success, address, user_agent, country, city, created_at)
    select (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0') || '7' || substr(md5(place::text), 1, 19))::uuid,
           people.id, 'password', true, '192.0.2.7', 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
           case when place %% %(change_every)s = 0 then 'at' else 'de' end, 'Graz', moment
      from generate_series(%(from)s::bigint, %(to)s::bigint - 1) as sign_ins (place)
     cross join lateral (select %(now)s - interval '14 days' * (1 - place::double precision / %(count)s)) as times (moment)
      join people on people.number = 1 + place %% %(people)s
"""


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """The shipped migrations, and two more."""
    folder = place / "migrations"
    shutil.copytree(FILE.parent, folder)
    number = len(shipped()) + 1
    (folder / f"{number:04}_drill_columns.sql").write_text(COLUMNS)
    (folder / f"{number + 1:04}_drill_steps.sql").write_text(STEPS)
    with (folder / EFFECTS).open("a") as effects:
        effects.write(COLUMNS_EFFECTS.format(name=f"{number:04}_drill_columns"))
    yield folder
    shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class Lengths:
    """In seconds: how long somebody's report holds the table, and how long people sign in before and after."""

    report: float
    quiet: float


async def drill(sign_ins: int, change_every: int, lengths: Lengths) -> bool:
    with directory() as place, EmbeddedPostgres(place / "server", settings=SERVER) as database, new_folder(place) as folder:
        database.prepare_application()
        url = database.application_url
        async with serving(place, database_url=url) as server:
            people = await trio.to_thread.run_sync(fill, url, PEOPLE, await hashed(server.settings, PASSWORD))
            size = await trio.to_thread.run_sync(fill_sign_ins, database.url("postern"), sign_ins, change_every, people)
            print(f"{sign_ins} sign-ins: {size}", flush=True)
            crowd = People(server, people)
            async with trio.open_nursery() as nursery:
                crowd.begin(nursery, url)
                await _upgrade(crowd, url, shipped(folder), lengths)
                nursery.cancel_scope.cancel()
            return all(phase.holds() for phase in crowd.phases)


async def _upgrade(crowd: People, url: str, migrations: Sequence[Migration], lengths: Lengths) -> None:
    await crowd.during("without a migration", partial(trio.sleep, lengths.quiet))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(trio.to_thread.run_sync, _report, url, lengths.report))
        for count, name in ((len(migrations) - 1, "columns, one transaction"), (len(migrations), "batches and an index")):
            await crowd.during(name, partial(migrate, url, say, migrations[:count], progress))
    await crowd.during("afterwards", partial(trio.sleep, lengths.quiet))


def _report(url: str, seconds: float) -> None:
    """Somebody else's transaction, which holds a table that a migration wants."""
    with psycopg.connect(url, application_name="a report") as connection:
        connection.execute("select from login_events limit 1")
        connection.execute("select pg_sleep(%s)", [seconds])


def say(line: str) -> None:
    print(f"  {line}", flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.drill migration", description=__doc__)
    parser.add_argument("--sign-ins", type=int, default=10_000_000, help="rows in login_events (default %(default)s; about 4 GB)")
    parser.add_argument("--change-every", type=int, default=1, help="change one in so many rows in batches (default: all)")
    parser.add_argument("--report-seconds", type=float, default=20.0, help="how long a report holds the table (default %(default)s)")
    parser.add_argument("--quiet-seconds", type=float, default=20.0, help="how long people sign in before and after (default %(default)s)")
    given = parser.parse_args(arguments)
    holds = trio.run(drill, given.sign_ins, given.change_every, Lengths(given.report_seconds, given.quiet_seconds))
    print("holds" if holds else f"does not hold: a request failed, or waited for more than {LONGEST_STALL:g} s")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
