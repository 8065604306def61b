"""The cost of a request to an application behind a proxy: the proxy's question, against who-am-I by the same people."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from secrets import token_urlsafe
from typing import Final
from uuid import UUID, uuid4

import psycopg
import trio

from core.domain.federation.proxy_checks import cookie_digest
from core.domain.secrets import Token
from ops.bench.cases.federation import Shop, make_shop
from ops.bench.cases.identity import people
from ops.bench.filling.fill import Person
from ops.bench.harness import DidNotStart, Options, Server, directory, generate, kept, serving
from ops.bench.inside import bearers_for
from ops.bench.load import Target, fetch
from ops.bench.paired import WITH_POSTGRES, Contestant, Load, Side, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import shared_postgres

PEOPLE: Final = 1000
CONNECTIONS: Final = 16
TURNS: Final = 9
HOST: Final = "wiki.acme.example"
# As a proxy asks that people of some roles and teams pass, and tells the application the usual four things.
_RULES: Final = ["/public open", "/admin role admin"]


async def proxied(options: Options) -> Sequence[Figure]:
    """A proxy's question about each of a thousand people, on 16 connections, against their GET /api/user: processor time of the server and
    of PostgreSQL.
    """
    seconds = max(1.0, options.seconds / 2)
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(shared_postgres(stack.enter_context(directory())))
        data_dir = stack.enter_context(directory())
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("proxied")))
        persons = await people(server, PEOPLE)
        shop = await trio.to_thread.run_sync(make_shop, server, persons)
        cookies = await trio.to_thread.run_sync(_behind_a_proxy, server, shop, persons)
        bearers = await bearers_for(server.settings, persons)
        said = {"X-Postern-Proxy": shop.secret, "X-Forwarded-Host": HOST, "X-Forwarded-Uri": "/page?x=1", "X-Forwarded-Method": "GET"}
        asking = server.target("/proxy/check", {**said, "X-Forwarded-For": "198.51.100.7", "Accept": "text/html"})
        side = Side(server.pid, "proxied", postgres)
        user, check = [
            Contestant(name, side, await _load(server, target, lines, seconds))
            for name, target, lines in (
                ("GET /api/user", server.target("/api/user"), [f"Authorization: {one['Authorization']}" for one in bearers]),
                ("/proxy/check", asking, [f"Cookie: __Host-postern={cookie}" for cookie in cookies]),
            )
        ]
        await trio.to_thread.run_sync(postgres.settle)
        complain("proxied: in turns …")
        await take_turns([user, check], TURNS)
    return [
        *(Figure(f"{one.name}: CPU each", one.median(WITH_POSTGRES), "µs", beside=one.described()) for one in (user, check)),
        Figure("/proxy/check against GET /api/user: CPU, PostgreSQL's too", ratio(check, user, WITH_POSTGRES), bar=at_most(1.1)),
        Figure(f"/proxy/check on {CONNECTIONS} connections: 99th percentile", check.median(lambda turn: turn.load.p99) * 1e3, "ms"),
        Figure("requests that failed", user.failures + check.failures, bar=at_most(0)),
    ]


async def _load(server: Server, target: Target, lines: Sequence[str], seconds: float) -> Load:
    """Checks that the first and the last are let in, each as somebody of their own."""
    answers = set()
    for name, _, value in (lines[0].partition(": "), lines[-1].partition(": ")):
        answer = await fetch(replace(target, headers={**target.headers, name: value}))
        if answer is None or answer.status != 200:
            raise DidNotStart(f"{target.path} does not let its people in: {answer}")
        answers.add(answer.body + answer.headers.get("remote-email", "").encode())
    if len(answers) != 2:
        raise DidNotStart(f"{target.path} takes two people for one")
    return partial(generate, target, CONNECTIONS, seconds, tokens=kept(server.data_dir / f"asked-{uuid4()}", lines))


def _behind_a_proxy(server: Server, shop: Shop, persons: Sequence[Person]) -> Sequence[str]:
    """The shop is behind a proxy, at a host that a platform owner has allowed. Returns the cookies of its people on that host."""
    cookies = [Token(token_urlsafe(32)) for _ in persons]
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute("update all_services set service_type = 'proxy', redirect_uris = '{}' where id = %s", [shop.service])
        connection.execute(
            "insert into proxies (service_id, rules, headers, updated_at) values (%s, %s, %s, now())",
            [shop.service, _RULES, ["Remote-User id", "Remote-Email email", "Remote-Name name", "Remote-Groups groups"]],
        )
        connection.execute("insert into proxy_hosts (host, service_id, approved_at) values (%s, %s, now())", [HOST, shop.service])
        sessions: dict[UUID, UUID] = dict(
            connection.execute("select parent_id, id from sessions where service_id = %s", [shop.service]).fetchall()
        )
        connection.cursor().executemany(
            "insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())",
            [(cookie_digest(HOST, cookie), sessions[person.session]) for cookie, person in zip(cookies, persons, strict=True)],
        )
        connection.execute("vacuum analyze")
    return [cookie.reveal() for cookie in cookies]
