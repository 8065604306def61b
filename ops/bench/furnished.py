"""The cost of tokens that tell more of a person than the account: teams, roles of a service, permissions, fields, and claims of these; and
what other organizations of an installation cost: in requests, and in what an operator does.
"""

import os
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import Final, LiteralString

import trio

from adapters.postgres.embedded import BINARIES
from core.usecases.record import CHAIN_KEY
from ops.bench.cases.federation import Shop, application_tokens, codes, make_shop, refreshes
from ops.bench.cases.identity import credentials, people
from ops.bench.cases.tenancy import database_size
from ops.bench.filling.fill import Person, fill, growing
from ops.bench.filling.fill_furnished import CLAIMS, FULL, SMALL, furnish
from ops.bench.filling.fill_tenancy import Size, grow_tenancy
from ops.bench.harness import COMMAND, DidNotStart, Options, Server, directory, environment_of, generate, kept, serving
from ops.bench.inside import bearers_for, postern_of
from ops.bench.load import fetch
from ops.bench.paired import UNHASHED_WITH_POSTGRES, Contestant, Load, Side, each_once, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import SharedPostgres, shared_postgres

ASKING: Final = 1000
PEOPLE: Final = 10_000
CONNECTIONS: Final = 16
TURNS: Final = 7
SIZES: Final = (10, 10_000, 100_000)
"""Numbers of organizations."""
STARTS: Final = 5
# Sign-ins are compared besides their hashing, so it may as well cost little.
HASHING: Final[Mapping[str, str]] = {"POSTERN_ARGON2_MEMORY": "8KiB", "POSTERN_ARGON2_PASSES": "1"}
LONGEST_BACKUP: Final = 300.0


@dataclass(frozen=True, slots=True)
class House:
    """A server with two applications of the same people: of one organization that has nothing, and of one that has everything."""

    name: str
    server: Server
    side: Side
    persons: Sequence[Person]
    bare: Shop
    furnished: Shop

    async def userinfo(self, shop: Shop, seconds: float) -> Load:
        given = await application_tokens(self.server, shop, self.persons)
        await _check(self.server, shop is self.furnished, given[0])
        return self._reading("/oauth/userinfo", [f"Authorization: Bearer {token}" for token in given], shop, seconds)

    async def codes(self, shop: Shop, seconds: float) -> Load:
        targets = await trio.to_thread.run_sync(codes, self.server, shop, self.persons)
        return each_once(targets, CONNECTIONS, seconds)

    async def refreshes(self, shop: Shop, seconds: float) -> Load:
        targets = await trio.to_thread.run_sync(refreshes, self.server, shop, self.persons)
        return each_once(targets, CONNECTIONS, seconds)

    async def listing(self, noun: str, seconds: float) -> Load:
        """The first person owns the organization that has everything."""
        (header,) = await bearers_for(self.server.settings, self.persons[:1])
        path = f"/api/organizations/{self.furnished.slug}/{noun}"
        answer = await fetch(self.server.target(path, header))
        if answer is None or answer.status != 200:
            raise DidNotStart(f"nobody can list {noun}: {answer}")
        return self._reading(path, [f"Authorization: {header['Authorization']}"], self.furnished, seconds)

    async def sign_ins(self, seconds: float) -> Load:
        target = self.server.target("/api/auth/login")
        return each_once((target.posting(credentials(one)) for one in cycle(self.persons)), CONNECTIONS, seconds)

    async def metrics(self, seconds: float) -> Load:
        return self._reading("/metrics", ["Accept: text/plain"], self.furnished, seconds)

    async def started(self) -> float:
        """The seconds from the command to ready, of a second server of this installation."""
        async with serving(self.server.data_dir, database_url=self.server.database_url) as server:
            return server.readied_after

    async def backed_up(self) -> float:
        """The seconds that `postern backup create` takes."""
        with directory() as place:
            settings = {**environment_of(None), **self.server.settings, "PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}"}
            began = perf_counter()
            await trio.run_process([str(COMMAND), "backup", "create", "--to", str(place)], env=settings, capture_stdout=True)
            return perf_counter() - began

    def _reading(self, path: str, lines: Sequence[str], shop: Shop, seconds: float) -> Load:
        file = kept(self.server.data_dir / f"{shop.slug}-{path.replace('/', '-')}", lines)
        return partial(generate, self.server.target(path), CONNECTIONS, seconds, tokens=file)


WAYS: Final[Mapping[str, Callable[[House, Shop, float], Awaitable[Load]]]] = {
    "userinfo": House.userinfo,
    "code to tokens": House.codes,
    "refresh token to tokens": House.refreshes,
}
LISTS: Final = ("teams", "profile-fields", "members")


async def furnished(options: Options) -> Sequence[Figure]:
    """Userinfo, codes and refresh tokens of people with 5 teams, 10 roles, 50 permissions and 10 claims, in an organization of 10 000
    people, against the same people in an application whose organization has nothing: processor time of the server and of PostgreSQL.
    """
    seconds, figures = max(1.0, options.seconds / 3), []
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(shared_postgres(stack.enter_context(directory())))
        house = await house_of(stack, postgres, members=PEOPLE)
        for name, way in WAYS.items():
            complain(f"furnished: {name} …")
            pair = [
                Contestant(f"{name}, {kind}", house.side, await way(house, shop, seconds))
                for kind, shop in (("plain", house.bare), ("furnished", house.furnished))
            ]
            await trio.to_thread.run_sync(postgres.settle)
            await take_turns(pair, TURNS)
            bare, full = pair
            figures += [*(_of(one) for one in pair), Figure(f"{name}: furnished against plain", _both(full, bare), bar=at_most(1.5))]
            figures.append(Figure(f"{name}: requests that failed", bare.failures + full.failures, bar=at_most(0)))
    return figures


async def organizations(options: Options) -> Sequence[Figure]:
    """Userinfo, codes, refresh tokens, sign-ins, metrics, and lists of teams, fields and members beside 10, 10 000 and 100 000 other
    organizations with fields and teams: processor time of the server and of PostgreSQL, without hashing. And how long a start takes, and a
    backup.
    """
    seconds, figures = max(1.0, options.seconds / 3), []
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(shared_postgres(stack.enter_context(directory())))
        houses = [await house_of(stack, postgres, members=ASKING, others=size) for size in SIZES]
        ways = {name: partial(_by, way, seconds) for name, way in WAYS.items()}
        ways |= {f"list of {noun}": partial(House.listing, noun=noun, seconds=seconds) for noun in LISTS}
        ways |= {"sign-in": partial(House.sign_ins, seconds=seconds), "metrics": partial(House.metrics, seconds=seconds)}
        for name, way in ways.items():
            complain(f"organizations: {name} …")
            several = [
                Contestant(f"{name}, {size} organizations", one.side, await way(one)) for one, size in zip(houses, SIZES, strict=True)
            ]
            await trio.to_thread.run_sync(postgres.settle)
            await take_turns(several, TURNS)
            figures += [_of(one) for one in several]
            figures += [Figure(f"{one.name}: against {SIZES[0]}", _both(one, several[0]), bar=at_most(1.2)) for one in several[1:]]
            figures.append(Figure(f"{name}: requests that failed", sum(one.failures for one in several), bar=at_most(0)))
        return [*figures, *await _of_starts(houses), *await _of_backups(houses)]


async def _of_starts(houses: Sequence[House]) -> Sequence[Figure]:
    complain("organizations: starts …")
    taken = [[await house.started() for house in houses] for _ in range(STARTS)]
    few, *many = (statistics.median(column) for column in zip(*taken, strict=True))
    return [
        Figure(f"start to ready, {SIZES[0]} organizations", few, "s"),
        *(
            Figure(f"start to ready, {size} organizations: against {SIZES[0]}", found / few, bar=at_most(1.2), beside=f"{found:.2f} s")
            for size, found in zip(SIZES[1:], many, strict=True)
        ),
    ]


async def _of_backups(houses: Sequence[House]) -> Sequence[Figure]:
    complain("organizations: backups …")
    figures = []
    for house, size in zip(houses, SIZES, strict=True):
        beside = f"{await trio.to_thread.run_sync(database_size, house.server.database_url):.0f} MiB"
        figures.append(Figure(f"{size} organizations: a backup", await house.backed_up(), "s", at_most(LONGEST_BACKUP), beside))
    return figures


def _both(one: Contestant, other: Contestant) -> float:
    return ratio(one, other, UNHASHED_WITH_POSTGRES)


def _of(one: Contestant) -> Figure:
    return Figure(f"{one.name}: CPU with PostgreSQL's", one.median(UNHASHED_WITH_POSTGRES), "µs", beside=one.described())


async def _by(way: Callable[[House, Shop, float], Awaitable[Load]], seconds: float, house: House) -> Load:
    return await way(house, house.furnished, seconds)


async def house_of(stack: AsyncExitStack, postgres: SharedPostgres, *, members: int, others: int = 0) -> House:
    name = f"{others} organizations" if others else "alone"
    complain(f"{name}: filling …")
    data_dir = stack.enter_context(directory())
    server = await stack.enter_async_context(serving(data_dir, settings=HASHING, database_url=postgres.create(f"of{others}")))
    persons = await people(server, ASKING)
    bare = await trio.to_thread.run_sync(make_shop, server, persons)
    full = await trio.to_thread.run_sync(make_shop, server, persons, "furnished")
    if others:
        async with postern_of(server.settings) as postern:
            key = await postern.foundation.server_secrets.get(CHAIN_KEY)
        size = Size(others, 2, audit_entries=others, invitations=1, sign_ins=others)
        await trio.to_thread.run_sync(partial(grow_tenancy, server.database_url, size, chains_key=key))
    await trio.to_thread.run_sync(_fill, server.database_url, persons, full, members)
    return House(name, server, Side(server.pid, f"of{others}", postgres), persons, bare, full)


def _fill(database_url: str, persons: Sequence[Person], shop: Shop, members: int) -> None:
    everybody = [*persons, *fill(database_url, members - len(persons))]
    with growing(database_url) as connection:
        parameters = {"organization": shop.organization, "users": [one.user for one in everybody], "owner": persons[0].user}
        connection.execute(_JOIN, parameters)
        furnish(connection, "furnished", FULL)
        furnish(connection, "tenant-%", SMALL)
        connection.execute("vacuum analyze")


async def _check(server: Server, is_furnished: bool, token: str) -> None:  # noqa: FBT001 - a fact
    answer = await fetch(server.target("/oauth/userinfo", {"Authorization": f"Bearer {token}"}))
    told = b"" if answer is None else answer.body
    if answer is None or answer.status != 200 or any((f'"{name}":'.encode() in told) is not is_furnished for name in CLAIMS):
        raise DidNotStart(f"userinfo does not tell what it should: {told!r}")


_JOIN: Final[LiteralString] = """
    with joined as (
             insert into memberships (id, org_id, user_id, role, created_at, own_since)
             select gen_random_uuid(), %(organization)s, one, case when one = %(owner)s then 'owner' else 'member' end, now(), now()
               from unnest(%(users)s::uuid[]) as one
          returning org_id, user_id, role
         )
    insert into relations (organization_id, user_id, relation, object_type, object_id)
    select org_id, user_id, role, 'organization', org_id from joined
"""
