"""The requests of relying parties to Postern and to oidc-provider, on one PostgreSQL in the same run. `ops/bench/cases/peers.py` says how
we set up both.

Both sign ID tokens with ES256 and keep a session or a grant for each person. oidc-provider runs twice. The first time, it has its defaults:
opaque access tokens, and a client in its configuration. The second time, it works as Postern does: it signs the access tokens that it
issues (RFC 9068), and its clients are in the database, where tenants make and end them. (Its userinfo and introspection take only opaque
tokens.)
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import trio

from core.domain.tokens import TokenAlgorithm
from ops.bench.cases.federation import FORM, VERIFIER, application_tokens, codes, make_shop
from ops.bench.cases.identity import PASSWORD, people
from ops.bench.harness import Options, directory, generate, kept, serving
from ops.bench.load import Target
from ops.bench.node import install, node_version, running
from ops.bench.paired import WITH_POSTGRES, Contestant, Load, Side, each_once, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import SharedPostgres, shared_postgres

PEOPLE: Final = 1000
CONNECTIONS: Final = 16
TURNS: Final = 5
THEIR_CODES: Final = 12_000
# Requests of each server in each turn, also in the first one that warms up. Without this limit, the quicker server would run out of codes.
CODES_A_TURN: Final = THEIR_CODES // (TURNS + 1)
CPU: Final = attrgetter("server")

USERINFO: Final = "userinfo"
INTROSPECTION: Final = "introspection"
CLIENT_CREDENTIALS: Final = "client credentials"
CODE: Final = "code to tokens"
BAR: Final = 0.8
# The other server is a bar in itself. A code becomes more here: a session, its place, the record of the sign-in.
BARS_OF_BOTH: Final[Mapping[str, float]] = {USERINFO: 1.0, INTROSPECTION: 1.0, CLIENT_CREDENTIALS: 1.0, CODE: 1.15}
_ALIKE: Final = ", done alike"


async def providers(options: Options) -> Sequence[Figure]:
    """Postern and oidc-provider on one PostgreSQL: userinfo, introspection, a client's own token, and codes exchanged for tokens."""
    version = await trio.to_thread.run_sync(node_version)
    installed = await trio.to_thread.run_sync(install)
    seconds = max(1.0, options.seconds / 2)
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        ours = await _ours(stack, place, postgres, seconds)
        theirs = await _theirs(stack, place, postgres, installed, seconds)
        alike = await _theirs(stack, place, postgres, installed, seconds, alike=True)
        await trio.to_thread.run_sync(postgres.settle)
        for what in ours:
            complain(f"providers: {what} …")
            await take_turns([one[what] for one in (ours, theirs, alike)], TURNS)
    everybody = (*ours.values(), *theirs.values(), *alike.values())
    return [
        *(Figure(f"{one.name}: CPU per request", one.median(CPU), "µs", beside=one.described()) for one in everybody),
        *(
            Figure(f"{what} against oidc-provider{how}, CPU", ratio(ours[what], side[what], CPU), bar=at_most(BAR))
            for side, how in ((theirs, ""), (alike, _ALIKE))
            for what in ours
        ),
        *(
            Figure(
                f"{what} against oidc-provider{_ALIKE}, CPU, PostgreSQL's too",
                ratio(ours[what], alike[what], WITH_POSTGRES),
                bar=at_most(bar),
            )
            for what, bar in BARS_OF_BOTH.items()
        ),
        Figure("requests that failed", sum(one.failures for one in everybody), bar=at_most(0)),
        Figure("the version of Node.js", float(version.removeprefix("v").split(".")[0]), beside=version),
    ]


async def _ours(stack: AsyncExitStack, place: Path, postgres: SharedPostgres, seconds: float) -> Mapping[str, Contestant]:
    data_dir = place / "postern"
    data_dir.mkdir()
    server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create("postern")))
    persons = await people(server, PEOPLE)
    shop = await trio.to_thread.run_sync(partial(make_shop, server, persons, id_token_algorithm=TokenAlgorithm.ES256))
    given = await application_tokens(server, shop, persons)
    side = Side(server.pid, "postern", postgres)
    asked = {
        USERINFO: ("/oauth/userinfo", [f"Authorization: Bearer {token}" for token in given]),
        INTROSPECTION: ("/oauth/introspect", [f"{shop.basic}\t\t{urlencode({'token': token})}" for token in given]),
        CLIENT_CREDENTIALS: ("/auth/token", [f"{shop.basic}\t\tgrant_type=client_credentials"]),
    }
    loads: dict[str, Load] = {
        what: _load(server.target(path), kept(data_dir / f"asked-{path[-5:]}", lines), seconds) for what, (path, lines) in asked.items()
    }
    loads[CODE] = each_once(codes(server, shop, persons), CONNECTIONS, seconds, CODES_A_TURN)
    return {what: Contestant(f"Postern's {what}", side, load) for what, load in loads.items()}


async def _theirs(
    stack: AsyncExitStack, place: Path, postgres: SharedPostgres, installed: Path, seconds: float, *, alike: bool = False
) -> Mapping[str, Contestant]:
    name = "oidc_provider_alike" if alike else "oidc_provider"
    settings = {
        "DATABASE_URL": postgres.create(name),
        "PEOPLE": str(PEOPLE),
        "PASSWORD": PASSWORD,
        "CODES": str(THEIR_CODES),
        "VERIFIER": VERIFIER,
        "ALIKE": "yes" if alike else "",
    }
    left = place / name
    process, port = await stack.enter_async_context(running("oidc_provider.js", installed, left, settings))
    side, target = Side(process.pid, name, postgres), Target("127.0.0.1", port)
    loads: dict[str, Load] = {
        USERINFO: _load(replace(target, path="/me"), left / "tokens", seconds),
        INTROSPECTION: _load(replace(target, path="/token/introspection"), left / "introspections", seconds),
        CLIENT_CREDENTIALS: _load(replace(target, path="/token"), left / "credentials", seconds),
        CODE: each_once(_their_codes(replace(target, path="/token"), left), CONNECTIONS, seconds, CODES_A_TURN),
    }
    return {what: Contestant(f"oidc-provider's {what}{_ALIKE if alike else ''}", side, load) for what, load in loads.items()}


def _their_codes(target: Target, left: Path) -> Iterator[Target]:
    name, _, value = (left / "basic").read_text().partition(": ")
    headers = {**FORM, name: value}
    for body in (left / "codes").read_text().splitlines():
        yield replace(target, method="POST", headers=headers, body=body.encode())


def _load(target: Target, asked: Path, seconds: float) -> Load:
    if "\t" in asked.read_text():
        target = replace(target, headers={**target.headers, **FORM})
    return partial(generate, target, CONNECTIONS, seconds, tokens=asked)
