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
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> TeamScene:
    return TeamScene(postern, people, client, log)


async def test_a_team_brings_its_role_from_the_next_request_on_and_takes_it_away(scene: TeamScene) -> None:
    team = await scene.made()
    assert {name: team[name] for name in ("org_id", "slug", "name", "source", "external_id", "role")} == {
        "org_id": str(scene.acme.id),
        "slug": "watch",
        "name": "Watch",
        "source": "own",
        "external_id": None,
        "role": "auditor",
    }
    assert not await scene.may_read_log(scene.member)
    for _ in range(2):
        assert (await scene.put("watch", scene.member)).status == 204
    assert await scene.may_read_log(scene.member)
    (listed,) = (await scene.ask("GET", "/watch/members", by=scene.member)).ok()["members"]
    assert (listed["user_id"], listed["email"]) == (str(scene.member.user), scene.member.email)
    for _ in range(2):
        assert (await scene.take("watch", scene.member)).status == 204
    assert not await scene.may_read_log(scene.member)
    # A change of the role, and the end of the team, end the right as well.
    await scene.put("watch", scene.member)
    changed = (await scene.ask("PATCH", "/watch", {"role": None, "name": "Watchers"})).ok()
    assert (changed["role"], changed["name"]) == (None, "Watchers")
    assert not await scene.may_read_log(scene.member)
    assert (await scene.ask("PATCH", "/watch", {"role": "auditor"})).status == 200
    assert await scene.may_read_log(scene.member)
    assert (await scene.ask("DELETE", "/watch")).status == 204
    assert not await scene.may_read_log(scene.member)
    told = [(one["action"], one["target_type"], one["details"]) for one in scene.audited("team.%")]
    assert [action for action, _, _ in told] == [
        *("team.created", "team.member.added", "team.member.removed", "team.member.added", "team.updated", "team.updated", "team.deleted")
    ]
    assert told[0] == ("team.created", "team", {"team_slug": "watch", "name": "Watch", "source": "own", "role": "auditor"})
    member = {"team_id": team["id"], "team_slug": "watch", "team_name": "Watch", "role": "auditor"}
    assert told[1] == ("team.member.added", "user", member)
    assert told[4][2] == {
        "team_slug": "watch",
        "name": "Watchers",
        "old_name": "Watch",
        "new_name": "Watchers",
        "old_role": "auditor",
        "new_role": None,
    }
    assert scene.people.rows("select from relations where team_id is not null") == []
    assert [one["name"] for one in scene.told() if one["name"].startswith("team.")] == [action for action, _, _ in told]


async def test_nobody_gives_or_takes_by_a_team_what_they_lack(scene: TeamScene) -> None:
    await scene.made("chiefs", "admin")
    await scene.made("hooks", "webhooks")
    await scene.made("watch", "auditor", by=scene.manager)
    for slug in ("chiefs", "hooks"):
        for answer in (
            await scene.put(slug, scene.member, by=scene.manager),
            await scene.put(slug, scene.manager, by=scene.manager),
            await scene.take(slug, scene.member, by=scene.manager),
            await scene.ask("PATCH", f"/{slug}", {"role": None}, by=scene.manager),
            await scene.ask("PATCH", f"/{slug}", {"role": "auditor"}, by=scene.manager),
            await scene.ask("DELETE", f"/{slug}", by=scene.manager),
            await scene.ask("PATCH", "/watch", {"role": "admin"}, by=scene.manager),
            await scene.ask("POST", "", {"slug": "new", "name": "New", "role": "webhooks"}, by=scene.manager),
        ):
            assert refused(answer) == FORBIDDEN
    assert (await scene.put("watch", scene.member, by=scene.manager)).status == 204
    for body in ({"slug": "x", "name": "X"}, {"slug": "y", "name": "Y", "role": "member"}):
        assert refused(await scene.ask("POST", "", body, by=scene.member)) == FORBIDDEN
    assert scene.in_teams(scene.member) == ["watch"]
    # A team makes its members people who may do more: nobody with fewer rights removes them.
    await scene.put("hooks", scene.member)
    assert refused(await scene.request("POST", f"{ACME}/members/{scene.member.user}", by=scene.manager)) == FORBIDDEN


async def test_who_adds_to_a_team_with_roles_of_services_manages_services(scene: TeamScene) -> None:
    team = await scene.made(role=None)
    give = (
        "insert into relations (organization_id, team_id, relation, object_type, object_id, id, service_id, created_at)"
        " values (%s, %s, 'holder', 'service_role', gen_random_uuid(), gen_random_uuid(), %s, now())"
    )
    scene.people.change(give, scene.acme.id, UUID(team["id"]), scene.shop.id)
    assert refused(await scene.put("watch", scene.member, by=scene.manager)) == FORBIDDEN
    assert (await scene.put("watch", scene.member)).status == 204
    # Roles of services open nothing in the organization, and a change of the team's own role leaves them.
    await scene.ask("PATCH", "/watch", {"role": "auditor"})
    await scene.ask("PATCH", "/watch", {"role": None})
    assert [row["object_type"] for row in scene.people.rows("select object_type from relations where team_id is not null")] == [
        "service_role"
    ]
    assert not await scene.may_read_log(scene.member)


async def test_a_role_of_the_organization_that_brings_roles_of_services_is_not_got_around_by_a_team(scene: TeamScene) -> None:
    for slug, role in (("watch", "auditor"), ("crowd", "member"), ("empty", None)):
        await scene.made(slug, role)
    give = (
        "insert into relations (organization_id, role_id, built_in_role, relation, object_type, object_id, id, service_id, created_at)"
        " values (%s, %s, %s, 'holder', 'service_role', gen_random_uuid(), gen_random_uuid(), %s, now())"
    )
    scene.people.change(give, scene.acme.id, scene.auditor.id, None, scene.shop.id)
    scene.people.change(give, scene.acme.id, None, "member", scene.shop.id)
    for slug in ("watch", "crowd"):
        assert refused(await scene.put(slug, scene.manager, by=scene.manager)) == FORBIDDEN
        assert (await scene.put(slug, scene.manager)).status == 204
    assert (await scene.put("empty", scene.manager, by=scene.manager)).status == 204
    for role in ("auditor", "member"):
        assert refused(await scene.ask("PATCH", "/empty", {"role": role}, by=scene.manager)) == FORBIDDEN
    (await scene.ask("PATCH", "/empty", {"role": "auditor"})).ok()
    # Taking away is free.
    (await scene.ask("PATCH", "/watch", {"role": None}, by=scene.manager)).ok()


async def test_what_a_team_cannot_be(scene: TeamScene) -> None:
    await scene.made()
    for body in (
        {"slug": "Watch", "name": "X"},
        {"slug": "-", "name": "X"},
        {"slug": "a" * 51, "name": "X"},
        {"slug": "x", "name": ""},
        {"slug": "x", "name": "n" * 101},
        {"slug": "x", "name": "X", "role": "owner"},
        {"slug": "x", "name": "X", "role": "nothing"},
    ):
        assert refused(await scene.ask("POST", "", body)) == BAD_REQUEST, body
    assert refused(await scene.ask("POST", "", {"slug": "watch", "name": "Again"})) == CONFLICT
    assert refused(await scene.ask("PATCH", "/watch", {})) == BAD_REQUEST
    assert refused(await scene.ask("PATCH", "/watch", {"role": "owner"})) == BAD_REQUEST
    before = len(scene.audited("team.%"))
    assert (await scene.ask("PATCH", "/watch", {"name": "Watch", "role": "auditor"})).status == 200
    assert len(scene.audited("team.%")) == before
    assert refused(await scene.ask("PATCH", "/none", {"name": "X"})) == NOT_FOUND
    for method, path in (
        *(("GET", "/none"), ("DELETE", "/none"), ("GET", "/none/members")),
        *(
            (method, f"/{team}")
            for method in ("PUT", "DELETE")
            for team in (f"none/members/{scene.member.user}", f"watch/members/{uuid4()}")
        ),
    ):
        assert refused(await scene.ask(method, path)) == NOT_FOUND, path


async def test_a_slug_is_never_used_again_and_there_are_bounds(scene: TeamScene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.made()
    await scene.ask("DELETE", "/watch")
    assert refused(await scene.ask("POST", "", {"slug": "watch", "name": "Again"})) == CONFLICT
    scene.people.change(
        "insert into teams (id, org_id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), %s, 'team-' || n, 'T', now(), now() from generate_series(1, %s) as n",
        scene.acme.id,
        MOST_TEAMS - 1,
    )
    await scene.made("last", None)
    assert len((await scene.ask("GET")).json()) == MOST_TEAMS
    full = await scene.ask("POST", "", {"slug": "more", "name": "More"})
    assert (refused(full), "500 teams" in full.json()["error"]) == (BAD_REQUEST, True)
    await scene.ask("DELETE", "/last")
    monkeypatch.setattr(usecase, "MOST_FORMER_TEAMS", 2)
    assert refused(await scene.ask("POST", "", {"slug": "more", "name": "More"})) == BAD_REQUEST


async def test_the_members_come_in_parts(scene: TeamScene) -> None:
    await scene.made()
    people = [scene.member, *(scene.tenants.member(scene.acme) for _ in range(4))]
    for one in people:
        await scene.put("watch", one)
    found: list[str] = []
    after = ""
    while True:
        part = (await scene.ask("GET", f"/watch/members?limit=2{after}")).ok()
        found += [one["user_id"] for one in part["members"]]
        if part["next"] is None:
            break
        after = f"&after={part['next']}"
    assert found == sorted(str(one.user) for one in people)


async def test_leaving_the_organization_leaves_its_teams(scene: TeamScene) -> None:
    await scene.made()
    await scene.put("watch", scene.member)
    assert (await scene.request("POST", f"{ACME}/members/{scene.member.user}")).status == 200
    assert scene.in_teams(scene.member) == []
    scene.tenants.join(scene.member, scene.acme)
    assert not await scene.may_read_log(scene.member)
    assert scene.people.rows("select from team_members") == []


async def test_teams_of_a_neighbour_are_out_of_reach(scene: TeamScene) -> None:
    theirs = scene.resident(scene.globex, "owner")
    await scene.made()
    other = (await scene.request("POST", "/api/organizations/globex/teams", {"slug": "theirs", "name": "Theirs"}, by=theirs)).ok(201)
    assert refused(await scene.ask("GET", by=theirs)) == FORBIDDEN
    assert [team["slug"] for team in (await scene.ask("GET")).json()] == ["watch"]
    assert refused(await scene.ask("GET", "/theirs")) == NOT_FOUND
    assert refused(await scene.ask("GET", f"/{other['id']}")) == NOT_FOUND
    # A person of another organization comes into no team, and a role of another organization is no role here.
    assert refused(await scene.put("watch", theirs)) == NOT_FOUND
    scene.tenants.role(scene.globex, "spy", [Capability.AUDIT_LOGS_VIEW])
    assert refused(await scene.ask("PATCH", "/watch", {"role": "spy"})) == BAD_REQUEST
    # The same slug is free in each organization.
    assert (await scene.request("POST", "/api/organizations/globex/teams", {"slug": "watch", "name": "W"}, by=theirs)).status == 201


async def test_a_role_that_a_team_carries_stays(scene: TeamScene) -> None:
    await scene.made()
    role = f"{ACME}/roles/{scene.auditor.id}"
    assert refused(await scene.request("DELETE", role)) == CONFLICT
    await scene.put("watch", scene.member)
    assert (await scene.request("PATCH", role, {"permissions": []})).status == 200
    assert not await scene.may_read_log(scene.member)
    assert (await scene.request("PATCH", role, {"permissions": ["audit_logs.view"]})).status == 200
    assert await scene.may_read_log(scene.member)
    await scene.ask("PATCH", "/watch", {"role": None})
    assert (await scene.request("DELETE", role)).status == 204


async def test_only_an_owner_with_a_fresh_proof_lets_a_directorys_team_carry_a_role(scene: TeamScene) -> None:
    await scene.made("staff", None, directory=True)
    admin = scene.resident(scene.acme, "admin")
    for who in (scene.manager, admin):
        assert refused(await scene.ask("PATCH", "/staff", {"role": "auditor"}, by=who)) == FORBIDDEN
    assert refused(await scene.ask("PATCH", "/staff", {"role": "admin"})) == BAD_REQUEST
    scene.stale(scene.owner)
    assert refused(await scene.ask("PATCH", "/staff", {"role": "auditor"})) == AGAIN
    owner = scene.people.session_of(scene.owner)
    assert (await scene.ask("PATCH", "/staff", {"role": "auditor"}, by=owner)).ok()["role"] == "auditor"
    # The directory names and fills it.
    assert refused(await scene.ask("PATCH", "/staff", {"name": "Other"}, by=owner)) == BAD_REQUEST
    assert refused(await scene.put("staff", scene.member, by=owner)) == BAD_REQUEST
    assert refused(await scene.take("staff", scene.member, by=owner)) == BAD_REQUEST
    # The role is looked at again when it changes.
    role = f"{ACME}/roles/{scene.auditor.id}"
    more = {"permissions": ["audit_logs.view", "services.view"]}
    assert refused(await scene.request("PATCH", role, more, by=admin)) == FORBIDDEN
    assert refused(await scene.request("PATCH", role, more)) == AGAIN
    assert refused(await scene.request("PATCH", role, {"permissions": ["org.roles.manage"]}, by=owner)) == BAD_REQUEST
    assert (await scene.request("PATCH", role, more, by=owner)).status == 200
    assert (await scene.request("PATCH", role, {"permissions": [], "name": "Nothing"}, by=admin)).status == 200
    # Whoever holds what it carries takes it away.
    assert (await scene.ask("PATCH", "/staff", {"role": None}, by=admin)).ok()["role"] is None
    assert (await scene.ask("DELETE", "/staff", by=admin)).status == 204


async def test_of_two_who_add_the_same_person_one_adds(scene: TeamScene) -> None:
    await scene.made()
    answers = await all_at_once(*[lambda: scene.put("watch", scene.member)] * 6)
    assert {answer.status for answer in answers} == {204}
    assert len(scene.audited("team.member.added")) == 1
    answers = await all_at_once(*[lambda: scene.ask("POST", "", {"slug": "one", "name": "One"})] * 6)
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409, 409, 409]


async def test_an_addition_waits_for_the_loss_of_the_givers_right(scene: TeamScene) -> None:
    """The rights are read under the organization's lock, after whatever held it."""
    await scene.made()
    giver = await scene.postern.tenancy.callers.resolve_member(await scene.tenants.token(scene.manager), "acme")
    scene.people.change("delete from relations where relation = 'audit_logs.view' and role_id <> %s", scene.auditor.id)
    with pytest.raises(Exception, match=r"audit_logs\.view"):
        await scene.postern.tenancy.teams.add_member(giver, "watch", UserId(scene.member.user), Actor(giver.user))
    scene.people.change("delete from memberships where user_id = %s", scene.manager.user)
    with pytest.raises(Exception, match="member"):
        await scene.postern.tenancy.teams.add_member(giver, "watch", UserId(scene.member.user), Actor(giver.user))
    assert scene.in_teams(scene.member) == []


async def test_an_addition_beside_the_givers_demotion_gives_nothing(scene: TeamScene, database_url: str) -> None:
    """The demotion holds the organization, and the addition, which was admitted before, waits for it."""
    await scene.made()
    answers: list[Received] = []

    async def add() -> None:
        answers.append(await scene.put("watch", scene.member, by=scene.manager))

    with psycopg.connect(database_url) as other:
        other.execute("select from all_organizations where id = %s for no key update", [scene.acme.id])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(add)
            await scene.people.somebody_waits()
            for statement in (
                "update memberships set role = 'member', role_id = null where user_id = %s",
                "delete from relations where user_id = %s and object_type = 'role'",
            ):
                other.execute(statement, [scene.manager.user])
            other.commit()
    assert [refused(answer) for answer in answers] == [FORBIDDEN]
    assert scene.in_teams(scene.member) == []


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_locks_are_taken_in_one_order(scene: TeamScene, database_url: str, method: str) -> None:
    """The organization, then the membership: a person who is deleted meanwhile does not stand in the way."""
    await scene.made()
    if method == "DELETE":
        await scene.put("watch", scene.member)
    answer = await behind(
        scene.people,
        database_url,
        ("select from all_organizations where id = %s for update", scene.acme.id),
        ("select from memberships where user_id = %s for update", scene.member.user),
        lambda: scene.ask(method, f"/watch/members/{scene.member.user}"),
    )
    assert answer.status == 204


async def test_an_addition_beside_the_end_of_the_team_or_of_its_role(scene: TeamScene) -> None:
    await scene.made()
    answers = await all_at_once(lambda: scene.put("watch", scene.member), lambda: scene.ask("DELETE", "/watch"))
    assert {answer.status for answer in answers} <= {204, 404}
    assert (scene.in_teams(scene.member), await scene.may_read_log(scene.member)) == ([], False)
    await scene.made("other", "webhooks")
    role = f"{ACME}/roles/{scene.webhooks.id}"
    answers = await all_at_once(
        lambda: scene.request("PATCH", role, {"permissions": ["org.settings.manage"]}),
        lambda: scene.put("other", scene.member, by=scene.manager),
    )
    assert sorted(answer.status for answer in answers) == [200, 403]


def test_slugs_for_the_names_of_directories() -> None:
    assert [slug_stem(name) for name in ("Sales EMEA", "Größe & Café", "销售", "-", "a" * 300)] == [
        *("sales-emea", "grosse-cafe", "team", "team", "a" * 44)
    ]
    assert free_slug("sales", {"sales", "sales-2", "sales-x"}) == "sales-3"
    assert rules.team_slug(f"{slug_stem('a' * 300)}-10500")
