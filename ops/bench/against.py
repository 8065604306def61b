"""`python -m ops.bench against REVISION [case …]`: this tree and an earlier commit, measured in turns in one run.

git extracts the commit's tree into a directory, and both trees run in the same virtual environment. Each server has its own database on one
PostgreSQL over TCP. Its own code migrates the database, and its own `ops.bench.filling.fill` fills it. People sign in over HTTP. Both
servers use the cheapest Argon2id that the settings permit, because the comparison is about everything else.
"""

import io
import subprocess
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count, cycle
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

import trio

from ops.bench.alternating import alternate
from ops.bench.cases.federation import FORM, application_tokens, make_shop, refreshes
from ops.bench.cases.federation import codes as codes_of
from ops.bench.cases.identity import people
from ops.bench.cases.saml import provided
from ops.bench.exchanges import exchanges
from ops.bench.filling.fill import Person
from ops.bench.filling.serving_people import ASKING, SIGNING_IN, Revised, credentials, serve_people, sign_in_all
from ops.bench.harness import Case, Options, directory, generate, tool
from ops.bench.load import Target
from ops.bench.paired import UNHASHED_WITH_POSTGRES, WITH_POSTGRES, Contestant, check, each_once, ratio, take_turns
from ops.bench.report import ROOT, Bar, Figure, at_most
from ops.bench.shared_postgres import shared_postgres
from ops.bench.upstream import make_accounts, sign_ins
from ops.stand_ins.fake_providers import FakeWebSuite, settings_of

# Turns of the look-ups on one connection, for each turn of the others. On a quiet machine, both take equally long.
BLOCKS: Final = 100
SERVER: Final = attrgetter("server")
UNHASHED: Final = attrgetter("unhashed")
POSTGRES: Final = attrgetter("postgres")


def cases(revision: str, turns: int) -> Mapping[str, Case]:
    """Returns the comparisons that the commit allows. Raises `CalledProcessError` if the commit does not exist."""
    short = _git("rev-parse", "--short", "--verify", f"{revision}^{{commit}}").decode().strip()
    return {name: partial(case, short, turns) for name, case in CASES.items()}


async def latency(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """GET /api/user by a thousand people on one connection: the time of an answer, in alternating blocks of a few requests."""
    pairs = BLOCKS * turns
    async with _pair(revision) as trees:
        for one in trees:
            await sign_in_all(one)
        ours, before = (cycle(_asking(one)) for one in trees)
        found = await trio.to_thread.run_sync(alternate, ours, before, pairs)
    return [
        Figure(f"{revision}: GET /api/user on one connection, median", found.second * 1e3, "ms"),
        Figure("this tree: GET /api/user on one connection, median", found.first * 1e3, "ms"),
        Figure(f"this tree against {revision}: latency, median of {pairs} pairs of blocks", found.ratio, bar=_bar(options)),
    ]


async def lookups(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """GET /api/user on 16 and on 64 connections, by a thousand people: processor time of the server and of PostgreSQL."""
    tool("wrk")
    figures: list[Figure] = []
    async with _pair(revision) as trees:
        for one in trees:
            await sign_in_all(one)
        for connections in (16, 64):
            figures += await _looking_up(trees, "/api/user", connections, turns, options)
    return figures


async def signin(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """Sign-in with a password, each time by another person: processor time of the server and of PostgreSQL, without the hashing."""
    async with _pair(revision) as trees:
        pair = [_signing_in(one, options.seconds) for one in trees]
        await take_turns(pair, turns)
    ours, before = pair
    return [
        *(
            Figure(f"{one.name}: CPU per sign-in besides hashing", one.median(UNHASHED), "µs", beside=one.described())
            for one in (before, ours)
        ),
        Figure(f"this tree against {revision}: CPU per sign-in besides hashing", ratio(ours, before, UNHASHED)),
        Figure(f"this tree against {revision}: PostgreSQL's CPU per sign-in", ratio(ours, before, POSTGRES)),
        Figure(f"this tree against {revision}: both", ratio(ours, before, UNHASHED_WITH_POSTGRES), bar=_bar(options)),
        Figure("sign-ins that failed", ours.failures + before.failures, bar=at_most(0)),
    ]


async def codes(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """A code exchanged for tokens: processor time of the server and of PostgreSQL."""

    async def redeeming(one: Revised, persons: Sequence[Person]) -> Iterator[Target]:
        shop = await trio.to_thread.run_sync(make_shop, one.server, persons)
        return await trio.to_thread.run_sync(codes_of, one.server, shop, persons)

    return await _each_once(revision, turns, options, "a code to tokens", redeeming)


async def refresh(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """A refresh token exchanged for tokens: processor time of the server and of PostgreSQL."""

    async def refreshing(one: Revised, persons: Sequence[Person]) -> Iterator[Target]:
        shop = await trio.to_thread.run_sync(make_shop, one.server, persons)
        return await trio.to_thread.run_sync(refreshes, one.server, shop, persons)

    return await _each_once(revision, turns, options, "a refresh token to tokens", refreshing)


async def userinfo(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """GET /oauth/userinfo on 16 connections, by a thousand people: processor time of the server and of PostgreSQL."""
    tool("wrk")
    async with _pair(revision) as trees:
        for one in trees:
            persons = await people(one.server, ASKING)
            shop = await trio.to_thread.run_sync(make_shop, one.server, persons)
            given = await application_tokens(one.server, shop, persons)
            await trio.to_thread.run_sync(one.side.postgres.settle)
            await _write(one, [f"Authorization: Bearer {token}" for token in given])
            await check(one.name, one.server.target("/oauth/userinfo"), one.asked, ASKING)
        return await _looking_up(trees, "/oauth/userinfo", 16, turns, options)


async def introspection(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """An access token that its application asks about, on 16 connections: processor time of the server and of PostgreSQL."""
    tool("wrk")
    async with _pair(revision) as trees:
        for one in trees:
            persons = await people(one.server, ASKING)
            shop = await trio.to_thread.run_sync(make_shop, one.server, persons)
            given = await application_tokens(one.server, shop, persons)
            await trio.to_thread.run_sync(one.side.postgres.settle)
            await _write(one, [f"{shop.basic}\t\t{urlencode({'token': token})}" for token in given])
        return await _looking_up(trees, "/oauth/introspect", 16, turns, options, form=FORM)


async def exchange(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """A token for one API exchanged for one for another: processor time of the server and of PostgreSQL."""

    async def exchanging(one: Revised, persons: Sequence[Person]) -> Iterator[Target]:
        shop = await trio.to_thread.run_sync(make_shop, one.server, persons)
        return await exchanges(one.server, shop, persons)

    return await _each_once(revision, turns, options, "an exchange", exchanging)


async def saml(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """A SAML request by a signed-in person; a form answers it: processor time of the server and of PostgreSQL."""

    async def exchanging(one: Revised, persons: Sequence[Person]) -> Iterator[Target]:
        shop = await trio.to_thread.run_sync(make_shop, one.server, persons)
        return await provided(one.server, shop.organization, persons)

    return await _each_once(revision, turns, options, "a SAML exchange", exchanging)


async def upstream(revision: str, turns: int, options: Options) -> Sequence[Figure]:
    """A sign-in through a provider on loopback, the way there and back: processor time of the server and of PostgreSQL."""
    with FakeWebSuite(client_id="bench") as fake:
        async with _pair(revision, more=settings_of("websuite", fake)) as trees:
            for one in trees:
                await make_accounts(one.server, fake)
                await trio.to_thread.run_sync(one.side.postgres.settle)
            pair = [Contestant(one.name, one.side, partial(sign_ins, one.server, fake, count(), options.seconds)) for one in trees]
            await take_turns(pair, turns)
    return _compared("a sign-in through a provider", pair, options)


CASES: Final = {
    "latency": latency,
    "lookups": lookups,
    "signin": signin,
    "codes": codes,
    "refresh": refresh,
    "userinfo": userinfo,
    "introspection": introspection,
    "exchange": exchange,
    "saml": saml,
    "upstream": upstream,
}


async def _each_once(
    revision: str,
    turns: int,
    options: Options,
    what: str,
    asking: Callable[[Revised, Sequence[Person]], Awaitable[Iterator[Target]]],
) -> Sequence[Figure]:
    """Single-use requests, by equally many people on either side."""
    async with _pair(revision) as trees:
        pair = []
        for one in trees:
            persons = await people(one.server, ASKING)
            targets = await asking(one, persons)
            await trio.to_thread.run_sync(one.side.postgres.settle)
            pair.append(Contestant(one.name, one.side, each_once(targets, SIGNING_IN, options.seconds)))
        await take_turns(pair, turns)
    return _compared(what, pair, options)


def _compared(what: str, pair: Sequence[Contestant], options: Options) -> Sequence[Figure]:
    ours, before = pair
    return [
        *(Figure(f"{one.name}: {what}: CPU", one.median(SERVER), "µs", beside=one.described()) for one in (before, ours)),
        Figure(f"{what}: CPU, this tree against {before.name}", ratio(ours, before, SERVER)),
        Figure(f"{what}: PostgreSQL's CPU, this tree against {before.name}", ratio(ours, before, POSTGRES)),
        Figure(f"{what}: both, this tree against {before.name}", ratio(ours, before, WITH_POSTGRES), bar=_bar(options)),
        Figure(f"{what}: requests that failed", ours.failures + before.failures, bar=at_most(0)),
    ]


async def _looking_up(
    trees: Sequence[Revised], path: str, connections: int, turns: int, options: Options, *, form: Mapping[str, str] = MappingProxyType({})
) -> Sequence[Figure]:
    """`form` has the headers of requests with a body."""
    pair = []
    for one in trees:
        target = replace(one.server.target(path), headers=form)
        pair.append(Contestant(one.name, one.side, partial(generate, target, connections, options.seconds, tokens=one.asked)))
    await take_turns(pair, turns)
    ours, before = pair
    at = f"{'POST' if form else 'GET'} {path}, {connections} connections"
    return [
        *(Figure(f"{one.name}: {at}: CPU per request", one.median(SERVER), "µs", beside=one.described()) for one in (before, ours)),
        Figure(f"{at}: CPU per request, this tree against {before.name}", ratio(ours, before, SERVER)),
        Figure(f"{at}: PostgreSQL's CPU per request, this tree against {before.name}", ratio(ours, before, POSTGRES)),
        Figure(f"{at}: both, this tree against {before.name}", ratio(ours, before, WITH_POSTGRES), bar=_bar(options)),
        Figure(f"{at}: requests that failed", ours.failures + before.failures, bar=at_most(0)),
    ]


async def _write(one: Revised, lines: Sequence[str]) -> None:
    file = trio.Path(one.asked)
    await file.touch(mode=0o600)
    await file.write_text("\n".join(lines))


def _bar(options: Options) -> Bar | None:
    """The bar that the command line sets for each ratio of both."""
    return None if options.bar is None else at_most(options.bar)


def _signing_in(one: Revised, seconds: float) -> Contestant:
    return Contestant(one.name, one.side, each_once(credentials(one, cycle(one.emails)), SIGNING_IN, seconds))


def _asking(one: Revised) -> Sequence[Target]:
    return [one.server.target("/api/user", {"Authorization": line.partition(": ")[2]}) for line in one.asked.read_text().splitlines()]


@asynccontextmanager
async def _pair(revision: str, more: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[Sequence[Revised]]:
    """Yields this tree's server, and then the commit's. `more` are further settings of both."""
    async with AsyncExitStack() as stack:
        place = stack.enter_context(directory())
        postgres = stack.enter_context(shared_postgres(place))
        tree = stack.enter_context(taken_out(revision))
        yield [
            await serve_people("this tree", ROOT, stack, place / "ours", postgres, more=more),
            await serve_people(revision, tree, stack, place / "before", postgres, more=more),
        ]


@contextmanager
def taken_out(revision: str) -> Iterator[Path]:
    """A temporary directory with the commit's files."""
    with directory() as place:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", revision))) as archive:
            archive.extractall(place, filter="data")
        yield place


def _git(*words: str) -> bytes:
    return subprocess.run([tool("git"), *words], cwd=ROOT, capture_output=True, check=True).stdout
