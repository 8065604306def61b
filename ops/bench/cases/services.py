"""The service API of an installation with many services, keys and users, and the last place for a service in a tier."""

import json
import statistics
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import Final

import psycopg
import trio

from ops.bench.cases.tenancy import at_once, database_size, grown
from ops.bench.filling.fill_services import Customer, Size, grow_services
from ops.bench.filling.fill_tenancy import Size as TenancySize
from ops.bench.harness import DidNotStart, Measured, Options, Server, directory, generate, kept, measure, serving
from ops.bench.load import Answer, Client, Target, percentile
from ops.bench.paired import WITH_POSTGRES, Contestant, Side, ratio, take_turns
from ops.bench.report import Figure, at_least, at_most
from ops.bench.shared_postgres import shared_postgres

TURNS: Final = 5
YOUNG: Final = Size(services=10, users=1_000, keys=100)
GROWN: Final = Size(services=10_000, users=1_000_000, keys=100_000)
PAGE: Final = 100
PAGES: Final = 300
AT_ONCE: Final = 20
KEYED: Final = 1_000
KEY_TURNS: Final = 7


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


async def user_keys(options: Options) -> Sequence[Figure]:
    """The check of a user's key against a request by an API key alone, of a thousand services, in turns. Half of the keys have a scope. And
    the check of a text that is no key, for which the API key alone is found.
    """
    async with AsyncExitStack() as stack:
        where = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(where))
        data_dir = where / "postern"
        data_dir.mkdir()
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern")))
        customers = await trio.to_thread.run_sync(grow_services, server.database_url, Size(services=KEYED, users=KEYED, keys=KEYED))
        shown = await trio.to_thread.run_sync(_with_user_keys, server.database_url, customers)
        await trio.to_thread.run_sync(postgres.settle)
        side = Side(server.pid, "postern", postgres)
        known, checked, unknown = where / "known", where / "checked", where / "unknown"
        kept(known, [f"X-Api-Key: {one.key}" for one in customers])
        bodies = (json.dumps({"key": key, "scopes": ["read"] if at % 2 else []}) for at, key in enumerate(shown))
        verify = "/api/service/user-keys/verify"
        kept(checked, [f"X-Api-Key: {one.key}\t{verify}\t{body}" for one, body in zip(customers, bodies, strict=True)])
        kept(unknown, [f'X-Api-Key: {one.key}\t{verify}\t{{"key": "acme_{at:06}_none"}}' for at, one in enumerate(customers)])
        info = server.target("/api/service/info")
        check = server.target(verify, {"Content-Type": "application/json"})
        await _all_valid(check, customers, shown)
        figures: list[Figure] = []
        for connections in (1, 16, 64):
            load = partial(generate, connections=connections, seconds=max(1.0, options.seconds / 2))
            alone = Contestant("an API key alone", side, partial(load, info, tokens=known))
            both = Contestant("a user key's check", side, partial(load, check, tokens=checked))
            none = Contestant("a check of what is no key", side, partial(load, check, tokens=unknown))
            await take_turns((alone, both, none), KEY_TURNS)
            at = f"{connections} connection{'s' if connections > 1 else ''}"
            cpu = attrgetter("server")
            figures += [Figure(f"{at}, {one.name}: CPU", one.median(cpu), "µs", beside=one.described()) for one in (alone, both, none)]
            figures.append(Figure(f"{at}, a user key's check against one of what is no key", ratio(both, none, WITH_POSTGRES)))
            name = f"{at}, a user key's check against an API key alone, CPU, PostgreSQL's too"
            figures.append(Figure(name, ratio(both, alone, WITH_POSTGRES), bar=at_most(1.1)))
            figures.append(Figure(f"{at}: requests that failed", sum(one.failures for one in (alone, both, none)), bar=at_most(0)))
    return figures


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
    return kept(server.data_dir / "bench.keys", (f"X-Api-Key: {one.key}\t/api/service/users/{one.user}" for one in customers))


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


def _with_user_keys(database_url: str, customers: Sequence[Customer]) -> list[str]:
    """Every customer has a key, every second one with a scope of an API that the service stands for."""
    shown = [f"acme_{at:06}_{'k' * 43}" for at in range(len(customers))]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update api_keys set permissions = permissions || '{read:service,verify:user_keys}'")
        connection.execute(
            "insert into resource_servers (id, org_id, identifier, domain, name, service_id, admits, token, scopes, created_at, updated_at)"
            " select gen_random_uuid(), org_id, 'https://api.example/' || id, 'api.example', 'API', id, 'named', 't',"
            """ '[{"name": "read", "description": "Read"}]', now(), now() from services"""
        )
        connection.execute(
            "insert into user_key_settings (service_id, enabled, prefix, most_keys, resource_id, updated_at)"
            " select service_id, true, 'acme', 10, id, now() from resource_servers"
        )
        connection.cursor().executemany(
            "insert into user_keys (id, service_id, user_id, name, prefix, digest, resource_id, scopes, created_at)"
            " select gen_random_uuid(), service_id, %s, 'Key', %s, %s, case when %s then id end,"
            " case when %s then '{read}'::text[] else '{}' end, now() from resource_servers where service_id = %s",
            [
                (one.user, key.rpartition("_")[0], sha256(key.encode()).digest(), at % 2 == 1, at % 2 == 1, one.service)
                for at, (one, key) in enumerate(zip(customers, shown, strict=True))
            ],
        )
        connection.execute("vacuum analyze")
    return shown


async def _all_valid(check: Target, customers: Sequence[Customer], shown: Sequence[str]) -> None:
    async with Client.connected(check) as client:
        for one, key in list(zip(customers, shown, strict=True))[:: KEYED // 20]:
            asked = replace(check, headers={**check.headers, "X-Api-Key": one.key}).posting({"key": key})
            answer = await client.ask(asked)
            if answer.status != 200 or not json.loads(answer.body)["valid"]:
                raise DidNotStart(f"a key is not valid: {answer.status} {answer.body!r}")
