"""Imports a crowd of people: how many a second, what it costs the people who sign in meanwhile, and what `kill -9` leaves.

    .venv/bin/python -m ops.drill import --people 1000000
    .venv/bin/python -m ops.drill import --people 20000 --kills 100

A PostgreSQL of the drill's own gets the people of a realm export of Keycloak, with passwords that need no wrapping. With `--kills`, the
command is killed that many times, each time after some further batch, and run again; what is there afterwards must be what an uninterrupted
import leaves. Exit status 1 when a bar did not hold.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
import trio

from adapters.postgres.embedded import EmbeddedPostgres
from ops.bench.filling.fill import fill
from ops.bench.harness import Server, directory, serving
from ops.bench.inside import hashed
from ops.bench.load import Broken, Client
from ops.bench.report import ROOT

PEOPLE_A_SECOND: Final = 2000
MOST_SLOWER: Final = 2.0
SIGNING_IN: Final = 200
PASSWORD: Final = "correct-horse-battery"  # noqa: S105 - of made-up people
COMMAND: Final = (sys.executable, "-m", "entrypoints.cli.main")
SETTINGS: Final = {"shared_buffers": "1GB", "max_wal_size": "4GB", "checkpoint_timeout": "15min"}
# What an import leaves, but for ids, times and random salts.
_LEFT: Final = """
    select md5(string_agg(concat_ws(' ', users.email, users.given_name, users.family_name, users.language, users.password_hash,
                                    users.email_verified_at is not null, imported_people.is_new), '|' order by users.email_key)),
           count(*), (select count(*) from users), (select count(*) from audit_entries where action = 'user.imported')
      from imported_people
      join users on users.id = imported_people.user_id
     where users.email like '%@crowd.example.org'
"""


def write_realm(path: Path, count: int) -> None:
    """The people of a realm, with Argon2id as Keycloak 26 makes it."""
    told = {"hashLength": ["32"], "memory": ["7168"], "type": ["id"], "version": ["1.3"], "parallelism": ["1"]}
    credential = json.dumps({"hashIterations": 5, "algorithm": "argon2", "additionalParameters": told})
    with path.open("w") as out:
        out.write('{"realm": "crowd", "users": [\n')
        for number in range(count):
            digest = b64encode(number.to_bytes(32, "big")).decode()
            secret = json.dumps({"value": digest, "salt": b64encode(b"salt of sixteen!").decode(), "additionalParameters": {}})
            user = {
                "id": str(UUID(int=number)),
                "username": f"person{number}",
                "email": f"person{number}@crowd.example.org",
                "emailVerified": True,
                "firstName": "Person",
                "lastName": f"Number {number}",
                "enabled": True,
                "createdTimestamp": 1735689600000,
                "attributes": {"locale": ["de"]},
                "credentials": [{"id": str(UUID(int=number)), "type": "password", "secretData": secret, "credentialData": credential}],
                "realmRoles": ["default-roles-crowd"],
                "groups": [],
            }
            out.write(f"{',' if number else ''}{json.dumps(user)}\n")
        out.write("]}\n")


class SignIns:
    """People sign in, one after the other, and what each had to wait is kept."""

    def __init__(self, server: Server, emails: Sequence[str]) -> None:
        self._server = server
        self._emails = emails
        self.waits: list[float] = []
        self.failures = 0

    async def go_on(self) -> None:
        target = self._server.target("/api/auth/login")
        while True:
            began = trio.current_time()
            try:
                async with Client.connected(target.posting({"email": random.choice(self._emails), "password": PASSWORD})) as client:
                    self.failures += (await client.get()).status != 200
            except (OSError, Broken):
                self.failures += 1
            self.waits.append(trio.current_time() - began)
            await trio.sleep(0.05)

    def p99(self) -> float:
        waits, self.waits = self.waits, []
        return statistics.quantiles(waits, n=100)[98] if len(waits) > 1 else 0.0


async def beside_sign_ins(server: Server, realm: Path, count: int, emails: Sequence[str]) -> bool:
    people = SignIns(server, emails)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(people.go_on)
        await trio.sleep(15)
        alone = people.p99()
        began = trio.current_time()
        await trio.run_process([*COMMAND, "import", "keycloak", str(realm), "--trust-verified"], env=environment(server), cwd=ROOT)
        seconds = trio.current_time() - began
        beside = people.p99()
        nursery.cancel_scope.cancel()
    rate = count / seconds
    print(f"{count} people in {seconds:.0f} s: {rate:.0f} a second")
    times = f"{alone * 1000:.0f} ms alone, {beside * 1000:.0f} ms beside it ({beside / alone:.2f} times)"
    print(f"sign-ins, p99: {times}; {people.failures} failed", flush=True)
    return rate >= PEOPLE_A_SECOND and beside <= MOST_SLOWER * alone and not people.failures


def environment(server: Server) -> dict[str, str]:
    return {**os.environ, **server.settings, "POSTERN_DATABASE_URL": server.database_url, "POSTERN_DATA_DIR": str(server.data_dir)}


def killed(url: str, variables: dict[str, str], realm: Path, times: int) -> bool:
    """Kills the command again and again, at a moment of chance, and then lets it finish."""
    left = _left(url)
    _forget(url)
    command = [*COMMAND, "import", "keycloak", str(realm), "--trust-verified"]
    for number in range(times):
        before = _left(url)
        if before == left:
            _forget(url)
            before = _left(url)
        process = subprocess.Popen(command, env=variables, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # The process has to be at work, and then some moment ends it.
        while process.poll() is None and _left(url) == before:
            time.sleep(0.005)
        time.sleep(random.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        _, remembered, accounts, entries = _left(url)
        if remembered != entries or remembered > accounts:
            print(f"kill {number}: {remembered} are remembered, {accounts} have accounts, {entries} are in the audit log")
            return False
    subprocess.run(command, env=variables, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    same = _left(url) == left
    print(f"killed {times} times: what is there {'equals' if same else 'DIFFERS FROM'} what an uninterrupted import leaves")
    return same


def _left(url: str) -> tuple[str, int, int, int]:
    with psycopg.connect(url) as connection:
        (row,) = connection.execute(_LEFT).fetchall()
    digest, remembered, accounts, entries = row
    return digest, remembered, accounts, entries


def _forget(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("truncate imported_people, audit_pending, audit_links, audit_personal, audit_entries")
        connection.execute("delete from users where email like '%@crowd.example.org'")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.drill import", description=__doc__)
    parser.add_argument("--people", type=int, default=100_000, help="how many are imported (default %(default)s)")
    parser.add_argument("--kills", type=int, default=0, help="how many times the command is killed (default: never)")
    chosen = parser.parse_args(arguments)
    return 0 if trio.run(_drilled, chosen.people, chosen.kills) else 1


async def _drilled(count: int, kills: int) -> bool:
    with directory() as place, EmbeddedPostgres(place / "server", settings=SETTINGS) as database:
        realm = place / "realm.json"
        write_realm(realm, count)
        print(f"The export has {realm.stat().st_size >> 20} MiB.", flush=True)
        database.prepare_application()
        url = database.application_url
        async with serving(place, database_url=url, tree=ROOT) as server:
            people = await trio.to_thread.run_sync(fill, url, SIGNING_IN, await hashed(server.settings, PASSWORD))
            held = await beside_sign_ins(server, realm, count, [one.email for one in people])
            variables = environment(server)
        return (killed(url, variables, realm, kills) and held) if kills else held
