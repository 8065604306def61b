"""Where the alerts are tried: two daemons, their database, a mail server, and a Prometheus that scrapes them once a second."""

import json
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import trio
import yaml

from adapters.postgres.embedded import APPLICATION, BINARIES
from adapters.postgres.migrate import migrate
from ops.bench.cases.identity import people
from ops.bench.cases.webhooks import Tenant, make_tenants
from ops.bench.filling.fill import Person
from ops.bench.harness import COMMAND, DidNotStart, directory, environment_of, ring
from ops.bench.inside import bearers_for
from ops.bench.receivers import Receivers, receivers
from ops.drill.alerts import shortened
from ops.drill.clients import SETTINGS
from ops.drill.cluster import Cluster, running
from ops.drill.machines import Daemon
from ops.drill.proxies import program
from ops.free_ports import free_port
from ops.stand_ins.mail_server import MailServer, mail_server

PEOPLE: Final = 400
_PATIENCE: Final = 120.0


@dataclass(slots=True)
class Site:
    place: Path
    cluster: Cluster
    daemons: Sequence[Daemon]
    secured: Daemon
    """Serves HTTPS, once a fault has started it."""
    mail: MailServer
    sink: Receivers
    prometheus: int
    tenants: Sequence[Tenant]
    people: Sequence[Person]
    readers: Sequence[Mapping[str, str]]
    fired: dict[str, float] = field(default_factory=dict)
    """By each alert that has fired, when it began to."""

    @property
    def settings(self) -> Mapping[str, str]:
        return self.daemons[0].settings

    def ask(self, statement: Any, values: Any = ()) -> list[Any]:
        return self.cluster.primary.ask(statement, values, APPLICATION)

    async def do(self, statement: Any, values: Any = ()) -> list[Any]:
        return await trio.to_thread.run_sync(self.ask, statement, values)

    @asynccontextmanager
    async def holding(self, statement: str) -> AsyncIterator[psycopg.Connection]:
        """A session that somebody forgot: it keeps what the statement has locked."""
        connection = await trio.to_thread.run_sync(lambda: psycopg.connect(self.cluster.primary.url(APPLICATION)))
        try:
            await trio.to_thread.run_sync(connection.execute, statement)
            yield connection
        finally:
            with trio.CancelScope(shield=True), suppress(psycopg.Error):
                await trio.to_thread.run_sync(connection.commit)
                await trio.to_thread.run_sync(connection.close)

    async def restart(self, **settings: str) -> None:
        for daemon in self.daemons:
            await daemon.stop()
            daemon.settings = {**daemon.settings, **settings}
            await daemon.start()

    async def postern(self, *words: str) -> str:
        """A command of Postern, as an operator types it."""
        environment = environment_of(None) | dict(self.settings)
        environment["PATH"] = f"{BINARIES}:{environment['PATH']}"
        done = await trio.run_process([str(COMMAND), *words], env=environment, capture_stdout=True, capture_stderr=True, check=False)
        if done.returncode:
            raise DidNotStart(f"postern {' '.join(words)}: {done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout.decode()

    async def alerts(self) -> frozenset[str]:
        """Those that fire now."""
        return await trio.to_thread.run_sync(self._alerts)

    def _alerts(self) -> frozenset[str]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.prometheus}/api/v1/alerts", timeout=10) as answer:
            told = json.load(answer)["data"]["alerts"]
        return frozenset(one["labels"]["alertname"] for one in told if one["state"] == "firing")

    async def watch(self) -> None:
        while True:
            with suppress(OSError):
                for name in await self.alerts():
                    self.fired.setdefault(name, trio.current_time())
            await trio.sleep(0.5)


@asynccontextmanager
async def standing() -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        place.chmod(0o755)
        cluster = await stack.enter_async_context(running(place / "servers", synchronous=True))
        await migrate(cluster.url, lambda _line: None)
        mail = stack.enter_context(mail_server())
        primary = cluster.url.replace(cluster.url.partition("@")[2].partition("/")[0], f"127.0.0.1:{cluster.primary.for_clients.port}")
        settings = {
            **SETTINGS,
            "POSTERN_DATABASE_URL": primary,
            # The ring's first key is of a day long ago.
            "POSTERN_ENCRYPTION_KEYS": ring(place).replace("bench:", "2024-01-01.drill:"),
            "POSTERN_RATE_LIMITS": "off",
            "POSTERN_MAIL": mail.url(),
            "POSTERN_OWNER_EMAIL": "owner@bench.example",
            "POSTERN_OWNER_PASSWORD": "a drill of alerts",
        }
        daemons = [Daemon(place / name, settings, 1) for name in ("machine-1", "machine-2", "machine-3")]
        for daemon in daemons:
            stack.push_async_callback(daemon.kill)
        for daemon in daemons[:2]:
            await daemon.start()
        sink = await stack.enter_async_context(receivers())
        tenants = await make_tenants(daemons[0].running, [[sink.url("ok/0")], []])
        persons = await people(daemons[0].running, PEOPLE)
        # A session that can be renewed by nothing would count as damage in a backup.
        await trio.to_thread.run_sync(
            cluster.ask, "insert into browser_sessions (digest, session_id) select sha256(id::text::bytea), id from sessions"
        )
        readers = await bearers_for(daemons[0].running.settings, persons[:100])
        port = stack.enter_context(_prometheus(place, daemons))
        site = Site(place, cluster, daemons[:2], daemons[2], mail, sink, port, tenants, persons, readers)
        await _scraped(site)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(site.watch)
            yield site
            nursery.cancel_scope.cancel()


async def _scraped(site: Site) -> None:
    with trio.fail_after(_PATIENCE):
        while True:
            with suppress(OSError):
                await site.alerts()
                return
            await trio.sleep(0.2)


@contextmanager
def _prometheus(place: Path, daemons: Sequence[Daemon]) -> Iterator[int]:
    port = free_port()
    configuration = {
        "global": {"scrape_interval": f"{shortened.SCRAPE}s", "evaluation_interval": f"{shortened.SCRAPE}s"},
        "rule_files": [str(shortened.write(place))],
        "scrape_configs": [
            {"job_name": "postern", "static_configs": [{"targets": [f"127.0.0.1:{one.port}" for one in daemons[:2]]}]},
            {
                "job_name": "secured",
                "scheme": "https",
                "tls_config": {"insecure_skip_verify": True},
                "static_configs": [{"targets": [f"127.0.0.1:{daemons[2].port}"]}],
            },
        ],
    }
    file = place / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    with (place / "prometheus.log").open("ab") as output:
        process = subprocess.Popen(
            [
                *(program("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={place / 'series'}"),
                *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield port
    finally:
        process.kill()
        process.wait()
