"""Teams over HTTP: members of an organization under one name, with what the team carries."""

from collections.abc import Collection
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
import trio

from core.domain.identifiers import UserId
from core.domain.record.events import Actor
from core.domain.tenancy import teams as rules
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.teams import MOST_TEAMS, free_slug, slug_stem
from core.usecases.tenancy import teams as usecase
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops, all_at_once
from tests.http.client import Client, Received, refused
from tests.http.locks import behind
from tests.http.people import People, Person

ACME: Final = "/api/organizations/acme"
TEAMS: Final = f"{ACME}/teams"
FORBIDDEN, BAD_REQUEST, NOT_FOUND, CONFLICT = (403, "FORBIDDEN"), (400, "BAD_REQUEST"), (404, "NOT_FOUND"), (409, "CONFLICT")
AGAIN: Final = (401, "REAUTHENTICATION_REQUIRED")


class TeamScene(Shops):
    """Acme with an owner, a member, and a person who manages members and reads the audit log."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.member = self.resident(self.acme, "owner"), self.resident(self.acme, "member")
        self.speaker = self.owner
        self.auditor = self.tenants.role(self.acme, "auditor", [Capability.AUDIT_LOGS_VIEW])
        self.webhooks = self.tenants.role(self.acme, "webhooks", [Capability.WEBHOOKS_MANAGE])
        manages = self.tenants.role(self.acme, "people-manager", [Capability.MEMBERS_MANAGE, Capability.AUDIT_LOGS_VIEW])
        self.manager = self.resident(self.acme, manages, "manager")

    async def ask(self, method: str, path: str = "", body: Any = None, *, by: Person | None = None) -> Received:
        return await self.request(method, TEAMS + path, body, by=by)

    async def made(self, slug: str = "watch", role: str | None = "auditor", *, by: Person | None = None, directory: bool = False) -> Any:
        team = (await self.ask("POST", "", {"slug": slug, "name": slug.title(), "role": role}, by=by)).ok(201)
        if directory:
            self.people.change("update teams set source = 'directory' where id = %s", UUID(team["id"]))
        return team

    async def put(self, slug: str, who: Person, *, by: Person | None = None) -> Received:
        return await self.ask("PUT", f"/{slug}/members/{who.user}", by=by)

    async def take(self, slug: str, who: Person, *, by: Person | None = None) -> Received:
        return await self.ask("DELETE", f"/{slug}/members/{who.user}", by=by)

    async def may_read_log(self, who: Person) -> bool:
        return (await self.request("GET", f"{ACME}/audit-log", by=who)).status == 200

    def in_teams(self, who: Person) -> Collection[str]:
        rows = self.people.rows("select slug from teams join team_members on team_id = teams.id where user_id = %s order by slug", who.user)
        return [row["slug"] for row in rows]

    def stale(self, who: Person) -> None:
        self.people.change("update sessions set proved_at = now() - interval '1 day' where user_id = %s", who.user)


@pytest.fixture
def house(postern: Postern, people: People, client: Client, log: CapturedLog) -> TeamScene:
    return TeamScene(postern, people, client, log)


async def test_a_team_brings_its_role_from_the_next_request_on_and_takes_it_away(house: TeamScene) -> None:
    team = await house.made()
    assert {name: team[name] for name in ("org_id", "slug", "name", "source", "external_id", "role")} == {
        "org_id": str(house.acme.id),
        "slug": "watch",
        "name": "Watch",
        "source": "own",
        "external_id": None,
        "role": "auditor",
    }
    assert not await house.may_read_log(house.member)
    for _ in range(2):
        assert (await house.put("watch", house.member)).status == 204
    assert await house.may_read_log(house.member)
    (listed,) = (await house.ask("GET", "/watch/members", by=house.member)).ok()["members"]
    assert (listed["user_id"], listed["email"]) == (str(house.member.user), house.member.email)
    for _ in range(2):
        assert (await house.take("watch", house.member)).status == 204
    assert not await house.may_read_log(house.member)
    # A change of the role, and the end of the team, end the right as well.
    await house.put("watch", house.member)
    changed = (await house.ask("PATCH", "/watch", {"role": None, "name": "Watchers"})).ok()
    assert (changed["role"], changed["name"]) == (None, "Watchers")
    assert not await house.may_read_log(house.member)
    assert (await house.ask("PATCH", "/watch", {"role": "auditor"})).status == 200
    assert await house.may_read_log(house.member)
    assert (await house.ask("DELETE", "/watch")).status == 204
    assert not await house.may_read_log(house.member)
    told = [(one["action"], one["target_type"], one["details"]) for one in house.audited("team.%")]
    assert [action for action, _, _ in told] == [
        *("team.created", "team.member.added", "team.member.removed", "team.member.added", "team.updated", "team.updated", "team.deleted")
    ]
    assert told[0] == ("team.created", "team", {"team_slug": "watch", "name": "Watch", "source": "own", "role": "auditor"})
    assert told[1] == ("team.member.added", "user", {"team_id": team["id"], "team_slug": "watch", "role": "auditor"})
    assert told[4][2] == {"team_slug": "watch", "old_name": "Watch", "new_name": "Watchers", "old_role": "auditor", "new_role": None}
    assert house.people.rows("select from relations where team_id is not null") == []
    assert [one["name"] for one in house.told() if one["name"].startswith("team.")] == [action for action, _, _ in told]


async def test_nobody_gives_or_takes_by_a_team_what_they_lack(house: TeamScene) -> None:
    await house.made("chiefs", "admin")
    await house.made("hooks", "webhooks")
    await house.made("watch", "auditor", by=house.manager)
    for slug in ("chiefs", "hooks"):
        for answer in (
            await house.put(slug, house.member, by=house.manager),
            await house.put(slug, house.manager, by=house.manager),
            await house.take(slug, house.member, by=house.manager),
            await house.ask("PATCH", f"/{slug}", {"role": None}, by=house.manager),
            await house.ask("PATCH", f"/{slug}", {"role": "auditor"}, by=house.manager),
            await house.ask("DELETE", f"/{slug}", by=house.manager),
            await house.ask("PATCH", "/watch", {"role": "admin"}, by=house.manager),
            await house.ask("POST", "", {"slug": "new", "name": "New", "role": "webhooks"}, by=house.manager),
        ):
            assert refused(answer) == FORBIDDEN
    assert (await house.put("watch", house.member, by=house.manager)).status == 204
    for body in ({"slug": "x", "name": "X"}, {"slug": "y", "name": "Y", "role": "member"}):
        assert refused(await house.ask("POST", "", body, by=house.member)) == FORBIDDEN
    assert house.in_teams(house.member) == ["watch"]
    # A team makes its members people who may do more: nobody with fewer rights removes them.
    await house.put("hooks", house.member)
    assert refused(await house.request("POST", f"{ACME}/members/{house.member.user}", by=house.manager)) == FORBIDDEN


async def test_who_adds_to_a_team_with_roles_of_services_manages_services(house: TeamScene) -> None:
    team = await house.made(role=None)
    give = (
        "insert into relations (organization_id, team_id, relation, object_type, object_id, id, service_id, created_at)"
        " values (%s, %s, 'holder', 'service_role', gen_random_uuid(), gen_random_uuid(), %s, now())"
    )
    house.people.change(give, house.acme.id, UUID(team["id"]), house.shop.id)
    assert refused(await house.put("watch", house.member, by=house.manager)) == FORBIDDEN
    assert (await house.put("watch", house.member)).status == 204
    # Roles of services open nothing in the organization, and a change of the team's own role leaves them.
    await house.ask("PATCH", "/watch", {"role": "auditor"})
    await house.ask("PATCH", "/watch", {"role": None})
    assert [row["object_type"] for row in house.people.rows("select object_type from relations where team_id is not null")] == [
        "service_role"
    ]
    assert not await house.may_read_log(house.member)


async def test_a_role_of_the_organization_that_brings_roles_of_services_is_not_got_around_by_a_team(house: TeamScene) -> None:
    for slug, role in (("watch", "auditor"), ("crowd", "member"), ("empty", None)):
        await house.made(slug, role)
    give = (
        "insert into relations (organization_id, role_id, built_in_role, relation, object_type, object_id, id, service_id, created_at)"
        " values (%s, %s, %s, 'holder', 'service_role', gen_random_uuid(), gen_random_uuid(), %s, now())"
    )
    house.people.change(give, house.acme.id, house.auditor.id, None, house.shop.id)
    house.people.change(give, house.acme.id, None, "member", house.shop.id)
    for slug in ("watch", "crowd"):
        assert refused(await house.put(slug, house.manager, by=house.manager)) == FORBIDDEN
        assert (await house.put(slug, house.manager)).status == 204
    assert (await house.put("empty", house.manager, by=house.manager)).status == 204
    for role in ("auditor", "member"):
        assert refused(await house.ask("PATCH", "/empty", {"role": role}, by=house.manager)) == FORBIDDEN
    (await house.ask("PATCH", "/empty", {"role": "auditor"})).ok()
    # Taking away is free.
    (await house.ask("PATCH", "/watch", {"role": None}, by=house.manager)).ok()


async def test_what_a_team_cannot_be(house: TeamScene) -> None:
    await house.made()
    for body in (
        {"slug": "Watch", "name": "X"},
        {"slug": "-", "name": "X"},
        {"slug": "a" * 51, "name": "X"},
        {"slug": "x", "name": ""},
        {"slug": "x", "name": "n" * 101},
        {"slug": "x", "name": "X", "role": "owner"},
        {"slug": "x", "name": "X", "role": "nothing"},
    ):
        assert refused(await house.ask("POST", "", body)) == BAD_REQUEST, body
    assert refused(await house.ask("POST", "", {"slug": "watch", "name": "Again"})) == CONFLICT
    assert refused(await house.ask("PATCH", "/watch", {})) == BAD_REQUEST
    assert refused(await house.ask("PATCH", "/watch", {"role": "owner"})) == BAD_REQUEST
    before = len(house.audited("team.%"))
    assert (await house.ask("PATCH", "/watch", {"name": "Watch", "role": "auditor"})).status == 200
    assert len(house.audited("team.%")) == before
    assert refused(await house.ask("PATCH", "/none", {"name": "X"})) == NOT_FOUND
    for method, path in (
        *(("GET", "/none"), ("DELETE", "/none"), ("GET", "/none/members")),
        *(
            (method, f"/{team}")
            for method in ("PUT", "DELETE")
            for team in (f"none/members/{house.member.user}", f"watch/members/{uuid4()}")
        ),
    ):
        assert refused(await house.ask(method, path)) == NOT_FOUND, path


async def test_a_slug_is_never_used_again_and_there_are_bounds(house: TeamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.made()
    await house.ask("DELETE", "/watch")
    assert refused(await house.ask("POST", "", {"slug": "watch", "name": "Again"})) == CONFLICT
    house.people.change(
        "insert into teams (id, org_id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), %s, 'team-' || n, 'T', now(), now() from generate_series(1, %s) as n",
        house.acme.id,
        MOST_TEAMS - 1,
    )
    await house.made("last", None)
    assert len((await house.ask("GET")).json()) == MOST_TEAMS
    full = await house.ask("POST", "", {"slug": "more", "name": "More"})
    assert (refused(full), "500 teams" in full.json()["error"]) == (BAD_REQUEST, True)
    await house.ask("DELETE", "/last")
    monkeypatch.setattr(usecase, "MOST_FORMER_TEAMS", 2)
    assert refused(await house.ask("POST", "", {"slug": "more", "name": "More"})) == BAD_REQUEST


async def test_the_members_come_in_parts(house: TeamScene) -> None:
    await house.made()
    people = [house.member, *(house.tenants.member(house.acme) for _ in range(4))]
    for one in people:
        await house.put("watch", one)
    found: list[str] = []
    after = ""
    while True:
        part = (await house.ask("GET", f"/watch/members?limit=2{after}")).ok()
        found += [one["user_id"] for one in part["members"]]
        if part["next"] is None:
            break
        after = f"&after={part['next']}"
    assert found == sorted(str(one.user) for one in people)


async def test_leaving_the_organization_leaves_its_teams(house: TeamScene) -> None:
    await house.made()
    await house.put("watch", house.member)
    assert (await house.request("POST", f"{ACME}/members/{house.member.user}")).status == 200
    assert house.in_teams(house.member) == []
    house.tenants.join(house.member, house.acme)
    assert not await house.may_read_log(house.member)
    assert house.people.rows("select from team_members") == []


async def test_teams_of_a_neighbour_are_out_of_reach(house: TeamScene) -> None:
    theirs = house.resident(house.globex, "owner")
    await house.made()
    other = (await house.request("POST", "/api/organizations/globex/teams", {"slug": "theirs", "name": "Theirs"}, by=theirs)).ok(201)
    assert refused(await house.ask("GET", by=theirs)) == FORBIDDEN
    assert refused(await house.ask("GET", "/theirs")) == NOT_FOUND
    assert refused(await house.ask("GET", f"/{other['id']}")) == NOT_FOUND
    # A person of another organization comes into no team, and a role of another organization is no role here.
    assert refused(await house.put("watch", theirs)) == NOT_FOUND
    house.tenants.role(house.globex, "spy", [Capability.AUDIT_LOGS_VIEW])
    assert refused(await house.ask("PATCH", "/watch", {"role": "spy"})) == BAD_REQUEST
    # The same slug is free in each organization.
    assert (await house.request("POST", "/api/organizations/globex/teams", {"slug": "watch", "name": "W"}, by=theirs)).status == 201


async def test_a_role_that_a_team_carries_stays(house: TeamScene) -> None:
    await house.made()
    role = f"{ACME}/roles/{house.auditor.id}"
    assert refused(await house.request("DELETE", role)) == CONFLICT
    await house.put("watch", house.member)
    assert (await house.request("PATCH", role, {"permissions": []})).status == 200
    assert not await house.may_read_log(house.member)
    assert (await house.request("PATCH", role, {"permissions": ["audit_logs.view"]})).status == 200
    assert await house.may_read_log(house.member)
    await house.ask("PATCH", "/watch", {"role": None})
    assert (await house.request("DELETE", role)).status == 204


async def test_only_an_owner_with_a_fresh_proof_lets_a_directorys_team_carry_a_role(house: TeamScene) -> None:
    await house.made("staff", None, directory=True)
    admin = house.resident(house.acme, "admin")
    for who in (house.manager, admin):
        assert refused(await house.ask("PATCH", "/staff", {"role": "auditor"}, by=who)) == FORBIDDEN
    assert refused(await house.ask("PATCH", "/staff", {"role": "admin"})) == BAD_REQUEST
    house.stale(house.owner)
    assert refused(await house.ask("PATCH", "/staff", {"role": "auditor"})) == AGAIN
    owner = house.people.session_of(house.owner)
    assert (await house.ask("PATCH", "/staff", {"role": "auditor"}, by=owner)).ok()["role"] == "auditor"
    # The directory names and fills it.
    assert refused(await house.ask("PATCH", "/staff", {"name": "Other"}, by=owner)) == BAD_REQUEST
    assert refused(await house.put("staff", house.member, by=owner)) == BAD_REQUEST
    assert refused(await house.take("staff", house.member, by=owner)) == BAD_REQUEST
    # The role is looked at again when it changes.
    role = f"{ACME}/roles/{house.auditor.id}"
    more = {"permissions": ["audit_logs.view", "services.view"]}
    assert refused(await house.request("PATCH", role, more, by=admin)) == FORBIDDEN
    assert refused(await house.request("PATCH", role, more)) == AGAIN
    assert refused(await house.request("PATCH", role, {"permissions": ["org.roles.manage"]}, by=owner)) == BAD_REQUEST
    assert (await house.request("PATCH", role, more, by=owner)).status == 200
    assert (await house.request("PATCH", role, {"permissions": [], "name": "Nothing"}, by=admin)).status == 200
    # Whoever holds what it carries takes it away.
    assert (await house.ask("PATCH", "/staff", {"role": None}, by=admin)).ok()["role"] is None
    assert (await house.ask("DELETE", "/staff", by=admin)).status == 204


async def test_of_two_who_add_the_same_person_one_adds(house: TeamScene) -> None:
    await house.made()
    answers = await all_at_once(*[lambda: house.put("watch", house.member)] * 6)
    assert {answer.status for answer in answers} == {204}
    assert len(house.audited("team.member.added")) == 1
    answers = await all_at_once(*[lambda: house.ask("POST", "", {"slug": "one", "name": "One"})] * 6)
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409, 409, 409]


async def test_an_addition_waits_for_the_loss_of_the_givers_right(house: TeamScene) -> None:
    """The rights are read under the organization's lock, after whatever held it."""
    await house.made()
    giver = await house.postern.tenancy.callers.resolve_member(await house.tenants.token(house.manager), "acme")
    house.people.change("delete from relations where relation = 'audit_logs.view' and role_id <> %s", house.auditor.id)
    with pytest.raises(Exception, match=r"audit_logs\.view"):
        await house.postern.tenancy.teams.add_member(giver, "watch", UserId(house.member.user), Actor(giver.user))
    house.people.change("delete from memberships where user_id = %s", house.manager.user)
    with pytest.raises(Exception, match="member"):
        await house.postern.tenancy.teams.add_member(giver, "watch", UserId(house.member.user), Actor(giver.user))
    assert house.in_teams(house.member) == []


async def test_an_addition_beside_the_givers_demotion_gives_nothing(house: TeamScene, database_url: str) -> None:
    """The demotion holds the organization, and the addition, which was admitted before, waits for it."""
    await house.made()
    answers: list[Received] = []

    async def add() -> None:
        answers.append(await house.put("watch", house.member, by=house.manager))

    with psycopg.connect(database_url) as other:
        other.execute("select from all_organizations where id = %s for no key update", [house.acme.id])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(add)
            await house.people.somebody_waits()
            for statement in (
                "update memberships set role = 'member', role_id = null where user_id = %s",
                "delete from relations where user_id = %s and object_type = 'role'",
            ):
                other.execute(statement, [house.manager.user])
            other.commit()
    assert [refused(answer) for answer in answers] == [FORBIDDEN]
    assert house.in_teams(house.member) == []


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_locks_are_taken_in_one_order(house: TeamScene, database_url: str, method: str) -> None:
    """The organization, then the membership: a person who is deleted meanwhile does not stand in the way."""
    await house.made()
    if method == "DELETE":
        await house.put("watch", house.member)
    answer = await behind(
        house.people,
        database_url,
        ("select from all_organizations where id = %s for update", house.acme.id),
        ("select from memberships where user_id = %s for update", house.member.user),
        lambda: house.ask(method, f"/watch/members/{house.member.user}"),
    )
    assert answer.status == 204


async def test_an_addition_beside_the_end_of_the_team_or_of_its_role(house: TeamScene) -> None:
    await house.made()
    answers = await all_at_once(lambda: house.put("watch", house.member), lambda: house.ask("DELETE", "/watch"))
    assert {answer.status for answer in answers} <= {204, 404}
    assert (house.in_teams(house.member), await house.may_read_log(house.member)) == ([], False)
    await house.made("other", "webhooks")
    role = f"{ACME}/roles/{house.webhooks.id}"
    answers = await all_at_once(
        lambda: house.request("PATCH", role, {"permissions": ["org.settings.manage"]}),
        lambda: house.put("other", house.member, by=house.manager),
    )
    assert sorted(answer.status for answer in answers) == [200, 403]


def test_slugs_for_the_names_of_directories() -> None:
    assert [slug_stem(name) for name in ("Sales EMEA", "Größe & Café", "销售", "-", "a" * 300)] == [
        *("sales-emea", "grosse-cafe", "team", "team", "a" * 44)
    ]
    assert free_slug("sales", {"sales", "sales-2", "sales-x"}) == "sales-3"
    assert rules.team_slug(f"{slug_stem('a' * 300)}-10500")
