"""Webhooks: the rate of deliveries, the effect of a bad receiver on the others, and no lost delivery."""

import random
import signal
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import psycopg
import trio

from adapters.system import SystemIds
from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.events import SYSTEM, Event, Target
from core.domain.tenancy.webhooks import webhook_delivery_context
from entrypoints.bootstrap import Postern
from ops.bench import processes
from ops.bench.cases.identity import PASSWORD, people
from ops.bench.filling.fill import Person, copy, growing
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.inside import postern_of
from ops.bench.load import Target as Asked
from ops.bench.load import percentile
from ops.bench.paired import Contestant, Side, each_once, ratio, take_turns
from ops.bench.receivers import Receivers, receivers
from ops.bench.report import Figure, at_least, at_most
from ops.bench.shared_postgres import shared_postgres

SETTINGS: Final = {"POSTERN_OUTBOUND_NETWORKS": "127.0.0.1"}
EVENT: Final = "user.login.success"
MANY: Final = 1_000
QUEUED: Final = 20_000
MILLION: Final = 1_000_000
TURNS: Final = 5
# Events a second of all organizations together.
PACE: Final = 100
KILLS: Final = 100
BEFORE_A_KILL: Final = 60
BAD: Final = ("dead", "slow", "500")
SUBSCRIBED: Final = 10
CPU: Final = attrgetter("server")


@dataclass(frozen=True, slots=True)
class Tenant:
    organization: UUID
    webhooks: Sequence[UUID]


async def deliveries(_options: Options) -> Sequence[Figure]:
    """Deliveries a second from one process: a queue to one receiver, one to a thousand, and a minute of a queue of a million."""
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        sink = await stack.enter_async_context(receivers())
        server = await stack.enter_async_context(serving(place, settings=SETTINGS))
        (single,) = await make_tenants(server, [[sink.url("ok/one")]])
        many = await make_tenants(server, [[sink.url(f"ok/{number}")] for number in range(MANY)])
        to_one = await _drained(server, sink, [single], QUEUED)
        to_many = await _drained(server, sink, many, QUEUED)
        before = server.resident()
        await trio.to_thread.run_sync(queue, server.database_url, many, MILLION)
        highest, began, at_first = before, trio.current_time(), len(sink.arrived)
        await sink.until(at_first + 1)
        while trio.current_time() < began + 60:
            await trio.sleep(1)
            highest = max(highest, server.resident())
        rate = (len(sink.arrived) - at_first) / (trio.current_time() - began)
    return [
        Figure("to one receiver", to_one, "a second", at_least(500)),
        Figure(f"to {MANY} receivers", to_many, "a second", at_least(500)),
        Figure("of a queue of a million, for a minute", rate, "a second"),
        Figure("resident before", before, "MiB"),
        Figure("most memory under a queue of a million, on top", highest - before, "MiB", at_most(40)),
    ]


async def destinations(options: Options) -> Sequence[Figure]:
    """The time from the commit to the arrival at a thousand receivers: with only good receivers, and with three bad ones beside them, in
    turns. One bad receiver is dead, one answers at a byte a second, one answers 500.
    """
    seconds = max(4.0, options.seconds)
    latencies: dict[bool, list[float]] = {False: [], True: []}
    p95: dict[bool, list[float]] = {False: [], True: []}
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        sink = await stack.enter_async_context(receivers())
        server = await stack.enter_async_context(serving(place, settings=SETTINGS))
        good = await make_tenants(server, [[sink.url(f"ok/{number}")] for number in range(MANY)])
        bad = await make_tenants(server, [[sink.url(name)] for name in BAD])
        postern = await stack.enter_async_context(postern_of(server.settings))
        await _published(postern, good, [], 1.0)
        for turn in range(2 * TURNS):
            with_bad = turn % 2 == 1
            await trio.to_thread.run_sync(_rested, server.database_url)
            committed = await _published(postern, good, bad if with_bad else [], seconds)
            waits = await _waits(server, sink, committed)
            latencies[with_bad] += waits
            p95[with_bad].append(percentile(sorted(waits), 95))
    ratios = [theirs / alone for theirs, alone in zip(p95[True], p95[False], strict=True)]
    return [
        Figure("commit to arrival, median", statistics.median(latencies[False]) * 1e3, "ms"),
        Figure("commit to arrival beside the three, median", statistics.median(latencies[True]) * 1e3, "ms"),
        Figure("commit to arrival, 95th percentile", statistics.median(p95[False]) * 1e3, "ms"),
        Figure("commit to arrival beside the three, 95th percentile", statistics.median(p95[True]) * 1e3, "ms", at_most(1_000)),
        Figure("beside the three against without, 95th percentile", statistics.median(ratios), bar=at_most(1.1)),
    ]


async def delivered(_options: Options) -> Sequence[Figure]:
    """Kill -9 a hundred times while Postern delivers events to twenty receivers: every event arrives, and a repeat has the same id."""
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        sink = await stack.enter_async_context(receivers())
        tenants: Sequence[Tenant] = ()
        for number in range(KILLS):
            async with serving(place, settings=SETTINGS) as server:
                tenants = tenants or await make_tenants(server, [[sink.url(f"ok/{one}")] for one in range(20)])
                # The killed process held leases. Without this line, their deliveries would come only when the leases run out.
                await trio.to_thread.run_sync(_given_back, server.database_url)
                arrived = len(sink.arrived)
                await trio.to_thread.run_sync(queue, server.database_url, tenants, BEFORE_A_KILL)
                await sink.until(arrived + 1 + number % 20)
                processes.send([server.pid], signal.SIGKILL)
                await server.process.wait()
        async with serving(place, settings=SETTINGS) as server:
            with trio.move_on_after(120):
                await sink.until(KILLS * BEFORE_A_KILL)
            known = await trio.to_thread.run_sync(_ids, server.database_url)
    came = {delivery.decode() for delivery in sink.arrived}
    again = sum(times - 1 for times in sink.times.values())
    return [
        Figure("killed and started again", KILLS, bar=at_least(KILLS)),
        Figure(f"deliveries lost, of {len(known)}", len(known - came), bar=at_most(0)),
        Figure("ids that are nobody's", len(came - known), bar=at_most(0)),
        Figure("came again under their id, since their answer was lost", again, bar=at_most(KILLS * 64)),
    ]


async def subscribed(options: Options) -> Sequence[Figure]:
    """Sign-ins to a service with ten webhooks that subscribe to them, against a service without: CPU of a sign-in while its deliveries
    wait, and while they are on their way.
    """
    figures = []
    for name, on_their_way in (("queued", False), ("delivered", True)):
        async with AsyncExitStack() as stack:
            place = stack.enter_context(directory())
            postgres = stack.enter_context(shared_postgres(place))
            sink = await stack.enter_async_context(receivers())
            data_dir = place / "postern"
            data_dir.mkdir()
            server = await stack.enter_async_context(serving(data_dir, settings=SETTINGS, database_url=postgres.create("postern")))
            strangers = iter(await people(server, 20_000))
            hooked, bare = await make_tenants(server, [[sink.url(f"ok/{one}") for one in range(SUBSCRIBED)], []])
            await trio.to_thread.run_sync(_serve_with, server.database_url, [hooked, bare], not on_their_way)
            side = Side(server.pid, "postern", postgres)
            seconds = max(2.0, options.seconds / 2)
            contestants = [
                Contestant(which, side, each_once(_sign_ins(server, strangers, slug), 4, seconds))
                for which, slug in (("none", "hook-1"), ("ten", "hook-0"))
            ]
            await take_turns(contestants, TURNS)
        bar = at_most(1.1) if not on_their_way else None
        figures += [
            Figure(f"{name}: sign-in with none, CPU", contestants[0].median(CPU), "µs", beside=contestants[0].described()),
            Figure(f"{name}: sign-in with ten, CPU", contestants[1].median(CPU), "µs", beside=contestants[1].described()),
            Figure(f"{name}: ten against none", ratio(contestants[1], contestants[0], CPU), bar=bar),
        ]
    return figures


def _sign_ins(server: Server, strangers: Iterator[Person], slug: str) -> Iterator[Asked]:
    for person in strangers:
        body = {"email": person.email, "password": PASSWORD, "org_slug": slug, "service_slug": "app"}
        yield server.target("/api/auth/login").posting(body)


async def make_tenants(server: Server, urls: Sequence[Sequence[str]]) -> Sequence[Tenant]:
    """An active organization for each list of addresses, with webhooks to these addresses. The webhooks subscribe to one type of event."""
    ids = SystemIds()
    async with postern_of(server.settings) as postern:
        keyring = postern.foundation.keyring
        tenants = [Tenant(ids.new(), [ids.new() for _ in one]) for one in urls]
        secret = b"whsec_" + b"QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
        sealed = {webhook: keyring.seal(secret, webhook_delivery_context(webhook)) for tenant in tenants for webhook in tenant.webhooks}
    await trio.to_thread.run_sync(_add_tenants, server.database_url, tenants, urls, sealed)
    return tenants


def _add_tenants(url: str, tenants: Sequence[Tenant], urls: Sequence[Sequence[str]], sealed: Mapping[UUID, bytes]) -> None:
    now = datetime.now(UTC)
    with growing(url) as connection:
        known = connection.execute("select count(*) from all_organizations where slug like 'hook-%'").fetchone()
        first = 0 if known is None else known[0]
        copy(
            connection,
            "all_organizations",
            ("id", "slug", "name", "status", "created_at", "updated_at"),
            ((one.organization, f"hook-{first + number}", "Hooks", "active", now, now) for number, one in enumerate(tenants)),
        )
        copy(
            connection,
            "webhooks",
            ("id", "org_id", "name", "url", "events", "sealed_secret", "created_at", "updated_at"),
            (
                (webhook, one.organization, f"hook {place}", address, [EVENT], sealed[webhook], now, now)
                for one, addresses in zip(tenants, urls, strict=True)
                for place, (webhook, address) in enumerate(zip(one.webhooks, addresses, strict=True))
            ),
        )
        connection.execute("analyze all_organizations, webhooks")


def _serve_with(url: str, tenants: Sequence[Tenant], at_rest: bool) -> None:  # noqa: FBT001 - run in a thread
    """A service for each. With `at_rest`, no queued delivery is due for now."""
    with growing(url) as connection:
        for one in tenants:
            connection.execute(
                "insert into all_services (id, org_id, slug, name, service_type, client_id, created_at, updated_at)"
                " values (uuidv7(), %s, 'app', 'App', 'web', uuidv7(), now(), now())",
                [one.organization],
            )
        if at_rest:
            connection.execute("update webhooks set rests_until = now() + interval '1 day'")


def queue(url: str, tenants: Sequence[Tenant], count: int) -> None:
    """Queues this many deliveries in even shares. All are due now."""
    webhooks = [webhook for one in tenants for webhook in one.webhooks]
    with growing(url) as connection:
        connection.execute(QUEUE, {"webhooks": webhooks, "organizations": [one.organization for one in tenants], "count": count})
        connection.execute("analyze webhook_deliveries")
        connection.execute("notify postern, 'webhooks'")


QUEUE: Final = f"""
    with destinations as (
             select webhook, organization, number - 1 as number
               from unnest(%(webhooks)s::uuid[], %(organizations)s::uuid[]) with ordinality as of (webhook, organization, number)
         ),
         made as materialized (
             select uuidv7() as event, uuidv7() as delivery, webhook, organization
               from generate_series(0, %(count)s - 1) as place
               join destinations on destinations.number = place %% cardinality(%(webhooks)s::uuid[])
         ),
         told as (
             insert into events (id, name, organization_id, target_type, target_id, details, occurred_at)
             select event, '{EVENT}', organization, 'user', event::text, '{{}}', now() from made
         )
    insert into webhook_deliveries (id, webhook_id, event_id, event_name, next_at, created_at, updated_at)
    select delivery, webhook, event, '{EVENT}', now(), now(), now() from made
"""


async def _drained(server: Server, sink: Receivers, tenants: Sequence[Tenant], count: int) -> float:
    at_first = len(sink.arrived)
    await trio.to_thread.run_sync(queue, server.database_url, tenants, count)
    await sink.until(at_first + 1)
    began = trio.current_time()
    await sink.until(at_first + count)
    return count / (trio.current_time() - began)


async def _published(postern: Postern, good: Sequence[Tenant], bad: Sequence[Tenant], seconds: float) -> Mapping[UUID, float]:
    """The commit time of each event of a good receiver, by its user. Each bad receiver also has an event in each second."""
    chance = random.Random(7)
    committed: dict[UUID, float] = {}
    ends = trio.current_time() + seconds
    number = 0
    while trio.current_time() < ends:
        of_bad = [one for one in bad if number % PACE == 0]
        for tenant in (chance.choice(good), *of_bad):
            user = UserId(postern.foundation.ids.new())
            async with postern.foundation.unit_of_work() as uow:
                await uow.record(Event(EVENT, SYSTEM, Target("user", str(user)), OrganizationId(tenant.organization)))
                await uow.commit()
            if tenant not in of_bad:
                committed[user] = time.monotonic()
        number += 1
        await trio.sleep(1 / PACE)
    return committed


async def _waits(server: Server, sink: Receivers, committed: Mapping[UUID, float]) -> Sequence[float]:
    found: Mapping[str, bytes] = {}
    with trio.move_on_after(60):
        while len(found) < len(committed) or not all(delivery in sink.arrived for delivery in found.values()):
            await trio.sleep(0.2)
            found = await trio.to_thread.run_sync(partial(_of_users, server.database_url, committed))
    return [sink.arrived[found[str(user)]] - at for user, at in committed.items()]


def _of_users(url: str, committed: Mapping[UUID, float]) -> Mapping[str, bytes]:
    rows = _rows(
        url,
        "select target_id, webhook_deliveries.id::text from webhook_deliveries join events on events.id = event_id"
        " where target_id = any (%s)",
        [[str(user) for user in committed]],
    )
    return {user: delivery.encode() for user, delivery in rows}


def _rested(url: str) -> None:
    """Drops the retries at the three bad receivers, so that none of them counts as failing."""
    with growing(url) as connection:
        connection.execute("update webhook_deliveries set next_at = null where next_at is not null")
        connection.execute("update webhooks set failing_since = null, rests_until = null")


def _given_back(url: str) -> None:
    with growing(url) as connection:
        connection.execute("update webhooks set lease = null, leased_until = null where lease is not null")


def _ids(url: str) -> set[str]:
    return {delivery for (delivery,) in _rows(url, "select id::text from webhook_deliveries", [])}


def _rows(url: str, statement: Any, values: Sequence[object]) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement, values).fetchall()
