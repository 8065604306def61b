"""The requests of relying parties, each against `GET /api/user` of the same server in the same run."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import cycle
from operator import attrgetter
from pathlib import Path
from typing import Final
from urllib.parse import urlencode
from uuid import UUID, uuid4

import psycopg
import trio

from core.domain.secrets import Token
from core.domain.services.services import IdTokenAlgorithm
from entrypoints.settings import read
from ops.bench.cases.identity import people
from ops.bench.filling.fill import Person, copy
from ops.bench.harness import Options, Server, directory, generate, serving
from ops.bench.inside import bearers_for, postern_of
from ops.bench.load import Target
from ops.bench.paired import Contestant, Side, each_once, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import shared_postgres

PEOPLE: Final = 1000
CONNECTIONS: Final = 16
TURNS: Final = 7
CODES: Final = 40_000
CALLBACK: Final = "https://shop.example/callback"
VERIFIER: Final = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE: Final = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_SCOPES: Final = ("openid", "email")

USER: Final = "GET /api/user"
BARS: Final[Mapping[str, float]] = {
    "GET /oauth/userinfo": 1.15,
    "introspection": 1.15,
    "client credentials": 1.25,
    "code to tokens": 4.0,
    "code to tokens with ES256": 4.0,
}
CPU: Final = attrgetter("server")


@dataclass(frozen=True, slots=True)
class Shop:
    service: UUID
    organization: UUID
    client_id: UUID
    secret: str
    slug: str
    """The organization's."""

    @property
    def basic(self) -> str:
        return f"Authorization: Basic {b64encode(f'{self.client_id}:{self.secret}'.encode()).decode()}"


async def tokens(options: Options) -> Sequence[Figure]:
    """Userinfo, introspection, a client's own token, and codes exchanged for tokens: CPU per request against `GET /api/user`, by one caller
    and by sixteen at once. The look-ups of the sixteen travel together.
    """
    seconds = max(1.0, options.seconds / 2)
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        data_dir = place / "postern"
        data_dir.mkdir()
        server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern")))
        persons = await people(server, PEOPLE)
        shop = await trio.to_thread.run_sync(make_shop, server, persons)
        given = await application_tokens(server, shop, persons)
        quick = await trio.to_thread.run_sync(partial(make_shop, server, persons, "quick", id_token_algorithm=IdTokenAlgorithm.ES256))
        bearers = [f"Authorization: {header['Authorization']}" for header in await bearers_for(server.settings, persons)]
        side = Side(server.pid, "postern", postgres)
        measured = partial(_compared, server, side, seconds, bearers=bearers, shop=shop, quick=quick, persons=persons, given=given)
        await trio.to_thread.run_sync(postgres.settle)
        complain(f"tokens: {CONNECTIONS} connections …")
        crowd, of_crowd = await measured(connections=CONNECTIONS)
        complain("tokens: one connection …")
        alone, of_one = await measured(connections=1)
    return [
        *(Figure(f"{one.name}: CPU per request", one.median(CPU), "µs", beside=one.described()) for one in crowd),
        *(Figure(f"{name} against {USER}: CPU per request", figure, bar=at_most(BARS[name])) for name, figure in of_crowd),
        *(Figure(f"{one.name}, one at a time: CPU per request", one.median(CPU), "µs", beside=one.described()) for one in alone),
        *(Figure(f"{name} against {USER}, one at a time: CPU per request", figure, bar=at_most(BARS[name])) for name, figure in of_one),
        Figure("requests that failed", sum(one.failures for one in (*crowd, *alone)), bar=at_most(0)),
    ]


async def _compared(
    server: Server,
    side: Side,
    seconds: float,
    *,
    bearers: Sequence[str],
    shop: Shop,
    quick: Shop,
    persons: Sequence[Person],
    given: Sequence[str],
    connections: int,
) -> tuple[Sequence[Contestant], Sequence[tuple[str, float]]]:
    """All requests, and the cost of each in units of `GET /api/user` by the same generator."""
    load = partial(_by_wrk, server, side, seconds, connections)
    contestants = [
        load(name=USER, path="/api/user", lines=bearers),
        load(name="GET /oauth/userinfo", path="/oauth/userinfo", lines=[f"Authorization: Bearer {token}" for token in given]),
        load(name="introspection", path="/oauth/introspect", lines=[f"{shop.basic}\t\t{urlencode({'token': token})}" for token in given]),
        load(name="client credentials", path="/auth/token", lines=[f"{shop.basic}\t\t{urlencode({'grant_type': 'client_credentials'})}"]),
    ]
    await take_turns(contestants, TURNS)
    # Each code is good for one request, so wrk cannot send them.
    asking = Contestant(f"{USER}, one by one", side, each_once(_users(server, bearers), connections, seconds))
    redeeming = Contestant("code to tokens", side, each_once(codes(server, shop, persons), connections, seconds))
    redeeming_quick = Contestant("code to tokens with ES256", side, each_once(codes(server, quick, persons), connections, seconds))
    await take_turns([asking, redeeming, redeeming_quick], TURNS)
    compared = [*((one, contestants[0]) for one in contestants[1:]), (redeeming, asking), (redeeming_quick, asking)]
    everything = (*contestants, asking, redeeming, redeeming_quick)
    return everything, [(one.name, ratio(one, other, CPU)) for one, other in compared]


def _by_wrk(server: Server, side: Side, seconds: float, connections: int, *, name: str, path: str, lines: Sequence[str]) -> Contestant:
    place = Path(server.settings["POSTERN_DATA_DIR"])
    file = place / f"asked-{len(list(place.glob('asked-*')))}"
    file.touch(mode=0o600)
    file.write_text("\n".join(lines))
    target = server.target(path)
    if "\t" in lines[0]:
        target = replace(target, headers={**target.headers, **FORM})
    return Contestant(name, side, partial(generate, target, connections, seconds, tokens=file))


def make_shop(
    server: Server, persons: Sequence[Person], slug: str = "acme", *, id_token_algorithm: IdTokenAlgorithm = IdTokenAlgorithm.RS256
) -> Shop:
    """A service with a secret, in an organization with this slug. Everybody has signed in there and given consent."""
    shop = Shop(uuid4(), uuid4(), uuid4(), Token(uuid4().hex + uuid4().hex).reveal(), slug)
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute(
            "insert into all_organizations (id, slug, name, status, created_at, updated_at)"
            " values (%s, %s, 'Acme', 'active', now(), now())",
            [shop.organization, slug],
        )
        connection.execute(
            "insert into all_services (id, org_id, slug, name, service_type, client_id, redirect_uris, id_token_alg, created_at,"
            " updated_at) values (%s, %s, 'shop', 'Shop', 'web', %s, %s, %s, now(), now())",
            [shop.service, shop.organization, shop.client_id, [CALLBACK], id_token_algorithm.value],
        )
        connection.execute(
            "insert into client_secrets (id, service_id, prefix, digest, created_at) values (%s, %s, 'cs', %s, now())",
            [uuid4(), shop.service, Token(shop.secret).digest()],
        )
        connection.execute(
            "insert into service_users (service_id, user_id, org_id, first_login_at, created_at)"
            " select %s, id, %s, now(), now() from users where id = any (%s)",
            [shop.service, shop.organization, [person.user for person in persons]],
        )
        connection.execute(
            "insert into consents (id, user_id, service_id, scopes, granted_at)"
            " select gen_random_uuid(), id, %s, %s, now() from users where id = any (%s)",
            [shop.service, list(_SCOPES), [person.user for person in persons]],
        )
        connection.execute(
            "insert into sessions (id, user_id, organization_id, service_id, created_at, last_seen_at, expires_at, parent_id, depth,"
            " scopes) select gen_random_uuid(), user_id, %s, %s, now(), now(), now() + interval '1 day', id, 1, %s"
            " from sessions where id = any (%s)",
            [shop.organization, shop.service, list(_SCOPES), [person.session for person in persons]],
        )
        connection.execute("vacuum analyze")
    return shop


async def application_tokens(server: Server, shop: Shop, persons: Sequence[Person]) -> Sequence[str]:
    now = datetime.now(UTC)
    """An access token for each person, of the session in this shop."""
    with psycopg.connect(server.database_url) as connection:
        rows = connection.execute(
            "select parent_id, id from sessions where scopes is not null and service_id = %s", [shop.service]
        ).fetchall()
    by_parent: dict[UUID, UUID] = dict(rows)
    async with postern_of(server.settings) as postern:
        return [
            await postern.foundation.token_signer.sign_for_application(
                {
                    "iss": read(server.settings).public_url,
                    "sub": str(person.user),
                    "aud": f"service:{shop.slug}/shop",
                    "exp": int((now + timedelta(hours=1)).timestamp()),
                    "iat": int(now.timestamp()),
                    "jti": str(postern.foundation.ids.new()),
                    "sid": str(by_parent[person.session]),
                    "email": person.email,
                    "is_platform_owner": False,
                    "token_use": "access",
                    "amr": ["pwd"],
                    "org": shop.slug,
                    "service": "shop",
                    "client_id": str(shop.client_id),
                    "scope": " ".join(_SCOPES),
                }
            )
            for person in persons
        ]


def _users(server: Server, bearers: Sequence[str]) -> Iterator[Target]:
    target = server.target("/api/user")
    while True:
        for bearer in bearers:
            name, _, value = bearer.partition(": ")
            yield replace(target, headers={name: value})


def codes(server: Server, shop: Shop, persons: Sequence[Person]) -> Iterator[Target]:
    """Yields each code once. It stores all codes before the first one, so that no turn pays for that."""
    made = make_codes(server, shop, persons, CODES)
    target = server.target("/auth/token")
    name, _, value = shop.basic.partition(": ")
    headers = {**FORM, name: value}
    return (replace(target, method="POST", headers=headers, body=urlencode(exchange_of(code)).encode()) for code in made)


def refreshes(server: Server, shop: Shop, persons: Sequence[Person]) -> Iterator[Target]:
    """Yields a refresh token of each session once. It opens all sessions before the first one, in turns for all people, since a session has
    one current token.
    """
    made = [uuid4().hex + uuid4().hex for _ in range(CODES)]
    sessions = [uuid4() for _ in made]
    now = datetime.now(UTC)
    until = now + timedelta(days=1)
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        columns = ("id", "user_id", "organization_id", "service_id", "created_at", "last_seen_at", "expires_at", "parent_id", "depth")
        rows = (
            (session, one.user, shop.organization, shop.service, now, now, until, one.session, 1, list(_SCOPES))
            for session, one in zip(sessions, cycle(persons), strict=False)
        )
        copy(connection, "sessions", (*columns, "scopes"), rows)
        kept = ((Token(token).digest(), session, now) for token, session in zip(made, sessions, strict=True))
        copy(connection, "refresh_tokens", ("digest", "session_id", "created_at"), kept)
        connection.execute("vacuum analyze sessions, refresh_tokens")
    target = server.target("/auth/token")
    name, _, value = shop.basic.partition(": ")
    headers = {**FORM, name: value}
    asked = ({"grant_type": "refresh_token", "refresh_token": token} for token in made)
    return (replace(target, method="POST", headers=headers, body=urlencode(one).encode()) for one in asked)


def exchange_of(code: str) -> Mapping[str, str]:
    return {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}


def make_codes(server: Server, shop: Shop, persons: Sequence[Person], count: int) -> Sequence[str]:
    """The codes last as long as the measurement."""
    made = [uuid4().hex + uuid4().hex for _ in range(count)]
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        with connection.cursor().copy(
            "copy authorization_codes (id, digest, service_id, user_id, parent_id, redirect_uri, code_challenge, nonce, scopes, auth_time,"
            " authenticated_by, created_at, expires_at) from stdin"
        ) as copying:
            now = datetime.now(UTC)
            for number, code in enumerate(made):
                person = persons[number % len(persons)]
                copying.write_row(
                    [
                        *(uuid4(), Token(code).digest(), shop.service, person.user, person.session, CALLBACK, CHALLENGE, "n"),
                        *(list(_SCOPES), now, ["pwd"], now, now + timedelta(hours=1)),
                    ]
                )
        connection.execute("vacuum analyze authorization_codes")
    return made
