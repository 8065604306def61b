"""Postern and two other servers, compared on the same PostgreSQL in the same run: one process each, a thousand different people.

The PostgreSQL is the embedded one with its usual settings (no JIT) and a port; each server has a database of its own in it. Rate limits are
off everywhere. Postern has its default settings, and writes its access log. The others run with NODE_ENV=production and their default
logging, which writes nothing for these requests. Their pool has 20 connections, Postern's has 10.

oidc-provider issues opaque access tokens, because its userinfo accepts no others. Its models are in one table with a primary key, the
accounts in another. It has prepared statements and a static client. The tokens carry offline_access, which makes them independent of a
session and saves a look-up. Three look-ups are left: for token, account and grant.

better-auth uses the joins that its documentation recommends for get-session. It keeps no copies of sessions in cookies, because with
them it looks nothing up. Its own function verifies its API keys, in a handler of a few lines. That function writes the time of use at each
call, and no setting turns it off. Postern writes this time once in a while for each key.

Postern and better-auth hash passwords with Argon2id and Postern's parameters. Postern uses a thread for each core, and its build for this
processor. better-auth uses Node's pool of four threads, and the quickest package of npm. (Its default, scrypt, is more work.)
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from operator import attrgetter
from pathlib import Path
from typing import Final

import psycopg
import trio

from entrypoints.settings import read
from ops.bench.cases.identity import PASSWORD, SIGNING_IN, people
from ops.bench.filling.fill_services import Size, grow_services
from ops.bench.harness import Options, directory, generate, kept, serving
from ops.bench.inside import bearers_for
from ops.bench.load import Target
from ops.bench.node import install, node_version, running
from ops.bench.paired import WITH_POSTGRES, Contestant, Side, check, each_once, ratio, take_turns
from ops.bench.report import Figure, at_least, at_most, complain
from ops.bench.shared_postgres import SharedPostgres, shared_postgres

PEOPLE: Final = 1000
TURNS: Final = 7
CPU: Final = attrgetter("server")
CONNECTIONS: Final = (1, 16, 64)

USER: Final = "Postern's GET /api/user"
INFO: Final = "Postern's GET /api/service/info by API key"
USERINFO: Final = "oidc-provider's userinfo"
SESSION: Final = "better-auth's get-session"
VERIFY: Final = "better-auth's verification of an API key"
OUR_SIGN_IN: Final = "Postern's sign-in with a password"
THEIR_SIGN_IN: Final = "better-auth's sign-in with a password, with Argon2id as ours"

THEIRS: Final = (USERINFO, SESSION, VERIFY)
COMPARED: Final = ((USER, USERINFO), (USER, SESSION), (INFO, USER), (INFO, VERIFY))
BARS: Final[Mapping[tuple[str, str, int], float]] = {
    (USER, USERINFO, 16): 0.75,
    (USER, USERINFO, 64): 0.65,
    (INFO, USER, 16): 1.1,
    (INFO, USER, 64): 1.1,
}


@dataclass(frozen=True, slots=True)
class Look:
    """An endpoint that looks something up, and the file of headers to send."""

    name: str
    side: Side
    target: Target
    asked: Path


@dataclass(frozen=True, slots=True)
class SignIn:
    """The place where people sign in, and the accounts for it."""

    name: str
    side: Side
    target: Target
    emails: Sequence[str]


async def peers(options: Options) -> Sequence[Figure]:
    """Postern, oidc-provider and better-auth on one PostgreSQL: look-ups by a thousand people, API keys, signing in; in turns."""
    version = await trio.to_thread.run_sync(node_version)
    installed = await trio.to_thread.run_sync(install)
    figures: list[Figure] = []
    everybody: list[Contestant] = []
    seconds = max(1.0, options.seconds / 2)
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        looks, sign_in, argon2id = await _ours(stack, place, postgres)
        their_looks, their_sign_in = await _theirs(stack, place, postgres, installed, argon2id)
        looks += their_looks
        for look in looks:
            await check(look.name, look.target, look.asked, PEOPLE)
        await trio.to_thread.run_sync(postgres.settle)
        for connections in CONNECTIONS:
            complain(f"peers: {connections} connections …")
            contestants = {look.name: _looking_up(look, connections, seconds) for look in looks}
            await take_turns(list(contestants.values()), TURNS)
            figures += _looked_up(contestants, connections)
            everybody += contestants.values()
        complain("peers: signing in …")
        pair = _signing_in(sign_in, options.seconds), _signing_in(their_sign_in, options.seconds)
        await take_turns(pair, TURNS)
    return [
        *figures,
        *(Figure(f"{one.name}: CPU per sign-in, hashing included", one.median(CPU), "µs", beside=one.described()) for one in pair),
        Figure(
            "sign-ins against better-auth's with the same Argon2id, CPU, PostgreSQL's too", ratio(*pair, WITH_POSTGRES), bar=at_most(1.0)
        ),
        Figure(
            "sign-ins a second against better-auth's with the same Argon2id", ratio(*pair, lambda turn: turn.load.rate), bar=at_least(1.0)
        ),
        Figure("requests that failed", sum(one.failures for one in (*everybody, *pair)), bar=at_most(0)),
        Figure("the version of Node.js", float(version.removeprefix("v").split(".")[0]), beside=version),
    ]


async def _ours(stack: AsyncExitStack, place: Path, postgres: SharedPostgres) -> tuple[list[Look], SignIn, Mapping[str, int]]:
    """The hashing parameters in the words of better-auth's package."""
    data_dir = place / "postern"
    data_dir.mkdir()
    server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern")))
    customers = await trio.to_thread.run_sync(grow_services, server.database_url, Size(services=PEOPLE, users=PEOPLE, keys=PEOPLE))
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute("update api_keys set permissions = permissions || '{read:service}'")
        connection.execute("vacuum analyze")
    persons = await people(server, PEOPLE)
    bearers = [f"Authorization: {header['Authorization']}" for header in await bearers_for(server.settings, persons)]
    side = Side(server.pid, "postern", postgres)
    looks = [
        Look(USER, side, server.target("/api/user"), kept(data_dir / "tokens", bearers)),
        Look(INFO, side, server.target("/api/service/info"), kept(data_dir / "keys", [f"X-Api-Key: {one.key}" for one in customers])),
    ]
    settings = read(server.settings)
    argon2id = {"memoryCost": settings.argon2_memory >> 10, "timeCost": settings.argon2_passes, "parallelism": settings.argon2_lanes}
    return looks, SignIn(OUR_SIGN_IN, side, server.target("/api/auth/login"), [one.email for one in persons]), argon2id


async def _theirs(
    stack: AsyncExitStack, place: Path, postgres: SharedPostgres, installed: Path, argon2id: Mapping[str, int]
) -> tuple[list[Look], SignIn]:
    async def start(program: str, database: str) -> tuple[Side, Target]:
        settings = {
            "DATABASE_URL": postgres.create(database),
            "PEOPLE": str(PEOPLE),
            "PASSWORD": PASSWORD,
            "ARGON2ID": json.dumps(argon2id),
        }
        process, port = await stack.enter_async_context(running(program, installed, place / database, settings))
        return Side(process.pid, database, postgres), Target("127.0.0.1", port)

    oidc, at_oidc = await start("oidc_provider.js", "oidc_provider")
    better, at_better = await start("better_auth.js", "better_auth")
    looks = [
        Look(USERINFO, oidc, replace(at_oidc, path="/me"), place / oidc.database / "tokens"),
        Look(SESSION, better, replace(at_better, path="/api/auth/get-session"), place / better.database / "sessions"),
        Look(VERIFY, better, replace(at_better, path="/verify"), place / better.database / "keys"),
    ]
    emails = (place / better.database / "emails").read_text().splitlines()
    return looks, SignIn(THEIR_SIGN_IN, better, replace(at_better, path="/api/auth/sign-in/email"), emails)


def _looking_up(look: Look, connections: int, seconds: float) -> Contestant:
    return Contestant(look.name, look.side, partial(generate, look.target, connections, seconds, tokens=look.asked))


def _signing_in(one: SignIn, seconds: float) -> Contestant:
    asked = (one.target.posting({"email": email, "password": PASSWORD}) for email in cycle(one.emails))
    return Contestant(one.name, one.side, each_once(asked, SIGNING_IN, seconds))


def _looked_up(contestants: Mapping[str, Contestant], connections: int) -> Sequence[Figure]:
    at = f"{connections} connection{'s' if connections > 1 else ''}"
    figures = [Figure(f"{at}, {one.name}: CPU per request", one.median(CPU), "µs", beside=one.described()) for one in contestants.values()]
    for first, second in COMPARED:
        # Under load, another server is a bar in itself.
        bar = BARS.get((first, second, connections), 1.0 if connections > 1 else None)
        pair = contestants[first], contestants[second]
        name = f"{at}, {first} against {second}"
        figures.append(Figure(f"{name}, CPU", ratio(*pair, CPU), bar=None if bar is None else at_most(bar)))
        theirs = connections > 1 and second in THEIRS
        figures.append(Figure(f"{name}, CPU, PostgreSQL's too", ratio(*pair, WITH_POSTGRES), bar=at_most(1.0) if theirs else None))
    return figures
