"""The cost of tokens that tell more of a person than the account: teams, roles of a service, permissions, fields, and claims of these."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
import trio

from ops.bench.cases.federation import Shop, application_tokens, codes, make_shop, refreshes
from ops.bench.cases.identity import people
from ops.bench.fill import Person, fill, growing
from ops.bench.fill_tenancy import Size, grow_tenancy
from ops.bench.harness import DidNotStart, Options, Server, directory, generate, serving
from ops.bench.inside import bearers_for
from ops.bench.load import Target, fetch
from ops.bench.paired import WITH_POSTGRES, Contestant, Load, Side, each_once, ratio, take_turns
from ops.bench.report import Figure, at_most, complain
from ops.bench.shared_postgres import SharedPostgres, shared_postgres

ASKING: Final = 1000
PEOPLE: Final = 10_000
CONNECTIONS: Final = 16
TURNS: Final = 7
SIZES: Final = (10, 10_000, 100_000)
"""Numbers of organizations."""

CLAIMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "department": ("organization_field", "field_1"),
    "cost_center": ("organization_field", "field_2"),
    "location": ("organization_field", "field_3"),
    "badge": ("person_field", "badge"),
    "floor": ("person_field", "floor"),
    "app_roles": ("roles", None),
    "app_permissions": ("permissions", None),
    "app_teams": ("teams", None),
    "tenant": ("organization", "name"),
    "edition": ("constant", "enterprise"),
}


@dataclass(frozen=True, slots=True)
class Furniture:
    """What an organization has. Everybody is in `teams_each` of the teams, and holds all roles: by a team, by the membership, or alone."""

    fields: int
    teams: int
    teams_each: int
    roles: int
    claims: Mapping[str, tuple[str, str | None]]


FULL: Final = Furniture(fields=10, teams=20, teams_each=5, roles=10, claims=CLAIMS)
SMALL: Final = Furniture(fields=3, teams=3, teams_each=1, roles=0, claims={})


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
        lines = [f"Authorization: {header['Authorization']}"]
        return self._reading(f"/api/organizations/{self.furnished.slug}/{noun}", lines, self.furnished, seconds)

    def _reading(self, path: str, lines: Sequence[str], shop: Shop, seconds: float) -> Load:
        file = Path(self.server.settings["POSTERN_DATA_DIR"]) / f"{shop.slug}-{path.replace('/', '-')}"
        file.touch(mode=0o600)
        file.write_text("\n".join(lines))
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
        house = await _house(stack, postgres, members=PEOPLE)
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
    """Userinfo, codes, refresh tokens, and lists of teams, fields and members beside 10, 10 000 and 100 000 other organizations with fields
    and teams: processor time of the server and of PostgreSQL.
    """
    seconds, figures = max(1.0, options.seconds / 3), []
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(shared_postgres(stack.enter_context(directory())))
        houses = [await _house(stack, postgres, members=ASKING, others=size) for size in SIZES]
        ways = {name: partial(_by, way, seconds) for name, way in WAYS.items()}
        ways |= {f"list of {noun}": partial(House.listing, noun=noun, seconds=seconds) for noun in LISTS}
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
    return figures


def _both(one: Contestant, other: Contestant) -> float:
    return ratio(one, other, WITH_POSTGRES)


def _of(one: Contestant) -> Figure:
    return Figure(f"{one.name}: CPU with PostgreSQL's", one.median(WITH_POSTGRES), "µs", beside=one.described())


async def _by(way: Callable[[House, Shop, float], Awaitable[Load]], seconds: float, house: House) -> Load:
    return await way(house, house.furnished, seconds)


async def _house(stack: AsyncExitStack, postgres: SharedPostgres, *, members: int, others: int = 0) -> House:
    name = f"{others} organizations" if others else "alone"
    complain(f"{name}: filling …")
    data_dir = stack.enter_context(directory())
    server = await stack.enter_async_context(serving(data_dir, database_url=postgres.create(f"of{others}")))
    persons = await people(server, ASKING)
    bare = await trio.to_thread.run_sync(make_shop, server, persons)
    full = await trio.to_thread.run_sync(make_shop, server, persons, "furnished")
    await trio.to_thread.run_sync(_fill, server.database_url, persons, full, members, others)
    return House(name, server, Side(server.pid, f"of{others}", postgres), persons, bare, full)


def _fill(database_url: str, persons: Sequence[Person], shop: Shop, members: int, others: int) -> None:
    everybody = [*persons, *fill(database_url, members - len(persons))]
    if others:
        grow_tenancy(database_url, Size(others, 2, others, invitations=1))
    with growing(database_url) as connection:
        parameters = {"organization": shop.organization, "users": [one.user for one in everybody], "owner": persons[0].user}
        connection.execute(_JOIN, parameters)
        furnish(connection, "furnished", FULL)
        if others:
            furnish(connection, "tenant-%", SMALL)
        connection.execute("vacuum analyze")


def furnish(connection: psycopg.Connection[Any], slugs: str, furniture: Furniture) -> None:
    """Gives all organizations with such slugs fields, teams, roles and claims of their services, and their members their part in these."""
    parameters = {
        "slugs": slugs,
        "fields": furniture.fields,
        "teams": furniture.teams,
        "teams_each": furniture.teams_each,
        "step": furniture.teams // furniture.teams_each,
        "roles": furniture.roles,
        "claims": list(furniture.claims),
        "sources": [source for source, _ in furniture.claims.values()],
        "arguments": [argument for _, argument in furniture.claims.values()],
    }
    with connection.transaction():
        for statement in _FURNISH:
            connection.execute(statement, parameters)


async def _check(server: Server, is_furnished: bool, token: str) -> None:  # noqa: FBT001 - a fact
    target = server.target("/oauth/userinfo", {"Authorization": f"Bearer {token}"})
    answer = await fetch(Target(target.host, target.port, target.path, target.headers))
    told = b"" if answer is None else answer.body
    if answer is None or answer.status != 200 or any((f'"{name}":'.encode() in told) is not is_furnished for name in CLAIMS):
        raise DidNotStart(f"userinfo does not tell what it should: {told!r}")


_JOIN: Final[LiteralString] = """
    insert into memberships (id, org_id, user_id, role, created_at, own_since)
    select gen_random_uuid(), %(organization)s, one, case when one = %(owner)s then 'owner' else 'member' end, now(), now()
      from unnest(%(users)s::uuid[]) as one
"""

_FURNISH: Final[Sequence[LiteralString]] = (
    """
    create temporary table houses on commit drop as
    select organizations.id as organization, services.id as service
      from organizations
      join services on services.org_id = organizations.id
     where organizations.slug like %(slugs)s
    """,
    """
    create temporary table inhabitants on commit drop as
    select houses.organization, houses.service, memberships.user_id as person,
           row_number() over (partition by houses.organization order by memberships.user_id) as number
      from houses
      join memberships on memberships.org_id = houses.organization
    """,
    """
    insert into all_profile_fields (id, key, label, kind, written_by, scope, created_at, updated_at)
    select gen_random_uuid(), key, key, 'text', '{administrator}', 'email', now(), now() from unnest('{badge,floor}'::text[]) as key
        on conflict do nothing
    """,
    """
    insert into all_profile_fields (id, org_id, key, label, kind, written_by, created_at, updated_at)
    select gen_random_uuid(), organization, 'field_' || number, 'Field ' || number, 'text', '{administrator}', now(), now()
      from houses
     cross join generate_series(1, %(fields)s) as number
    """,
    "analyze all_profile_fields, houses, inhabitants",
    """
    insert into profile_values (user_id, org_id, values, updated_at)
    select inhabitants.person, inhabitants.organization, told.values, now()
      from inhabitants
      join (
               select org_id, jsonb_object_agg(id::text, 'Value of ' || key) as values from all_profile_fields group by org_id
           ) as told on told.org_id = inhabitants.organization
    """,
    """
    insert into profile_values (user_id, values, updated_at)
    select distinct inhabitants.person, told.values, now()
      from inhabitants
     cross join (select jsonb_object_agg(id::text, 'Value of ' || key) as values from all_profile_fields where org_id is null) as told
        on conflict do nothing
    """,
    """
    create temporary table grown_teams on commit drop as
    select gen_random_uuid() as id, houses.organization, houses.service, number
      from houses
     cross join generate_series(0, %(teams)s - 1) as number
    """,
    """
    insert into teams (id, org_id, slug, name, created_at, updated_at)
    select id, organization, 'team-' || number, 'Team ' || number, now(), now() from grown_teams
    """,
    "analyze grown_teams",
    """
    insert into team_members (team_id, org_id, user_id, added_at)
    select grown_teams.id, inhabitants.organization, inhabitants.person, now()
      from inhabitants
     cross join generate_series(0, %(teams_each)s - 1) as place
      join grown_teams
        on grown_teams.organization = inhabitants.organization
       and grown_teams.number = (inhabitants.number + place * %(step)s) %% %(teams)s
    """,
    """
    insert into service_roles (id, org_id, service_id, slug, name, permissions, created_at, updated_at)
    select gen_random_uuid(), organization, service, 'role-' || number, 'Role ' || number,
           array(select 'area' || number || ':action' || action from generate_series(1, 5) as action), now(), now()
      from houses
     cross join generate_series(0, %(roles)s - 1) as number
    """,
    """
    insert into permissions (id, service_id, key, created_at)
    select gen_random_uuid(), service_roles.service_id, unnest(service_roles.permissions), now()
      from service_roles
      join houses on houses.service = service_roles.service_id
    """,
    """
    create temporary table grown_roles on commit drop as
    select service_roles.id, houses.organization, houses.service, substr(service_roles.slug, 6)::integer as number
      from service_roles
      join houses on houses.service = service_roles.service_id
    """,
    """
    insert into relations (organization_id, built_in_role, relation, object_type, object_id, id, service_id, created_at)
    select organization, role, 'holder', 'service_role', id, gen_random_uuid(), service, now()
      from grown_roles
     cross join unnest('{owner,member}'::text[]) as role
     where number %% 3 = 0
    """,
    """
    insert into relations (organization_id, team_id, relation, object_type, object_id, id, service_id, created_at)
    select grown_roles.organization, grown_teams.id, 'holder', 'service_role', grown_roles.id, gen_random_uuid(), grown_roles.service, now()
      from grown_roles
      join grown_teams on grown_teams.organization = grown_roles.organization and grown_teams.number < %(step)s
     where grown_roles.number %% 3 = 1
    """,
    """
    insert into relations (organization_id, user_id, relation, object_type, object_id, id, service_id, created_at)
    select grown_roles.organization, inhabitants.person, 'holder', 'service_role', grown_roles.id, gen_random_uuid(), grown_roles.service,
           now()
      from grown_roles
      join inhabitants on inhabitants.organization = grown_roles.organization
     where grown_roles.number %% 3 = 2
    """,
    """
    insert into service_claims (id, service_id, name, source, argument, told_in, created_at)
    select gen_random_uuid(), houses.service, told.name, told.source, to_jsonb(told.argument), '{id_token,userinfo}', now()
      from houses
     cross join unnest(%(claims)s::text[], %(sources)s::text[], %(arguments)s::text[]) as told (name, source, argument)
    """,
)
