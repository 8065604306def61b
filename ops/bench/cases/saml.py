"""SAML: the cost of a sign-in to a service provider, and the effect of two hundred at once on others."""

import time
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from itertools import cycle, islice, repeat
from operator import attrgetter
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlencode
from uuid import UUID, uuid4

import psycopg
import trio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from core.domain.secrets import Token
from entrypoints.http.machinery.browser_cookies import SESSION_COOKIE
from ops.bench.cases.federation import make_shop
from ops.bench.cases.identity import people
from ops.bench.crowd import crowded
from ops.bench.filling.fill import Person
from ops.bench.harness import Options, Server, directory, generate, serving
from ops.bench.inside import bearer
from ops.bench.load import Summary, Tally, Target, ask_each, fetch
from ops.bench.paired import Contestant, Side, each_once, take_turns
from ops.bench.report import Figure, at_least, at_most, number
from ops.bench.shared_postgres import shared_postgres

PEOPLE: Final = 200
CONNECTIONS: Final = 8
AT_ONCE: Final = 200
TURNS: Final = 5
SIGNATURES: Final = 300
_PAUSE: Final = 0.005
ENTITY: Final = "https://crm.bench.test/saml"
CPU: Final = attrgetter("server")
_PATH: Final = "/api/organizations/acme/services/shop/saml"


async def saml(options: Options) -> Sequence[Figure]:
    """A request from a signed-in browser, and the form with a signed response and assertion: against two bare RSA-2048 signatures in the
    same run. Then two hundred requests at once, and the waits of others meanwhile: at this server, and at an idle process beside it.
    """
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        data_dir = place / "postern"
        data_dir.mkdir()
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern")))
        bystanders = place / "bystander"
        bystanders.mkdir()
        bystander = await stack.enter_async_context(serving(bystanders, database_url=postgres.create("bystander")))
        persons = await people(server, PEOPLE)
        shop = await trio.to_thread.run_sync(make_shop, server, persons)
        exchanges = await provided(server, shop.organization, persons)
        contestant = Contestant(
            "exchange", Side(server.pid, "postern", postgres), each_once(exchanges, CONNECTIONS, max(2.0, options.seconds))
        )
        await take_turns([contestant], TURNS)
        signing = await trio.to_thread.run_sync(_two_signatures)
        health = server.target("/health/live")
        seconds = max(5.0, options.seconds)
        alone = await generate(health, 1, seconds, pause=_PAUSE)
        strangers = await _beside(repeat(server.target("/not-there")), Tally(), health, seconds)
        answered = Tally()
        beside = await _beside(exchanges, answered, health, seconds)
        next_door = await _beside(exchanges, answered, bystander.target("/health/live"), seconds)
    spent = contestant.median(CPU)
    return [
        Figure("an exchange, CPU", spent, "µs", beside=contestant.described()),
        Figure("two bare signatures, CPU", signing, "µs"),
        Figure("its rate against that of two bare signatures", signing / spent, bar=at_least(0.33)),
        Figure("/health/live alone, 99th percentile", alone.p99 * 1e3, "ms", beside=f"p50 {number(alone.p50 * 1e3)} ms"),
        # A crowd that asks for nothing costs something, too: the load itself, and the turns at the machine's processors.
        Figure(f"beside {AT_ONCE} at once for a page that is not there", strangers.p99 * 1e3, "ms"),
        Figure(f"beside {AT_ONCE} exchanges at once", beside.p99 * 1e3, "ms", beside=f"p50 {number(beside.p50 * 1e3)} ms"),
        Figure("beside exchanges against alone", beside.p99 / alone.p99, bar=at_most(3)),
        # Nobody else asks this process for anything, so its waits come from the machine alone.
        Figure(
            "/health/live of an idle process, beside the same exchanges",
            next_door.p99 * 1e3,
            "ms",
            beside=f"p50 {number(next_door.p50 * 1e3)} ms",
        ),
        Figure("beside exchanges against the idle process", beside.p99 / next_door.p99, bar=at_most(3)),
        Figure("exchanges at once that were answered with a form", answered.requests, bar=at_least(AT_ONCE)),
        Figure("requests that failed", contestant.failures + answered.summary().failures, bar=at_most(0)),
    ]


async def provided(server: Server, organization: UUID, persons: Sequence[Person]) -> Iterator[Target]:
    """Makes the shop of this organization a SAML identity provider. All people come to it in signed-in browsers."""
    await trio.to_thread.run_sync(_joined, server.database_url, organization, persons)
    await _configure(server, persons[0])
    return _exchanges(server, await trio.to_thread.run_sync(_browsers, server.database_url, persons))


def _joined(url: str, organization: UUID, persons: Sequence[Person]) -> None:
    """All people are members by their own act, so Postern asks nobody for consent. The first is the owner. Trees before migration 0040 do
    not know whose a membership is.
    """
    owner, users = persons[0], [person.user for person in persons]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update all_organizations set owner_user_id = %s where id = %s", [owner.user, organization])
        connection.execute(
            "insert into memberships (id, org_id, user_id, role, created_at)"
            " select gen_random_uuid(), %s, id, case when id = %s then 'owner' else 'member' end, now() from users where id = any (%s)",
            [organization, owner.user, users],
        )
        connection.execute(
            "insert into relations (organization_id, user_id, relation, object_type, object_id)"
            " select org_id, user_id, role, 'organization', org_id from memberships"
        )
        if connection.execute("select from pg_attribute where attrelid = 'memberships'::regclass and attname = 'own_since'").rowcount:
            connection.execute("update memberships set own_since = created_at")


async def _configure(server: Server, owner: Person) -> None:
    target = replace(server.target(_PATH), headers=await bearer(server, owner))
    wanted = {"enabled": True, "entity_id": ENTITY, "acs_url": f"{ENTITY}/acs", "sign_assertions": True, "sign_response": True}
    for asked in (target.posting(wanted), replace(target, path=f"{_PATH}/certificate").posting({})):
        answer = await fetch(asked)
        assert answer is not None, asked.path  # noqa: S101 - of the benchmark's own making
        assert answer.status in {200, 201}, answer  # noqa: S101


def _browsers(url: str, persons: Sequence[Person]) -> Sequence[str]:
    made = [Token(token_urlsafe(32)) for _ in persons]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "update sessions set authenticated_by = '{pwd}', proved_at = now() where id = any (%s)", [[one.session for one in persons]]
        )
        connection.cursor().executemany(
            "insert into browser_sessions (digest, session_id) values (%s, %s)",
            [(token.digest(), person.session) for token, person in zip(made, persons, strict=True)],
        )
        connection.execute("analyze")
    return [f"{SESSION_COOKIE}={token.reveal()}" for token in made]


def _exchanges(server: Server, cookies: Sequence[str]) -> Iterator[Target]:
    """Sends each request once, with its own id."""
    destination = f"http://127.0.0.1:{server.port}/saml/acme/shop/sso"
    for cookie in cycle(cookies):
        document = (
            '<samlp:AuthnRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"'
            f' ID="_{uuid4().hex}" Version="2.0" IssueInstant="{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}" Destination="{destination}"'
            f' AssertionConsumerServiceURL="{ENTITY}/acs"><saml:Issuer>{ENTITY}</saml:Issuer></samlp:AuthnRequest>'
        )
        packing = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = b64encode(packing.compress(document.encode()) + packing.flush()).decode()
        yield server.target(f"/saml/acme/shop/sso?{urlencode({'SAMLRequest': packed, 'RelayState': 'x'})}", {"Cookie": cookie})


def _two_signatures() -> float:
    """Microseconds."""
    key, message = rsa.generate_private_key(65537, 2048), bytes(400)
    began = time.thread_time()
    for _ in range(2 * SIGNATURES):
        key.sign(message, padding.PKCS1v15(), hashes.SHA256())
    return (time.thread_time() - began) / SIGNATURES * 1e6


async def _beside(targets: Iterator[Target], answered: Tally, health: Target, seconds: float) -> Summary:
    async def at_once() -> None:
        await ask_each(islice(targets, AT_ONCE), answered, connections=AT_ONCE)

    async with crowded(at_once):
        return await generate(health, 1, seconds, pause=_PAUSE)
