"""The service API of an installation with many services, keys and users, and the last place for a service in a tier."""

import json
import statistics
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import repeat
from pathlib import Path
from typing import Final

import psycopg
import trio

from ops.bench.cases.tenancy import at_once, database_size, grown
from ops.bench.filling.fill_services import Customer, Size, grow_services
from ops.bench.filling.fill_tenancy import Size as TenancySize
from ops.bench.harness import Measured, Options, Server, directory, measure, serving
from ops.bench.load import Answer, Client, Target, percentile
from ops.bench.report import Figure, at_least, at_most

TURNS: Final = 5
YOUNG: Final = Size(services=10, users=1_000, keys=100)
GROWN: Final = Size(services=10_000, users=1_000_000, keys=100_000)
PAGE: Final = 100
PAGES: Final = 300
AT_ONCE: Final = 20


async def services(options: Options) -> Sequence[Figure]:
    """GET /api/service/users/:id by API keys of many services, with a million users, ten thousand services and a hundred thousand keys,
    against a thousand users: on two servers, in turns. Then pages of a hundred of the service that has all of them as users.
    """
    with directory() as young_place, directory() as grown_place:
        async with serving(young_place) as young, serving(grown_place) as old:
            few = await _grown(young, YOUNG)
            began = trio.current_time()
            many = await _grown(old, GROWN)
            filling = trio.current_time() - began
            files = {young.pid: _asked(young, few), old.pid: _asked(old, many)}
            measured: dict[int, list[Measured]] = {young.pid: [], old.pid: []}
            for _ in range(TURNS):
                for server in (young, old):
                    measured[server.pid].append(await measure(server, server.target("/"), options, tokens=files[server.pid]))
            pages = await _pages(old, many[0], GROWN.users)
            size = await trio.to_thread.run_sync(database_size, old.database_url)
    in_young, in_old = measured[young.pid], measured[old.pid]
    ratio = statistics.median(more.load.rate / less.load.rate for more, less in zip(in_old, in_young, strict=True))
    return [
        Figure("a thousand users: GET /api/service/users/:id a second", statistics.median(one.load.rate for one in in_young)),
        Figure("a million users: GET /api/service/users/:id a second", statistics.median(one.load.rate for one in in_old)),
        Figure("a million against a thousand", ratio, bar=at_least(0.9)),
        Figure("a million users: 99th percentile", statistics.median(one.load.p99 for one in in_old) * 1e3, "ms"),
        Figure("a million users: CPU per request", statistics.median(one.microseconds for one in in_old), "µs"),
        Figure("requests that failed", sum(one.load.failures for one in (*in_young, *in_old)), bar=at_most(0)),
        *pages,
        Figure("the grown database", size, "MiB"),
        Figure("filling it took", filling, "s"),
    ]


async def place(options: Options) -> Sequence[Figure]:
    """Twenty requests at once create a service in an organization with one place left in its tier, in many rounds: one gets the place."""
    exact, statuses, reasons = 0, Counter[int](), Counter[str]()
    with directory() as where:
        async with serving(where) as server, AsyncExitStack() as closing:
            asker = await grown(server, TenancySize(organizations=options.rounds, members=1, audit_entries=1, invitations=0))
            await trio.to_thread.run_sync(_with_one_place, server.database_url)
            clients = [await closing.enter_async_context(Client.connected(server.target("/"))) for _ in range(AT_ONCE)]
            for tenant, headers in zip(asker.tenants, asker.headers, strict=True):
                target = server.target(f"/api/organizations/{tenant.slug}/services", headers)
                answers = await at_once(clients, [_creating(target, number) for number in range(AT_ONCE)])
                statuses.update(answer.status for answer in answers)
                reasons.update("SERVICE_LIMIT_EXCEEDED" for answer in answers if b"SERVICE_LIMIT_EXCEEDED" in answer.body)
                kept = await trio.to_thread.run_sync(_created, server.database_url, tenant.id)
                exact += kept == (2, 1, 1) and sum(answer.status == 200 for answer in answers) == 1
            rounds = len(asker.tenants)
    return [
        Figure(f"rounds in which exactly one of {AT_ONCE} got the last place, of {options.rounds}", exact, bar=at_least(options.rounds)),
        Figure("refused for want of a place", reasons["SERVICE_LIMIT_EXCEEDED"], bar=at_least(rounds * (AT_ONCE - 1))),
        Figure("answers other than 200 and 400", sum(n for status, n in statuses.items() if status not in {200, 400}), bar=at_most(0)),
    ]


async def _grown(server: Server, size: Size) -> Sequence[Customer]:
    customers = await trio.to_thread.run_sync(grow_services, server.database_url, size)
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        # PostgreSQL writes the new rows to disk now, and not during a measurement. On some servers, only an administrator may checkpoint.
        connection.execute("do $$ begin checkpoint; exception when insufficient_privilege then null; end $$")
    return customers


def _asked(server: Server, customers: Sequence[Customer]) -> Path:
    """The file with the requests: each asks for a user, with a key of the user's service."""
    file = server.data_dir / "bench.keys"
    file.touch(mode=0o600)
    file.write_text("\n".join(f"X-Api-Key: {one.key}\t/api/service/users/{one.user}" for one in customers))
    return file


async def _pages(server: Server, customer: Customer, users: int) -> Sequence[Figure]:
    figures = []
    for name, offset in {"first": 0, "middle": users // 2, "last": users - PAGE}.items():
        target = server.target(f"/api/service/users?limit={PAGE}&offset={offset}", {"X-Api-Key": customer.key})
        async with Client.connected(target) as client:
            answers = [await client.get() for _ in repeat(None, PAGES + 20)][20:]
        latencies = [answer.seconds for answer in answers]
        wrong = sum(not _is_whole(answer, users) for answer in answers)
        figures += [
            Figure(f"{name} page of {PAGE} of a million: median", percentile(latencies, 50) * 1e3, "ms"),
            Figure(f"{name} page of {PAGE} of a million: 95th percentile", percentile(latencies, 95) * 1e3, "ms", at_most(30)),
            Figure(f"{name} page: answers that were none, or not whole", wrong, bar=at_most(0)),
        ]
    return figures


def _is_whole(answer: Answer, users: int) -> bool:
    if answer.status != 200:
        return False
    content = json.loads(answer.body)
    return len(content["users"]) == PAGE and content["total"] == users


def _creating(target: Target, number: int) -> Target:
    return target.posting({"slug": f"last-{number}", "name": "Last", "service_type": "web"})


def _with_one_place(database_url: str) -> None:
    """Each organization has one service, and its tier two places."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update tiers set default_max_services = 2")


def _created(database_url: str, organization: uuid.UUID) -> tuple[int, int, int]:
    """Services, their plans and audit entries: the filled-in services have neither plans nor entries."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        found = connection.execute(_CREATED, {"organization": organization}).fetchone()
    there, plans, told = found or (0, 0, 0)
    return there, plans, told


_CREATED: Final = """
    select (select count(*) from services where org_id = %(organization)s),
           (select count(*) from plans join services on services.id = plans.service_id where services.org_id = %(organization)s),
           (select count(*) from audit_entries where organization_id = %(organization)s and action = 'service.created')
"""
