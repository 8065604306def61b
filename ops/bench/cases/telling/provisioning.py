"""People who arrive in another system: how long the first run takes, what a run costs that finds nothing to do, and what others notice."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import trio
from psycopg.types.json import Jsonb

from core.domain.federation.provisioning.connections import token_context
from ops.bench import processes
from ops.bench.cases.tenancy import grown
from ops.bench.filling.fill import growing
from ops.bench.filling.fill_tenancy import Size, Tenant, tenants_of
from ops.bench.harness import DidNotStart, Options, Server, directory, serving
from ops.bench.inside import bearer, postern_of
from ops.bench.load import Client, Target, fetch, percentile
from ops.bench.report import Figure, at_least, at_most, complain

PEOPLE: Final = 20_000
TEAMS: Final = 500
SETTINGS: Final = {"POSTERN_OUTBOUND_NETWORKS": "127.0.0.1"}
PACE: Final = 20
"""Looks at one's own account, a second."""
LOOKED_FOR: Final = 15.0
LONGEST_RUN: Final = 1800.0
TOKEN: Final = "far-side-of-the-benchmark"  # noqa: S105 - made up
MAPPING: Final = [
    {"attribute": "userName", "source": "address"},
    {"attribute": "emails", "source": "address"},
    {"attribute": "name.givenName", "source": "given_name"},
    {"attribute": "name.familyName", "source": "family_name"},
    {"attribute": "displayName", "source": "name"},
    {"attribute": "title", "source": "teams"},
]


async def provisioning(_options: Options) -> Sequence[Figure]:
    """Twenty thousand people and five hundred teams, sent to a process of its own: the first run, a run without differences, the memory on
    top, and who-am-I beside a run against alone.
    """
    return await sent(PEOPLE, TEAMS, looked_for=LOOKED_FOR)


async def sent(people: int, teams: int, *, looked_for: float) -> Sequence[Figure]:
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        server = await stack.enter_async_context(serving(place, settings=SETTINGS))
        port = await stack.enter_async_context(_remote_system())
        complain(f"provisioning: {people} people …")
        await grown(server, Size(organizations=1, members=people, audit_entries=1, invitations=0))
        (tenant,) = tenants_of(server.database_url, Size(1, people, 1))
        await trio.to_thread.run_sync(_name_people, server.database_url, tenant, teams)
        asked = server.target("/api/user", await bearer(server, tenant.owner))
        await _at_a_pace(server, asked, min(2.0, looked_for))
        alone = await _at_a_pace(server, asked, looked_for)
        before = max(map(processes.resident_megabytes, server.pids()))
        for pid in server.pids():
            processes.forget_peak(pid)
        connection = await _connected(server, tenant, port)
        complain("provisioning: the first run …")
        first, beside = await _run(server, connection, asked)
        complain("provisioning: a run without differences …")
        writes = (await _state(port))["requests"]
        again, meanwhile = await _run(server, connection, asked)
        state = await _state(port)
        written = {method: number - writes.get(method, 0) for method, number in state["requests"].items() if method != "GET"}
        peak = max(map(processes.peak_megabytes, server.pids()))
    return [
        Figure("first run", first, "s", at_most(600)),
        Figure("a run without differences", again, "s", at_most(60)),
        Figure("most memory during both, on top", peak - before, "MiB", at_most(20)),
        Figure("who-am-I alone, 90th percentile", percentile(alone, 90) * 1e3, "ms"),
        Figure("beside the first run against alone, 90th percentile", _against(beside, alone), bar=at_most(2)),
        Figure("beside the other run against alone, 90th percentile", _against(meanwhile, alone), bar=at_most(2)),
        Figure("people who arrived", state["active"], bar=at_least(people)),
        Figure("people who arrived twice, or without anybody here", state["people"] - people + len(state["doubles"]), bar=at_most(0)),
        Figure("writes of the run without differences", sum(written.values()), bar=at_most(0)),
    ]


def _against(beside: list[float], alone: list[float]) -> float:
    return percentile(beside, 90) / percentile(alone, 90)


@asynccontextmanager
async def _remote_system() -> AsyncIterator[int]:
    """The other system in a process of its own. Yields its port."""
    command = [sys.executable, "-m", "ops.stand_ins.fake_remote_system", "--token", TOKEN]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        written = b""
        while not written.endswith(b"\n"):
            part = await process.stdout.receive_some()
            if not part:
                raise DidNotStart("the far side has ended")
            written += part
        yield int(written)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def _state(port: int) -> dict[str, Any]:
    answer = await fetch(Target("127.0.0.1", port, "/state"), 60.0)
    if answer is None:
        raise DidNotStart("the far side does not answer")
    state: dict[str, Any] = json.loads(answer.body)
    return state


def _name_people(url: str, tenant: Tenant, teams: int) -> None:
    """Names, and teams in which everybody is once."""
    with growing(url) as connection:
        connection.execute("update users set given_name = 'Person', family_name = split_part(email, '@', 1), name = email")
        connection.execute(
            "insert into teams (id, org_id, slug, name, created_at, updated_at)"
            " select gen_random_uuid(), %s, 'team-' || number, 'Team ' || number, now(), now() from generate_series(1, %s) as s (number)",
            [tenant.id, teams],
        )
        connection.execute(
            "insert into team_members (team_id, org_id, user_id, added_at)"
            " select team, %(org)s, user_id, now()"
            "   from (select user_id, row_number() over (order by user_id) %% %(teams)s as place from memberships"
            "          where org_id = %(org)s) as people"
            "   join (select id as team, row_number() over (order by slug) - 1 as place from teams where org_id = %(org)s) as every"
            " using (place)",
            {"org": tenant.id, "teams": teams},
        )
        connection.execute("analyze")


async def _connected(server: Server, tenant: Tenant, port: int) -> UUID:
    """An active connection whose plan was let go on. Nothing is due yet."""
    made = uuid4()
    async with postern_of(server.settings) as postern:
        token = postern.foundation.keyring.seal(TOKEN.encode(), token_context(made))
    insert = partial(_insert, server.database_url, tenant, made, f"http://127.0.0.1:{port}/scim/v2", token)
    await trio.to_thread.run_sync(insert)
    return made


def _insert(url: str, tenant: Tenant, made: UUID, base_url: str, token: bytes) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "insert into provisioning_connections"
            " (id, org_id, service_id, preset, base_url, sealed_token, mapping, state, active_digest, agreed_digest)"
            " select %s, org_id, id, 'generic', %s, %s, %s, 'active', 'bench', 'bench' from all_services where org_id = %s",
            [made, base_url, token, Jsonb(MAPPING), tenant.id],
        )


async def _run(server: Server, connection: UUID, asked: Target) -> tuple[float, list[float]]:
    """A look at everybody, from the moment it is due to its end; and how long others waited meanwhile."""
    waits: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_ask_forever, server, asked, waits)
        begun = await trio.to_thread.run_sync(due, server.database_url, connection)
        with trio.fail_after(LONGEST_RUN):
            while (seconds := await trio.to_thread.run_sync(_done, server.database_url, connection, begun)) is None:  # noqa: ASYNC110 - another process works
                await trio.sleep(0.2)
        nursery.cancel_scope.cancel()
    return seconds, sorted(waits)


def due(url: str, connection: UUID) -> int:
    """Returns how many runs have ended before."""
    with psycopg.connect(url, autocommit=True) as made:
        row = made.execute("select count(*) from provisioning_runs where connection_id = %s", [connection]).fetchone()
        made.execute("update provisioning_connections set whole_due_at = now(), again_at = null where id = %s", [connection])
        made.execute("notify postern, 'provisioning'")
    return 0 if row is None else int(row[0])


def _done(url: str, connection: UUID, before: int) -> float | None:
    """The seconds of the run. Raises `DidNotStart` if it has failed."""
    with psycopg.connect(url, autocommit=True) as made:
        rows = made.execute(
            "select state, extract(epoch from ended_at - begun_at), why from provisioning_runs where connection_id = %s and kind = 'whole'"
            " order by id offset %s",
            [connection, before],
        ).fetchall()
    if not rows or rows[0][0] == "running":
        return None
    if rows[0][0] != "done":
        raise DidNotStart(f"the run is {rows[0][0]}: {rows[0][2]}")
    return float(rows[0][1])


async def _ask_forever(server: Server, target: Target, waits: list[float]) -> None:
    began, number = trio.current_time(), 0
    async with Client.connected(server.target("/")) as client:
        while True:
            await trio.sleep_until(began + number / PACE)
            waits.append((await client.ask(target)).seconds)
            number += 1


async def _at_a_pace(server: Server, target: Target, seconds: float) -> list[float]:
    waits: list[float] = []
    with trio.move_on_after(seconds):
        await _ask_forever(server, target, waits)
    return sorted(waits)
