"""`python -m ops.drill sizing` measures what `postern size` reckons with: processor time a request, memory a process, disk a sign-in.

Processor time is the one figure that other work on the machine spoils least. A PostgreSQL of the drill's own serves; its time counts apart.
Requests come on few connections, as in ordinary hours: under more load each costs less, since requests share statements.

With `--record`, the figures take the places of those of before, in the command and in the pages that show them.
"""

import argparse
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import psycopg
import trio

from adapters.postgres.embedded import EmbeddedPostgres
from core.frozen import replace
from entrypoints.cli.sizing.size import MEASURED, Measurements
from ops.bench import processes
from ops.bench.cases.identity import credentials, people
from ops.bench.harness import Server, directory, postgres, serving
from ops.bench.inside import bearers_for
from ops.bench.load import Client, Target
from ops.bench.report import ROOT, busyness, complain, hardware, machine

CONNECTIONS: Final = 4
# Enough that the kernel's hundredths of a second do not matter.
SIGN_INS: Final = 1_000
READS: Final = 6_000
PEOPLE: Final = 20_000
COMMAND: Final = ROOT / "entrypoints" / "cli" / "sizing" / "size.py"
PAGES: Final = (ROOT / "docs" / "guides" / "running" / "sizing.md", ROOT / "docs" / "operations" / "install.md")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.drill sizing", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the figures into `postern size` and the pages that show them")
    asked = parser.parse_args(arguments)
    complain(f"{machine()}. Load average before: {busyness():.1f}.")
    measured = trio.run(_measured)
    told: dict[str, Any] = {"on": datetime.now(UTC).date().isoformat(), "machine": hardware(), **measured}
    print(json.dumps(told, indent=2))
    known = {name: getattr(MEASURED, name) for name in measured}
    complain(f"In the table of `postern size`: {known}")
    if asked.record:
        COMMAND.write_text(with_figures(COMMAND.read_text(encoding="utf-8"), told), encoding="utf-8")
        for page in PAGES:
            page.write_text(shown(page.read_text(encoding="utf-8"), replace(MEASURED, **told)), encoding="utf-8")
    return 0


def with_figures(source: str, told: Mapping[str, object]) -> str:
    """The source of `postern size` with these figures in its table."""
    for name, value in told.items():
        written = json.dumps(value, ensure_ascii=False)
        source, found = re.subn(rf"^    {name}=.*,$", lambda _: f"    {name}={written},", source, flags=re.MULTILINE)  # noqa: B023 - called at once
        assert found == 1, name  # noqa: S101 - a test holds it
    return source


def shown(page: str, of: Measurements) -> str:
    """The page with these figures wherever it shows some."""
    rows = {
        **{
            label: f"{ours:g} ms | {database:g} ms | {_rate(ours)} a second"
            for label, ours, database in (
                ("sign-in with a password, including the hash", of.sign_in_ms, of.sign_in_database_ms),
                ("an application's exchange of a code or refresh token", of.token_ms, of.token_database_ms),
                ("refresh of a session of Postern's own API", of.refresh_ms, of.refresh_database_ms),
                ("request with a token", of.read_ms, of.read_database_ms),
            )
        },
        "serving process, idle": f"{of.idle_mib:g} MiB",
        "serving process after a thousand sign-ins": f"{of.loaded_mib:g} MiB",
        "account with a session": f"{of.disk_bytes_a_person:g} bytes of disk",
        "sign-in": f"{of.disk_bytes_a_sign_in:g} bytes of disk, {of.wal_bytes_a_sign_in:g} bytes of write-ahead log",
    }
    for label, cells in rows.items():
        page = re.sub(rf"^\| {label} \| .*$", f"| {label} | {cells} |", page, flags=re.MULTILINE)
    page = re.sub(r"(?<=were measured on ).*?(?=\. The)", lambda _: f"{of.on}: {of.machine}", page)
    memory = f"{of.idle_mib:g} MiB when idle and {of.loaded_mib:g} MiB after a thousand sign-ins"
    return re.sub(r"\d+ MiB when idle and \d+ MiB after a thousand sign-ins", memory, page)


def _rate(milliseconds: float) -> str:
    return f"{float(f'{1000 / milliseconds:.2g}'):,.0f}".replace(",", " ")


async def _measured() -> dict[str, float]:
    found: dict[str, float] = {}
    with directory() as place, postgres(place) as database:
        async with serving(place, database_url=database.application_url) as server:
            await trio.sleep(5)  # what the start has left behind
            found["idle_mib"] = server.resident()
            before = await _size(server)
            strangers = await people(server, PEOPLE)
            found["disk_bytes_a_person"] = (await _size(server) - before) / PEOPLE
            readers = await bearers_for(server.settings, strangers[:100])
            before, log = await _size(server), await _wal(server)
            refresh: list[str] = []
            login = server.target("/api/auth/login")
            async with _spent(server, database, SIGN_INS, found, "sign_in"):
                await _ask(server, (login.posting(credentials(one)) for one in strangers[100 : 100 + SIGN_INS]), refresh)
            await trio.sleep(5)  # until the audit log is linked
            found["disk_bytes_a_sign_in"] = (await _size(server) - before) / SIGN_INS
            found["wal_bytes_a_sign_in"] = (await _wal(server) - log) / SIGN_INS
            async with _spent(server, database, SIGN_INS, found, "refresh"):
                renew = server.target("/api/auth/refresh")
                await _ask(server, (renew.posting({"refresh_token": token}) for token in list(refresh)), [])
            async with _spent(server, database, READS, found, "read"):
                await _ask(server, (server.target("/api/user", readers[number % len(readers)]) for number in range(READS)), [])
            found["loaded_mib"] = server.resident()
            found["connections"] = await _connections(server)
    return {name: float(f"{value:.3g}") for name, value in found.items()}


@asynccontextmanager
async def _spent(server: Server, database: EmbeddedPostgres, count: int, found: dict[str, float], what: str) -> AsyncIterator[None]:
    """Notes the milliseconds of processor time a request, ours and PostgreSQL's."""
    pid = int((database.cluster / "data" / "postmaster.pid").read_text().splitlines()[0])
    before = processes.cpu_seconds(server.pids()), processes.cpu_seconds(processes.tree(pid, without=None))
    yield
    found[f"{what}_ms"] = (processes.cpu_seconds(server.pids()) - before[0]) / count * 1e3
    found[f"{what}_database_ms"] = (processes.cpu_seconds(processes.tree(pid, without=None)) - before[1]) / count * 1e3


async def _ask(server: Server, targets: Iterator[Target], refresh: list[str]) -> None:
    async def one() -> None:
        async with Client.connected(server.target("/health/live")) as client:
            for target in targets:
                answer = await client.ask(target)
                if answer.status != 200:
                    raise AssertionError(f"{target.path} answered {answer.status}: {answer.body!r}")
                if b"refresh_token" in answer.body:
                    refresh.append(json.loads(answer.body)["refresh_token"])

    async with trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS):
            nursery.start_soon(one)


async def _size(server: Server) -> int:
    return int(await _told(server, "select pg_database_size(current_database())"))


async def _wal(server: Server) -> int:
    return int(await _told(server, "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"))


async def _connections(server: Server) -> int:
    return int(await _told(server, "select count(*) from pg_stat_activity where application_name = 'postern'"))


async def _told(server: Server, question: Any) -> Any:
    def asked() -> Any:
        with psycopg.connect(server.database_url, autocommit=True) as connection:
            row = connection.execute(question).fetchone()
            return row[0] if row else 0

    return await trio.to_thread.run_sync(asked)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
