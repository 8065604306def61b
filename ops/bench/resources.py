"""The cost of tokens for an API, against tokens of the same people for none."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
import trio
from psycopg.types.json import Jsonb

from core.domain.secrets import Token
from entrypoints.http.machinery.browser_cookies import SESSION_COOKIE
from ops.bench.cases.federation import CALLBACK, CHALLENGE, FORM, Shop, codes, make_shop, refreshes
from ops.bench.cases.identity import people
from ops.bench.filling.fill import Person
from ops.bench.harness import DidNotStart, Options, Server, directory, generate, kept, serving
from ops.bench.load import fetch
from ops.bench.paired import WITH_POSTGRES, Contestant, Load, Side, each_once, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import shared_postgres

PEOPLE: Final = 1000
CONNECTIONS: Final = 16
TURNS: Final = 7
API: Final = "https://api.orders.example/orders"
_SCOPES: Final = ("orders:read", "orders:write")


@dataclass(frozen=True, slots=True)
class Asked:
    """An application whose people are asked nothing any more, because they have allowed it everything."""

    server: Server
    persons: Sequence[Person]
    shop: Shop
    cookies: Sequence[str]

    async def codes(self, seconds: float) -> Load:
        return each_once(await trio.to_thread.run_sync(codes, self.server, self.shop, self.persons), CONNECTIONS, seconds)

    async def refreshes(self, seconds: float) -> Load:
        return each_once(await trio.to_thread.run_sync(refreshes, self.server, self.shop, self.persons), CONNECTIONS, seconds)

    async def own_tokens(self, seconds: float) -> Load:
        """Tokens of the application's own."""
        fields = {"grant_type": "client_credentials", **self.shop.named}
        return await self._load("/auth/token", [f"{self.shop.basic}\t\t{urlencode(fields)}"], seconds, 200)

    async def requests(self, seconds: float) -> Load:
        """Authorization requests that end in a code at once."""
        asked = {
            "client_id": str(self.shop.client_id),
            "redirect_uri": CALLBACK,
            "response_type": "code",
            "scope": " ".join(("openid", "email", *(_SCOPES if self.shop.resource else ()))),
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            **self.shop.named,
        }
        path = f"/oauth/authorize?{urlencode(asked)}"
        return await self._load(path, [f"Cookie: {SESSION_COOKIE}={one}" for one in self.cookies], seconds, 303)

    async def _load(self, path: str, lines: Sequence[str], seconds: float, status: int) -> Load:
        target = replace(self.server.target(path), headers=FORM)
        header, _, body = lines[0].partition("\t\t")
        name, _, value = header.partition(": ")
        answer = await fetch(replace(target, method="POST" if body else "GET", headers={**FORM, name: value}, body=body.encode()))
        if answer is None or answer.status != status:
            raise DidNotStart(f"{path} does not answer as it should: {answer}")
        return partial(generate, target, CONNECTIONS, seconds, tokens=kept(self.server.data_dir / f"asked-{uuid4()}", lines))


WAYS: Final[Mapping[str, Callable[[Asked, float], Awaitable[Load]]]] = {
    "code to tokens": Asked.codes,
    "refresh token to tokens": Asked.refreshes,
    "client credentials": Asked.own_tokens,
    "authorization request to code": Asked.requests,
}


async def resources(options: Options) -> Sequence[Figure]:
    """Codes, refresh tokens, client credentials and authorization requests with a resource, against the same without: processor time of the
    server and of PostgreSQL.
    """
    seconds, figures = max(1.0, options.seconds / 3), []
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(shared_postgres(stack.enter_context(directory())))
        data_dir = stack.enter_context(directory())
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("resources")))
        persons = await people(server, PEOPLE)
        without = await trio.to_thread.run_sync(make_shop, server, persons)
        shop = await trio.to_thread.run_sync(make_shop, server, persons, "orders")
        for_api = await trio.to_thread.run_sync(_with_api, server, shop, persons)
        cookies = await trio.to_thread.run_sync(_signed_in, server, persons)
        side = Side(server.pid, "resources", postgres)
        for name, way in WAYS.items():
            complain(f"resources: {name} …")
            pair = [
                Contestant(f"{name}, {kind}", side, await way(Asked(server, persons, one, cookies), seconds))
                for kind, one in (("without resource", without), ("with resource", for_api))
            ]
            await trio.to_thread.run_sync(postgres.settle)
            await take_turns(pair, TURNS)
            plain, named = pair
            cost = f"{name}: with resource against without, CPU, PostgreSQL's too"
            figures += [Figure(f"{one.name}: CPU per request", one.median(WITH_POSTGRES), "µs", beside=one.described()) for one in pair]
            figures.append(Figure(cost, ratio(named, plain, WITH_POSTGRES), bar=at_most(1.1)))
            figures.append(Figure(f"{name}: requests that failed", plain.failures + named.failures, bar=at_most(0)))
    return figures


def _with_api(server: Server, shop: Shop, persons: Sequence[Person]) -> Shop:
    """The application may ask for an API, and everybody has allowed it all of the API's scopes."""
    api, scopes = uuid4(), [{"name": name, "description": name, "permission": None} for name in _SCOPES]
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute(
            "insert into resource_servers (id, org_id, identifier, domain, name, admits, scopes, token, approved_at, created_at,"
            " updated_at) values (%s, %s, %s, 'api.orders.example', 'Orders', 'all', %s, 't', now(), now(), now())",
            [api, shop.organization, API, Jsonb(scopes)],
        )
        connection.execute(
            "insert into resource_consents (user_id, service_id, resource_id, identifier, scopes, granted_at)"
            " select id, %s, %s, %s, %s, now() from users where id = any (%s)",
            [shop.service, api, API, list(_SCOPES), [person.user for person in persons]],
        )
        connection.execute("vacuum analyze")
    granted = [{"resource_id": str(api), "identifier": API, "scopes": list(_SCOPES)}]
    return replace(shop, audiences=Jsonb(granted), resource=API)


def _signed_in(server: Server, persons: Sequence[Person]) -> Sequence[str]:
    """The cookies of browsers in which these people have signed in."""
    cookies = [Token(uuid4().hex + uuid4().hex) for _ in persons]
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        sessions = [person.session for person in persons]
        connection.execute("update sessions set authenticated_by = '{pwd}', proved_at = now() where id = any (%s)", [sessions])
        connection.cursor().executemany(
            "insert into browser_sessions (digest, session_id) values (%s, %s)",
            [(cookie.digest(), session) for cookie, session in zip(cookies, sessions, strict=True)],
        )
        connection.execute("vacuum analyze sessions, browser_sessions")
    return [cookie.reveal() for cookie in cookies]
