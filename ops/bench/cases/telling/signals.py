"""Shared signals: the time from a sign-out to its push, no lost signal, and what polls cost others."""

import json
import signal
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID, uuid4

import psycopg
import trio

from core.domain.record.signals import SignalType
from ops.bench import processes
from ops.bench.cases.federation import FORM, Shop, make_shop
from ops.bench.filling.fill import Person, fill
from ops.bench.harness import Options, Server, directory, serving
from ops.bench.inside import bearers_for
from ops.bench.load import Client, Tally, Target, ask_each, asking, percentile
from ops.bench.receivers import Receivers, receivers
from ops.bench.report import Figure, at_least, at_most

SETTINGS: Final = {"POSTERN_OUTBOUND_NETWORKS": "127.0.0.1"}
LEAVING: Final = 500
PACE: Final = 20
"""Sign-outs a second."""
KILLED_WITH: Final = 1_000
STREAMS: Final = 5
"""An application has no more. One stream has four attempts at once."""
KILLS: Final = 10
ORGANIZATIONS: Final = 15
POLLS: Final = 300
LOOKED_FOR: Final = 15.0
PACE_OF_LOOKS: Final = 50


async def told(_options: Options) -> Sequence[Figure]:
    """The time from the answer of a sign-out to its push at a receiver, of five hundred people."""
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        sink = await stack.enter_async_context(receivers())
        server = await stack.enter_async_context(serving(place, settings=SETTINGS))
        persons = await trio.to_thread.run_sync(fill, server.database_url, LEAVING)
        await _listens(server, persons, [sink.url("ok/signals")])
        left = await _leave(server, persons)
        with trio.move_on_after(60):
            await sink.until(LEAVING)
        waits = sorted(await trio.to_thread.run_sync(partial(_waits, server.database_url, sink, left)))
    return [
        Figure("sign-outs that were told", len(waits), bar=at_least(LEAVING)),
        Figure("sign-out to push, median", statistics.median(waits) * 1e3, "ms"),
        Figure("sign-out to push, 90th percentile", percentile(waits, 90) * 1e3, "ms", at_most(2_000)),
        Figure("sign-out to push, the slowest", waits[-1] * 1e3, "ms"),
    ]


async def killed(_options: Options) -> Sequence[Figure]:
    """Kill -9 ten times while a thousand signals go out to five streams: each arrives at least once, and a repeat has the same id."""
    people = KILLED_WITH // STREAMS
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        sink = await stack.enter_async_context(receivers())
        kills = 0
        async with serving(place, settings=SETTINGS) as server:
            persons = await trio.to_thread.run_sync(fill, server.database_url, people)
            await _listens(server, persons, [sink.url(f"ok/{one}") for one in range(STREAMS)])
            await trio.to_thread.run_sync(_rests, server.database_url, True)
            headers = await bearers_for(server.settings, persons)
            targets = (_sign_out(server, one) for one in headers)
            await ask_each(targets, Tally(), connections=4)
        for number in range(KILLS):
            async with serving(place, settings=SETTINGS) as server:
                # The killed process held leases. Without this line, their signals would come only when the leases run out.
                await trio.to_thread.run_sync(_rests, server.database_url, False)
                with trio.move_on_after(60) as waited:
                    await sink.until((number + 1) * KILLED_WITH // (KILLS + 1))
                kills += not waited.cancelled_caught
                processes.send([server.pid], signal.SIGKILL)
                await server.process.wait()
        async with serving(place, settings=SETTINGS) as server:
            await trio.to_thread.run_sync(_rests, server.database_url, False)
            with trio.move_on_after(120):
                await sink.until(KILLED_WITH)
            known = {str(one) for one in await trio.to_thread.run_sync(_people, server.database_url)}
    came = {one.decode() for one in sink.arrived}
    return [
        Figure("killed while signals went out", kills, bar=at_least(KILLS)),
        Figure("signals", len(known), bar=at_least(KILLED_WITH)),
        Figure("signals lost", len(known - came), bar=at_most(0)),
        Figure("ids that are nobody's", len(came - known), bar=at_most(0)),
        Figure("came again under their id, since their answer was lost", sum(sink.times.values()) - len(came)),
    ]


async def polled(_options: Options) -> Sequence[Figure]:
    """Who-am-I at a pace, alone and beside three hundred polls at once of fifteen organizations: the time of an answer."""
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        server = await stack.enter_async_context(serving(place, settings=SETTINGS))
        persons = await trio.to_thread.run_sync(fill, server.database_url, 1)
        (header,) = await bearers_for(server.settings, persons)
        shops = [await trio.to_thread.run_sync(make_shop, server, persons, f"polls-{number}") for number in range(ORGANIZATIONS)]
        streams = [await trio.to_thread.run_sync(add_streams, server.database_url, shop, [None] * STREAMS) for shop in shops]
        tokens = [await own_token(server, shop) for shop in shops]
        polls = [
            server.target(f"/ssf/poll/{stream}", {"Authorization": f"Bearer {token}"}).posting({})
            for token, own in zip(tokens, streams, strict=True)
            for stream in own
            for _ in range(POLLS // (ORGANIZATIONS * STREAMS))
        ]
        asked = server.target("/api/user", header)
        await at_a_pace(server, asked, 2)
        alone = await at_a_pace(server, asked, LOOKED_FOR)
        tally = Tally()
        async with asking(iter(polls), tally, connections=POLLS):
            beside = await at_a_pace(server, asked, LOOKED_FOR)
    return [
        Figure("polls at once", len(polls), bar=at_least(POLLS)),
        Figure("who-am-I alone, 90th percentile", percentile(alone, 90) * 1e3, "ms"),
        Figure("who-am-I beside the polls, 90th percentile", percentile(beside, 90) * 1e3, "ms"),
        Figure("beside the polls against alone, 90th percentile", percentile(beside, 90) / percentile(alone, 90), bar=at_most(2)),
        Figure("polls that failed", sum(tally.failures.values()), bar=at_most(0)),
    ]


async def own_token(server: Server, shop: Shop) -> str:
    name, _, value = shop.basic.partition(": ")
    target = replace(server.target("/auth/token", {**FORM, name: value}), method="POST", body=b"grant_type=client_credentials")
    async with Client.connected(target) as client:
        return str(json.loads((await client.ask(target)).body)["access_token"])


async def at_a_pace(server: Server, target: Target, seconds: float) -> list[float]:
    """The times of answers, in order."""
    waits: list[float] = []
    began = trio.current_time()
    async with Client.connected(server.target("/")) as client:
        for number in range(int(seconds * PACE_OF_LOOKS)):
            await trio.sleep_until(began + number / PACE_OF_LOOKS)
            waits.append((await client.ask(target)).seconds)
    return sorted(waits)


def _sign_out(server: Server, header: Mapping[str, str]) -> Target:
    return replace(server.target("/api/auth/logout", header), method="POST")


async def _leave(server: Server, persons: Sequence[Person]) -> Mapping[UUID, float]:
    """Everybody signs out. The moment of each answer."""
    left: dict[UUID, float] = {}
    headers = await bearers_for(server.settings, persons)
    began = trio.current_time()
    async with Client.connected(server.target("/")) as client:
        for number, (person, header) in enumerate(zip(persons, headers, strict=True)):
            await trio.sleep_until(began + number / PACE)
            answer = await client.ask(_sign_out(server, header))
            if answer.status == 200:
                left[person.user] = time.monotonic()
    return left


async def _listens(server: Server, persons: Sequence[Person], urls: Sequence[str]) -> Shop:
    """A shop that everybody uses by their own act, and its streams."""
    shop = await trio.to_thread.run_sync(make_shop, server, persons)
    await trio.to_thread.run_sync(add_streams, server.database_url, shop, urls)
    return shop


def add_streams(url: str, shop: Shop, urls: Sequence[str | None]) -> Sequence[UUID]:
    """A stream that is pushed to each address; one that is polled for None. Returns their ids."""
    streams = [uuid4() for _ in urls]
    events = [SignalType.SESSION_REVOKED.value]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update service_users set own_since = now() where service_id = %s", [shop.service])
        connection.execute(
            "insert into signal_settings (service_id, events, hosts, updated_at) values (%s, %s, '{127.0.0.1}', now())",
            [shop.service, events],
        )
        for stream, one in zip(streams, urls, strict=True):
            connection.execute(
                "insert into signal_streams (id, service_id, method, endpoint, events, status, created_at, updated_at)"
                " values (%s, %s, %s, %s, %s, 'enabled', now(), now())",
                [stream, shop.service, "poll" if one is None else "push", one, events],
            )
    return streams


def _rests(url: str, rest: bool) -> None:  # noqa: FBT001 - run in a thread
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "update signal_streams set lease = null, leased_until = null, rests_until = case when %s then now() + interval '1 day' end",
            [rest],
        )
        connection.execute("notify postern, 'signals'")


def _waits(url: str, sink: Receivers, left: Mapping[UUID, float]) -> Sequence[float]:
    came = {UUID(one.decode()): at for one, at in sink.arrived.items()}
    return [max(0.0, came[notice] - left[user]) for notice, user in _people(url).items() if notice in came and user in left]


def _people(url: str) -> Mapping[UUID, UUID]:
    """Whom each queued signal is about."""
    with psycopg.connect(url) as connection:
        return dict(connection.execute("select id, user_id from logout_notices where stream_id is not null").fetchall())
