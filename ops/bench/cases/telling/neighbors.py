"""One tenant whose webhooks, signals, provisioning and sign-in hook all do their worst at once: what everybody else notices."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import cycle
from typing import Final
from uuid import UUID, uuid4

import psycopg
import trio
from psycopg.types.json import Jsonb

from core.domain.federation.provisioning.connections import token_context
from core.domain.identifiers import HookId
from core.domain.tenancy.hooks import hook_context
from ops.bench.cases import webhooks
from ops.bench.cases.federation import Shop, make_shop
from ops.bench.cases.telling import provisioning, signals
from ops.bench.filling.fill import Person, fill
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.inside import bearers_for, postern_of
from ops.bench.load import Client, Tally, Target, percentile
from ops.bench.receivers import Receivers, receivers
from ops.bench.report import Figure, at_least, at_most

MEMBERS: Final = 60
QUEUED: Final = 20_000
PACE: Final = 20
"""Sign-ins that the hook is asked about, and polls, a second."""
ROUNDS: Final = 3
SECONDS: Final = 15.0


async def neighbors(_options: Options) -> Sequence[Figure]:
    """Who-am-I of others at a pace, alone and beside one tenant: a hook that never answers, for twenty sign-ins a second, a system that
    lists people without end, twenty thousand deliveries to receivers that are slow, fail and do not listen, and twenty polls a second.
    """
    ratios, alone, beside = [], list[float](), list[float]()
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        sink = await stack.enter_async_context(receivers())
        server = await stack.enter_async_context(serving(place, settings=webhooks.SETTINGS))
        (other, *members) = await trio.to_thread.run_sync(fill, server.database_url, MEMBERS + 1)
        (header, *headers) = await bearers_for(server.settings, [other, *members])
        asked = server.target("/api/user", header)
        shop = await trio.to_thread.run_sync(make_shop, server, members)
        streams = await trio.to_thread.run_sync(signals.add_streams, server.database_url, shop, [None] * signals.STREAMS)
        token = await signals.own_token(server, shop)
        polls = [server.target(f"/ssf/poll/{one}", {"Authorization": f"Bearer {token}"}).posting({}) for one in streams]
        selects = [replace(server.target(f"/api/organizations/{shop.slug}/select", one), method="POST") for one in headers]
        tenants = await webhooks.make_tenants(server, [[sink.url(name) for name in webhooks.BAD]])
        connection = await _hostile(server, shop, members, sink)
        await signals.at_a_pace(server, asked, 2)
        signed, polled = Tally(), Tally()
        for _ in range(ROUNDS):
            alone += (before := await signals.at_a_pace(server, asked, SECONDS))
            async with AsyncExitStack() as worst:
                await trio.to_thread.run_sync(webhooks.queue, server.database_url, tenants, QUEUED)
                await worst.enter_async_context(_in_turn(selects, signed))
                await worst.enter_async_context(_in_turn(polls, polled))
                await worst.enter_async_context(_due_again(server, connection))
                beside += (meanwhile := await signals.at_a_pace(server, asked, SECONDS))
            ratios.append(percentile(meanwhile, 90) / percentile(before, 90))
    return [
        Figure("pages of people without end", sink.pages, bar=at_least(1)),
        Figure("sign-ins at the hook that ended", signed.requests, bar=at_least(1)),
        Figure("polls that were answered", polled.requests, bar=at_least(1)),
        Figure("who-am-I alone, 90th percentile", percentile(sorted(alone), 90) * 1e3, "ms"),
        Figure("who-am-I beside the worst, 90th percentile", percentile(sorted(beside), 90) * 1e3, "ms"),
        Figure("beside the worst against alone, 90th percentile, the middle of three", sorted(ratios)[1], bar=at_most(2)),
    ]


async def _hostile(server: Server, shop: Shop, members: Sequence[Person], sink: Receivers) -> UUID:
    """Makes them members, with an enforced hook that drips, and a connection to the crowd. Returns the connection's id."""
    hook, connection = uuid4(), uuid4()
    async with postern_of(server.settings) as postern:
        keyring = postern.foundation.keyring
        secret = keyring.seal(b"whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=", hook_context(HookId(hook)))
        token = keyring.seal(b"of-the-benchmark", token_context(connection))
    parameters = {
        "organization": shop.organization,
        "users": [person.user for person in members],
        "hook": hook,
        "counts_as": uuid4(),
        "address": sink.url("slow/hook"),
        "secret": secret,
        "connection": connection,
        "service": shop.service,
        "crowd": sink.url("crowd/scim/v2"),
        "token": token,
        "mapping": Jsonb(provisioning.MAPPING),
    }
    await trio.to_thread.run_sync(_insert, server.database_url, parameters)
    return connection


def _insert(url: str, parameters: Mapping[str, object]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "insert into memberships (id, org_id, user_id, role, created_at, own_since)"
            " select gen_random_uuid(), %(organization)s, one, 'member', now(), now() from unnest(%(users)s::uuid[]) as one",
            parameters,
        )
        connection.execute(
            "insert into hooks (id, org_id, point, address, silence, seconds, sealed_secret, secret_made_at, counts_as, since, created_at,"
            " updated_at) values (%(hook)s, %(organization)s, 'sign_in', %(address)s, 'refuse', 5, %(secret)s, now(), %(counts_as)s, now(),"
            " now(), now())",
            parameters,
        )
        connection.execute(
            "insert into provisioning_connections"
            " (id, org_id, service_id, preset, base_url, sealed_token, mapping, state, active_digest, agreed_digest) values"
            " (%(connection)s, %(organization)s, %(service)s, 'generic', %(crowd)s, %(token)s, %(mapping)s, 'active', 'bench', 'bench')",
            parameters,
        )


@asynccontextmanager
async def _in_turn(targets: Sequence[Target], tally: Tally) -> AsyncIterator[None]:
    """Inside the block, these are asked in turn at a pace, however long each of them waits."""

    async def one(target: Target) -> None:
        async with Client.connected(target) as client:
            tally.answered(await client.ask(target))

    async def forever() -> None:
        async with trio.open_nursery() as waiting:
            for target in cycle(targets):
                waiting.start_soon(one, target)
                await trio.sleep(1 / PACE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(forever)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _due_again(server: Server, connection: UUID) -> AsyncIterator[None]:
    """Inside the block, the connection is due whenever it has failed."""

    async def forever() -> None:
        while True:
            await trio.to_thread.run_sync(provisioning.due, server.database_url, connection)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(forever)
        yield
        nursery.cancel_scope.cancel()
