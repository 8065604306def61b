"""The faults, each by the alerts that it fires. A fault holds from the beginning of its block to the end, and is mended after it."""

import itertools
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, LiteralString
from uuid import uuid4

import trio

from ops.bench import processes
from ops.bench.cases.identity import PASSWORD
from ops.bench.directories import providers_of
from ops.bench.inside import queue_mails
from ops.bench.load import fetch
from ops.drill.alerts.site import Site
from ops.drill.faults import fill
from ops.stand_ins.fake_providers import FakeProvider

Fault = Callable[[Site], AbstractAsyncContextManager[None]]
# Sign-ins, and other requests, at once.
CROWD: Final = 40
_PATIENCE: Final = 40.0
_LINK: Final = re.compile(r'href="(/auth/[^"]+)"')


@dataclass(frozen=True, slots=True)
class Trial:
    fault: Fault
    fires: Sequence[str]
    restarts: bool = False
    """The daemons learn of it at their start: otherwise they look once in minutes, or hours."""


@asynccontextmanager
async def beside(*works: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """These go on during the block."""
    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(work)
        yield
        nursery.cancel_scope.cancel()


def again(work: Callable[[], Awaitable[object]], pause: float) -> Callable[[], Awaitable[None]]:
    async def keep_on() -> None:
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(work)
                await trio.sleep(pause)

    return keep_on


def reading(site: Site) -> Callable[[], Awaitable[object]]:
    turns = itertools.cycle(site.readers)
    return lambda: fetch(site.daemons[0].running.target("/api/user", next(turns)), _PATIENCE)


def looking(site: Site) -> Callable[[], Awaitable[object]]:
    """A load balancer asks both whether they are ready."""

    async def look() -> None:
        for daemon in site.daemons:
            if daemon.server is not None:
                await fetch(daemon.server.target("/health/ready"), 3)

    return look


def signing_in(site: Site, password: str = PASSWORD, daemon: int = 0) -> Callable[[], Awaitable[object]]:
    turns = itertools.cycle(site.people[100:])

    async def sign_in() -> None:
        target = site.daemons[daemon].running.target("/api/auth/login")
        await fetch(target.posting({"email": next(turns).email, "password": password}), _PATIENCE)

    return sign_in


def registering(site: Site) -> Callable[[], Awaitable[object]]:
    """Each leaves an entry in the audit log."""

    async def register() -> None:
        target = site.daemons[0].running.target("/api/auth/register")
        await fetch(target.posting({"email": f"{uuid4()}@bench.example", "password": PASSWORD}), _PATIENCE)

    return register


# What holds from the start, or is told at a start.


@asynccontextmanager
async def no_backup(site: Site) -> AsyncIterator[None]:
    """No backup was ever made; then one is made and checked."""
    yield
    await site.postern("backup", "create", "--to", str(site.place / "backups"))
    await site.postern("backup", "check", "--in", str(site.place / "backups"))


@asynccontextmanager
async def old_ring(site: Site) -> AsyncIterator[None]:
    """The first key of the ring is of 2024; then it gets a new one, as the guide says."""
    yield
    old = site.settings["POSTERN_ENCRYPTION_KEYS"]
    new = (await site.postern("keys", "generate")).split()[0]
    await site.restart(POSTERN_ENCRYPTION_KEYS=f"{old},{new}")
    await site.restart(POSTERN_ENCRYPTION_KEYS=f"{new},{old}")


@asynccontextmanager
async def old_signing_keys(site: Site) -> AsyncIterator[None]:
    """The keys that sign tokens were made 200 days ago; then they are rotated."""
    age = "set created_at = created_at {0} interval '200 days', activated_at = activated_at {0} interval '200 days'"
    await site.do(f"update all_signing_keys {age.format('-')}")
    yield
    await site.do(f"update all_signing_keys {age.format('+')}")


@asynccontextmanager
async def months_held(site: Site) -> AsyncIterator[None]:
    """The coming months of a table are gone, and a transaction that somebody forgot holds the table, so that none is made."""
    (rows) = await site.do("select name from partitions_of('webhook_deliveries') where not is_rest")
    for (name,) in rows:
        await site.do(f"drop table partitions.{name}")
    async with site.holding("lock table webhook_deliveries in row exclusive mode"):
        yield


@asynccontextmanager
async def month_obstructed(site: Site) -> AsyncIterator[None]:
    """A table that is none of ours has the name of a coming month."""
    rows = await site.do("select name from partitions_of('login_events') where not is_rest order by last desc limit 1")
    await site.do(f"drop table partitions.{rows[0][0]}")
    await site.do(f"create table partitions.{rows[0][0]} ()")
    yield
    await site.do(f"drop table partitions.{rows[0][0]}")


@asynccontextmanager
async def stood_still(site: Site) -> AsyncIterator[None]:
    """By the database, the last thing before this hour was written five days ago."""
    await site.do("delete from storage_samples")
    await site.do("insert into storage_samples values ((now() at time zone 'UTC')::date - 5, 'users', 1)")
    yield
    await site.do("delete from storage_samples")


async def _no_providers(site: Site) -> None:
    await site.do("delete from upstream_providers")
    await site.do("delete from domains")


# Of the outside.


@asynccontextmanager
async def guessing(site: Site) -> AsyncIterator[None]:
    """Somebody guesses passwords, five a second."""
    async with beside(again(signing_in(site, "wrong, and long enough"), 0.2)):
        yield


@asynccontextmanager
async def mail_refused(site: Site) -> AsyncIterator[None]:
    """The mail server refuses recipients for good; then it takes them, and the dead jobs are deleted."""
    site.mail.answer("RCPT", "550 5.1.1 no such user", times=8)
    await queue_mails(site.daemons[0].running, 8)
    yield
    await site.do("delete from jobs where state = 'dead' and kind = 'mail'")


@asynccontextmanager
async def mail_away(site: Site) -> AsyncIterator[None]:
    """The mail server puts every mail off, and people go on asking for mails; then it takes them, and the waiting ones are due at once."""
    site.mail.answer("MAIL", "451 4.3.0 try again later")
    await queue_mails(site.daemons[0].running, 150)

    async def hurry() -> None:
        await site.do("update jobs set run_at = now() where kind = 'mail' and state = 'waiting' and id in (select id from jobs limit 20)")
        await site.do(_RING)

    async with beside(again(hurry, 2)):
        yield
    site.mail.obey()
    await site.do("update jobs set run_at = now() where kind = 'mail' and state = 'waiting'")
    await site.do(_RING)


@asynccontextmanager
async def work_broken(site: Site) -> AsyncIterator[None]:
    """A function in the database that an actor calls has another name."""
    await site.do("alter function partitions_in_the_way(text, integer) rename to lost")
    yield
    await site.do("alter function lost(text, integer) rename to partitions_in_the_way")


# For all processes: there may be work of every kind.
_RING: Final[LiteralString] = "notify postern"


async def _queue(site: Site, count: int, late: float = 0.0) -> None:
    """Deliveries that are due since `late` seconds."""
    await site.do(
        "with event as (insert into events (id, organization_id, name, target_type, target_id, details, occurred_at)"
        " select uuidv7(), %s, 'user.login.success', 'user', 'drill', '{}', now() from generate_series(1, %s) returning id)"
        " insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at)"
        " select uuidv7(), %s, id, 'user.login.success', now() - make_interval(secs => %s), now(), now() from event",
        [site.tenants[0].organization, count, site.tenants[0].webhooks[0], late],
    )
    await site.do(_RING)


@asynccontextmanager
async def webhooks_held(site: Site) -> AsyncIterator[None]:
    """A session that locks the webhooks again and again: deliveries begin seconds late."""

    async def more() -> None:
        await _queue(site, 3)

    async def hold() -> None:
        while True:
            async with site.holding("lock table webhooks in exclusive mode"):
                await trio.sleep(4)
            await trio.sleep(2)

    async with beside(again(more, 0.5), hold):
        yield
    await site.do("update webhook_deliveries set next_at = null where next_at is not null")


@asynccontextmanager
async def siem_held(site: Site) -> AsyncIterator[None]:
    """A session that locks the exports again and again: batches leave seconds late."""
    export = uuid4()
    await site.do(
        "insert into siem_configurations (id, org_id, name, provider_type, endpoint_url, batch_size, created_at, updated_at)"
        " values (%s, %s, 'drill', 'generic', %s, 1, now(), now())",
        [export, site.tenants[0].organization, site.sink.url("ok/siem")],
    )

    async def more() -> None:
        await site.do(
            "with logged as (insert into login_events (id, organization_id, provider, success, address, created_at)"
            " select uuidv7(), %s, 'password', true, '192.0.2.1', now() from generate_series(1, 3) returning id)"
            " insert into sign_in_pending (event_id, export_id) select id, %s from logged",
            [site.tenants[0].organization, export],
        )
        await site.do(_RING)

    async def hold() -> None:
        while True:
            async with site.holding("lock table siem_configurations in exclusive mode"):
                await trio.sleep(4)
            await trio.sleep(2)

    async with beside(again(more, 0.5), hold):
        yield
    await site.do("delete from siem_configurations")


@asynccontextmanager
async def billing_news(site: Site) -> AsyncIterator[None]:
    """News of the payment provider that cannot be applied."""
    await site.do(
        "insert into billing_events (id, type, created, subject, payload, received_at, next_at)"
        " values ('evt_drill', 'customer.updated', 0, 'cus_drill', '{}', now() - interval '10 minutes', now() + interval '1 d')"
    )
    yield
    await site.do("delete from billing_events where id = 'evt_drill'")


@asynccontextmanager
async def linker_held(site: Site) -> AsyncIterator[None]:
    """A session that somebody forgot holds what the audit linker writes: entries wait, and the actor ends no turn."""
    async with beside(again(registering(site), 1.0)), site.holding("lock table audit_links in access exclusive mode"):
        yield


@asynccontextmanager
async def provider_away(site: Site) -> AsyncIterator[None]:
    """An organization's provider does not answer any more, and people go on trying to sign in through it."""
    with FakeProvider(client_id="drill") as fake:
        provider, _ = await providers_of(site.daemons[0].running, site.tenants[1].organization, fake)
    slug = (await site.do("select slug from organizations where id = %s", [site.tenants[1].organization]))[0][0]

    async def go() -> None:
        page = await fetch(site.daemons[0].running.target(f"/auth/{provider}?org={slug}"), _PATIENCE)
        link = page and _LINK.search(page.body.decode())
        if page and link:
            headers = {"Cookie": page.headers.get("set-cookie", "").partition(";")[0]}
            await fetch(site.daemons[0].running.target(link[1].replace("&amp;", "&"), headers), _PATIENCE)

    async with beside(again(go, 0.25)):
        yield
    await _no_providers(site)


@asynccontextmanager
async def jobs_held(site: Site) -> AsyncIterator[None]:
    """A session that somebody forgot keeps the workers from taking jobs."""
    await site.do("insert into jobs (id, kind, payload, run_at) values (uuidv7(), 'mail', '{}', now() + interval '2 seconds')")
    await site.do(_RING)
    async with site.holding("lock table jobs in share mode") as session:
        yield
        await trio.to_thread.run_sync(session.execute, "delete from jobs where payload::text = '{}'")


@asynccontextmanager
async def rights_lost(site: Site) -> AsyncIterator[None]:
    """The role that serves has lost its rights on a table that an actor needs."""
    await site.do("revoke all on audit_pending from postern")
    yield
    await site.do("grant all on audit_pending to postern")


# Of the database.


@asynccontextmanager
async def database_gone(site: Site) -> AsyncIterator[None]:
    """The database is gone."""
    node = site.cluster.primary
    async with beside(again(reading(site), 0.1), again(signing_in(site), 0.1), again(looking(site), 0.3)):
        await trio.to_thread.run_sync(node.end)
        yield
    await trio.to_thread.run_sync(node.server.start)
    await site.daemons[0].running.until("/health/ready", 200, 120)
    # Load balancers go on asking.
    for _ in range(20):
        await looking(site)()
        await trio.sleep(0.2)


@asynccontextmanager
async def read_only(site: Site) -> AsyncIterator[None]:
    """The database takes no writes."""
    node = site.cluster.primary
    await trio.to_thread.run_sync(node.set, "default_transaction_read_only", "on")
    async with beside(again(signing_in(site), 0.1), again(signing_in(site, daemon=1), 0.3)):
        yield
    await trio.to_thread.run_sync(node.set, "default_transaction_read_only", "off")


@asynccontextmanager
async def disk_full(site: Site) -> AsyncIterator[None]:
    """The disk of the database is full."""
    node = site.cluster.primary
    filler: Path = node.place / "filler"
    await trio.to_thread.run_sync(fill, filler)
    async with beside(again(signing_in(site), 0.1), again(signing_in(site, daemon=1), 0.3)):
        yield
    await trio.to_thread.run_sync(filler.unlink)
    if not node.family():
        await trio.to_thread.run_sync(node.server.revive)


@asynccontextmanager
async def unconfirmed(site: Site) -> AsyncIterator[None]:
    """The only synchronous standby hangs."""
    standby = await site.cluster.candidate()
    standby.send(signal.SIGSTOP)
    async with beside(again(signing_in(site), 0.2), again(signing_in(site, daemon=1), 0.3)):
        yield
        standby.send(signal.SIGCONT)
        await site.cluster.repair()


@asynccontextmanager
async def hung(site: Site) -> AsyncIterator[None]:
    """The database's machine hangs for eight seconds."""
    node = site.cluster.primary
    async with beside(again(reading(site), 0.1)):
        await trio.sleep(1)
        node.send(signal.SIGSTOP)
        await trio.sleep(8)
        node.send(signal.SIGCONT)
        yield


@asynccontextmanager
async def clock_wrong(site: Site) -> AsyncIterator[None]:
    """The database's clock is a minute ahead."""
    # Postern looks names up in pg_catalog first, whatever is set for its role, so the wrong clock has to stand there.
    await site.do("alter function pg_catalog.clock_timestamp() rename to right_clock_timestamp")
    await site.do(
        "create function pg_catalog.clock_timestamp() returns timestamptz language sql"
        " as $$ select pg_catalog.right_clock_timestamp() + interval '60 seconds' $$"
    )
    await _reconnect(site)
    yield
    await site.do("drop function pg_catalog.clock_timestamp()")
    await site.do("alter function pg_catalog.right_clock_timestamp() rename to clock_timestamp")
    await _reconnect(site)


async def _reconnect(site: Site) -> None:
    await site.do("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postern'")


@asynccontextmanager
async def locked(site: Site) -> AsyncIterator[None]:
    """A session that somebody forgot holds the accounts: every request waits, and takes a connection."""
    async with beside(again(reading(site), 0.03), again(signing_in(site), 0.2)), site.holding("lock table users in access exclusive mode"):
        yield


@asynccontextmanager
async def locked_for_moments(site: Site) -> AsyncIterator[None]:
    """A session that holds the accounts for three seconds, again and again: sign-ins succeed, and late."""

    async def hold() -> None:
        while True:
            async with site.holding("lock table users in access exclusive mode"):
                await trio.sleep(3)
            await trio.sleep(1)

    async with beside(again(signing_in(site), 0.4), hold):
        yield


# Of the processes.


@asynccontextmanager
async def hashing(site: Site) -> AsyncIterator[None]:
    """One process has a costly hash and many sign-ins at once."""
    second = site.daemons[1]
    kept = second.settings
    await second.stop()
    second.settings = {**kept, "POSTERN_ARGON2_MEMORY": "256MiB", "POSTERN_ARGON2_PASSES": "3", "POSTERN_ARGON2_WORKERS": "1"}
    await second.start()

    async def sign_in() -> None:
        target = second.running.target("/api/auth/login")
        await fetch(target.posting({"email": f"{uuid4()}@bench.example", "password": PASSWORD}), _PATIENCE)

    async with beside(again(sign_in, 0.15)):
        yield
    await second.kill()
    second.settings = kept
    await second.start()


@asynccontextmanager
async def descriptors(site: Site) -> AsyncIterator[None]:
    """A process may open few more files than it has open."""
    pid = site.daemons[0].running.workers()[0]
    most = round(processes.descriptors(pid) * 1.15)
    subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={most}:"], check=True)  # noqa: ASYNC221 - returns at once
    yield
    subprocess.run(["prlimit", f"--pid={pid}", "--nofile=4096:"], check=True)  # noqa: ASYNC221 - returns at once


@asynccontextmanager
async def restarting(site: Site) -> AsyncIterator[None]:
    """Something ends a process again and again."""
    for _ in range(6):
        await site.daemons[1].kill()
        await site.daemons[1].start()
        await trio.sleep(1.5)
    yield


@asynccontextmanager
async def one_gone(site: Site) -> AsyncIterator[None]:
    """One of two daemons is gone."""
    await site.daemons[1].stop()
    yield
    await site.daemons[1].start()


@asynccontextmanager
async def both_gone(site: Site) -> AsyncIterator[None]:
    """Both daemons are gone."""
    for daemon in site.daemons:
        await daemon.kill()
    yield
    for daemon in site.daemons:
        await daemon.start()


@asynccontextmanager
async def certificate_ends(site: Site) -> AsyncIterator[None]:
    """A third daemon serves HTTPS with a certificate of two days; then it gets one of a year, and is restarted."""
    kept = site.secured.settings
    chain, key = _certificate(site.place, 2)
    site.secured.settings = {**kept, "POSTERN_TLS_CERTIFICATE": str(chain), "POSTERN_TLS_KEY": str(key)}
    await site.secured.start()
    yield
    _certificate(site.place, 365)
    await site.secured.stop()
    await site.secured.start()


def _certificate(place: Path, days: int) -> tuple[Path, Path]:
    chain, key = place / "served.pem", place / "served.key"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(days)]
    command = [*words, "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(chain)]
    subprocess.run(command, check=True, capture_output=True)
    return chain, key


ROUNDS: Final[Sequence[Sequence[Trial]]] = (
    (
        Trial(no_backup, ["PosternBackupUnproved"]),
        Trial(old_signing_keys, ["PosternSigningKeyOld"], restarts=True),
        Trial(months_held, ["PosternMonthsMissing"], restarts=True),
        Trial(month_obstructed, ["PosternMonthObstructed"], restarts=True),
        Trial(stood_still, ["PosternClockDoubted"], restarts=True),
        Trial(billing_news, ["PosternBillingBehind"]),
    ),
    (Trial(old_ring, ["PosternEncryptionKeyOld"]),),
    (Trial(work_broken, ["PosternWorkBroken"], restarts=True),),
    (
        Trial(guessing, ["PosternGuessing"]),
        Trial(mail_refused, ["PosternJobsDead"]),
        Trial(provider_away, ["PosternProviderAway"]),
    ),
    (
        Trial(mail_away, ["PosternMailQueue", "PosternMailFailing"]),
        Trial(webhooks_held, ["PosternWebhooksLate"]),
        Trial(siem_held, ["PosternSiemLate"]),
    ),
    (Trial(jobs_held, ["PosternJobsLate"]),),
    (Trial(rights_lost, ["PosternActorRestarts"]),),
    (
        Trial(
            database_gone,
            [
                *("PosternDatabaseAway", "PosternNotReady", "PosternActorDown", "PosternErrors"),
                *("PosternSignInsFail", "PosternSignInBudget"),
            ],
        ),
    ),
    (Trial(read_only, ["PosternReadOnly"]),),
    (Trial(disk_full, ["PosternDiskFull"]),),
    (Trial(unconfirmed, ["PosternUnconfirmed"]),),
    (Trial(hung, ["PosternDatabaseHung"]),),
    (Trial(clock_wrong, ["PosternClocksDiffer"]),),
    (Trial(locked, ["PosternPoolExhausted", "PosternPoolWaits", "PosternSlow"]),),
    (Trial(locked_for_moments, ["PosternSignInsSlow", "PosternSignInTimeBudget"]),),
    (
        Trial(hashing, ["PosternHashingSaturated"]),
        Trial(descriptors, ["PosternDescriptors"]),
        Trial(linker_held, ["PosternAuditNotLinked", "PosternActorStalled"]),
    ),
    (Trial(restarting, ["PosternRestarting"]),),
    (Trial(one_gone, ["PosternInstanceDown"]),),
    (Trial(both_gone, ["PosternDown", "PosternAbsent"]),),
    (Trial(certificate_ends, ["PosternTlsCertificateEnds", "PosternTlsCertificateOld"]),),
)
