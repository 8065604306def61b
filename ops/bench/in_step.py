"""Keeping in step with a directory by LDAP: Debian's slapd with twenty thousand people, read and carried out by the server's own actor."""

import resource
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
import trio

from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.ldap.settings import LdapChange, LdapPreset
from core.domain.record.events import SYSTEM
from core.frozen import Frozen
from core.usecases.tenancy.upstream_providers import add
from ops.bench import processes
from ops.bench.answers import SETTINGS
from ops.bench.cases.webhooks import make_tenants
from ops.bench.filling.fill import fill
from ops.bench.harness import Options, Server, Skipped, directory, serving
from ops.bench.inside import bearer, postern_of
from ops.bench.load import Client, percentile
from ops.bench.paired import Costs, Side
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import shared_postgres
from tests.ldap.slapd import READER, READER_PASSWORD, SUFFIX, Slapd, person

PEOPLE: Final = 20_000
# A keeper looks every minute.
_LONGEST: Final = 400.0
_PAUSE: Final = 0.02
_LIMITS: Final = f'limits dn.exact="{READER}" size=unlimited'
_DUE: Final = "update directory_steps set next_at = now(), wants_whole = %s"
# What an owner does by a press.
_AGREED: Final = """
    with agreed as (update directory_runs set state = 'agreed' where state = 'waiting' returning id, settings_digest)
  update directory_steps set agreed_run = agreed.id, agreed_digest = agreed.settings_digest, next_at = now() from agreed
"""


class _Done(Frozen):
    seconds: float
    counts: dict[str, Any]
    cpu: float
    """Of the server."""
    postgres: float
    commits: int
    """Of all transactions meanwhile, those of the idle server included."""


class _Runs(Frozen):
    server: Server
    side: Side

    async def next(self, kind: str, state: str) -> _Done:
        """The next run of this kind, which is due already."""
        before = await trio.to_thread.run_sync(self._newest)
        async with self.side.counting() as costs:
            commits = await trio.to_thread.run_sync(self._commits)
            await _until(lambda: (newest := self._newest()) != before and newest[2] != "running")
            newest = await trio.to_thread.run_sync(self._newest)
            commits = await trio.to_thread.run_sync(self._commits) - commits
        _, found, ended, seconds, counts = newest
        if (found, ended) != (kind, state):
            raise Skipped(f"the run is {found} and {ended}: {counts}")
        return _Done(seconds, counts, *_of(costs), commits)

    def is_running(self) -> bool:
        return bool(self._ask("select exists (select from directory_runs where state = 'running')")[0])

    def tell(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.server.database_url, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def _newest(self) -> tuple[Any, ...]:
        found = self._ask(
            "select id, kind, state, extract(epoch from ended_at - started_at)::float, counts from directory_runs order by id desc limit 1"
        )
        return found or (None, "", "", 0.0, {})

    def _commits(self) -> int:
        return int(self._ask("select xact_commit from pg_stat_database where datname = current_database()")[0])

    def _ask(self, statement: str) -> Any:
        with psycopg.connect(self.server.database_url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchone()


async def _until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(_LONGEST):
        while True:
            if await trio.to_thread.run_sync(condition):
                return
            await trio.sleep(0.2)


def _of(costs: Costs) -> tuple[float, float]:
    return costs.server, costs.postgres


async def in_step(_: Options) -> Sequence[Figure]:
    """Twenty thousand people of slapd: the first plan, carried out, without changes, and GET /api/user beside a whole run."""
    program = shutil.which("slapd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if program is None:
        raise Skipped("slapd is not installed")
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        entries = "".join(person(f"person{number}") for number in range(PEOPLE))
        try:
            slapd = await trio.to_thread.run_sync(lambda: Slapd.start(folder, program, more=_LIMITS, entries=entries))
        except subprocess.CalledProcessError as failed:
            raise Skipped(failed.stderr.decode()[-300:]) from failed
        stack.callback(slapd.stop)
        postgres = stack.enter_context(shared_postgres(place))
        data_dir = place / "postern"
        data_dir.mkdir()
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern"), settings=SETTINGS))
        (tenant,) = await make_tenants(server, [[]])
        asking = (await trio.to_thread.run_sync(fill, server.database_url, 10))[0]
        await _connect(server, tenant.organization, slapd)
        runs = _Runs(server, Side(server.pid, "postern", postgres))
        complain("in_step: the first plan …")
        plan = await runs.next("plan", "waiting")
        rested = processes.resident_megabytes(server.pid)
        await trio.to_thread.run_sync(runs.tell, _AGREED)
        complain("in_step: carried out …")
        applied = await runs.next("whole", "done")
        grown = []
        await trio.to_thread.run_sync(runs.tell, _DUE, False)
        unchanged = await runs.next("changes", "done")
        complain("in_step: beside a whole run …")
        beside, alone = await _who_am_i(server, runs, await bearer(server, asking))
        for _turn in range(2):
            await trio.to_thread.run_sync(runs.tell, _DUE, True)
            await runs.next("whole", "done")
            grown.append(processes.resident_megabytes(server.pid))
    return [
        Figure("the first plan of 20 000 people", plan.seconds, "s", bar=at_most(30), beside=_named(plan)),
        Figure("the plan: the server's processor time", plan.cpu, "s", beside=f"PostgreSQL's {plan.postgres:.1f} s"),
        Figure("carried out", applied.seconds, "s", bar=at_most(60), beside=_named(applied)),
        Figure("carried out: the server's processor time", applied.cpu, "s", beside=f"PostgreSQL's {applied.postgres:.1f} s"),
        Figure("a run without changes", unchanged.seconds, "s", bar=at_most(2), beside=f"{unchanged.commits} commits, those of others too"),
        Figure("memory of the server after three whole runs, against after the plan", grown[-1] - rested, "MiB", bar=at_most(20)),
        Figure("memory after the last whole run, against the one before", grown[-1] - grown[0], "MiB", bar=at_most(5)),
        Figure("GET /api/user beside a whole run: 99th percentile", beside * 1e3, "ms"),
        Figure("GET /api/user beside a whole run, against without", beside / alone, bar=at_most(1.3)),
        Figure("the load itself", resource.getrusage(resource.RUSAGE_SELF).ru_utime, "s"),
    ]


def _named(done: _Done) -> str:
    return f"{done.counts['read']} read, {done.counts['came']} came"


async def _connect(server: Server, organization: UUID, slapd: Slapd) -> None:
    """A connection of the organization, active, that keeps in step."""
    described = LdapChange(
        hosts=(f"ldaps://127.0.0.1:{slapd.tls_port}",),
        ca_certificates=slapd.authority.pem,
        bind_dn=READER,
        base_dn=f"ou=people,{SUFFIX}",
        ldap_preset=LdapPreset.OPENLDAP,
        keeps_in_step=True,
    )
    async with postern_of(server.settings) as postern:
        made = await postern.tenancy.upstream_providers.prepared_ldap(
            OrganizationId(organization), name="slapd", settings=described, password=READER_PASSWORD, mapping={}
        )
        async with postern.foundation.unit_of_work() as uow:
            await uow.organizations.hold(OrganizationId(organization))
            await add(uow, made, SYSTEM)
            await uow.commit()
    await trio.to_thread.run_sync(_activate, server.database_url, organization)


def _activate(url: str, organization: UUID) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update all_organizations set max_users = 50000 where id = %s", [organization])
        connection.execute(
            "insert into domains (id, org_id, domain, token, verified_at, next_check_at, created_at, updated_at)"
            " values (gen_random_uuid(), %s, 'example.org', 'token', now(), now() + interval '7 days', now(), now())",
            [organization],
        )
        connection.execute("update upstream_providers set state = 'active', enabled = true, activated_at = now()")


async def _who_am_i(server: Server, runs: _Runs, header: Any) -> tuple[float, float]:
    """The 99th percentile of GET /api/user beside a whole run, and without."""
    beside, alone = list[float](), list[float]()
    async with Client.connected(server.target("/health/live")) as client:
        target = server.target("/api/user", headers=dict(header))
        for seconds, is_beside in ((alone, False), (beside, True)):
            if is_beside:
                await trio.to_thread.run_sync(runs.tell, _DUE, True)
                await _until(runs.is_running)
            until = trio.current_time() + 20
            while trio.current_time() < until and (not is_beside or len(seconds) % 25 or await trio.to_thread.run_sync(runs.is_running)):
                begun = trio.current_time()
                await client.ask(target)
                seconds.append(trio.current_time() - begun)
                await trio.sleep(_PAUSE)
            complain(f"in_step: {len(seconds)} requests, {statistics.median(seconds) * 1e3:.1f} ms in the middle")
        await _until(lambda: not runs.is_running())
    return percentile(beside, 99), percentile(alone, 99)
