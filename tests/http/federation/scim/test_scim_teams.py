"""Teams as groups of SCIM: a directory makes, fills, renames and deletes them, where the owner has switched to teams."""

from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from core.domain.federation.scim import groups as rules
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.teams import MOST_TEAMS
from core.usecases.federation.scim import groups as usecase
from entrypoints.bootstrap import Postern
from tests.http.cast import all_at_once
from tests.http.client import Client, Received, refused
from tests.http.federation.scim.directories import GROUP, GROUPS, Directory, refusal
from tests.http.people import People, Person

SETTINGS: Final = "/api/organizations/acme/scim/settings"
TEAMS: Final = "/api/organizations/acme/teams"
FORBIDDEN, AGAIN, BAD_REQUEST = (403, "FORBIDDEN"), (401, "REAUTHENTICATION_REQUIRED"), (400, "BAD_REQUEST")


@pytest.fixture
async def directory(postern: Postern, client: Client, people: People) -> Directory:
    directory = await Directory(postern, client, people).connect()
    (await directory.switch()).ok()
    return directory


def member(*users: Any) -> list[dict[str, str]]:
    return [{"value": str(user)} for user in users]


async def push(directory: Directory, name: str = "Sales", *users: Any, **attributes: Any) -> dict[str, Any]:
    body = {"schemas": [GROUP], "displayName": name, "members": member(*users), **attributes}
    return (await directory.ask("POST", GROUPS, body)).ok(201)


async def by(directory: Directory, who: Person, method: str, path: str, body: Any = None) -> Received:
    return await directory.client.request(method, path, body=body, token=await directory.tenants.token(who))


async def shown(directory: Directory, team: Any) -> set[str]:
    return {one["value"] for one in (await directory.ask("GET", f"{GROUPS}/{team['id']}")).ok()["members"]}


async def test_only_the_owner_switches_and_with_a_fresh_proof(postern: Postern, client: Client, people: People) -> None:
    directory = await Directory(postern, client, people).connect()
    admin = directory.tenants.member(directory.tenant, "admin")
    assert (await by(directory, admin, "GET", SETTINGS)).ok() == {"groups": "organization", "profile_mapping": {}}
    assert refused(await by(directory, admin, "PATCH", SETTINGS, {"groups": "teams"})) == FORBIDDEN
    people.change("update sessions set proved_at = now() - interval '1 day' where user_id = %s", directory.owner.user)
    assert refused(await directory.switch()) == AGAIN
    directory.owner = people.session_of(directory.owner)
    for _ in range(2):
        assert (await directory.switch()).ok()["groups"] == "teams"
    assert (await by(directory, admin, "GET", SETTINGS)).ok()["groups"] == "teams"
    team = await push(directory)
    # Nobody could take away what such a team carries, so it goes first.
    assert refused(await directory.switch("organization")) == BAD_REQUEST
    assert (await directory.ask("DELETE", f"{GROUPS}/{team['id']}")).status == 204
    assert (await directory.switch("organization")).status == 200
    assert refusal(await directory.ask("POST", GROUPS, {"schemas": [GROUP], "displayName": "New"})) == (501, None)
    assert refusal(await directory.ask("DELETE", f"{GROUPS}/{uuid4()}")) == (403, None)
    told = [entry["details"] for entry in directory.logged() if entry["action"] == "scim_settings.updated"]
    assert told == [
        {"old_groups": "organization", "new_groups": "teams"},
        {"old_groups": "teams", "new_groups": "organization"},
    ]


async def test_a_pushed_group_is_a_team_without_rights_until_the_owner_gives_it_some(directory: Directory) -> None:
    ada = await directory.create("ada@example.org")
    person = Person(UUID(ada["id"]), uuid4(), "ada@example.org")
    team = await push(directory, "Größe & Sales", ada["id"], externalId="s-1")
    again = await push(directory, "Grösse Sales")
    (first, second) = (await by(directory, directory.owner, "GET", TEAMS)).json()
    assert [(one["slug"], one["name"], one["source"], one["external_id"], one["role"]) for one in (first, second)] == [
        ("grosse-sales", "Größe & Sales", "directory", "s-1", None),
        ("grosse-sales-2", "Grösse Sales", "directory", None, None),
    ]
    assert (first["id"], second["id"]) == (team["id"], again["id"])
    role = directory.tenants.role(directory.tenant, "auditor", [Capability.AUDIT_LOGS_VIEW])
    assert (await by(directory, directory.owner, "PATCH", f"{TEAMS}/grosse-sales", {"role": role.slug})).status == 200
    rights = await directory.postern.tenancy.access.explain(directory.postern.foundation.email_syntax.parse(person.email), "acme")
    assert Capability.AUDIT_LOGS_VIEW in rights.capabilities
    # A person with rights by a directory's team is still one whom the directory manages.
    assert (await directory.patch(ada["id"], {"op": "replace", "value": {"active": False}})).status == 200
    assert await shown(directory, team) == set()
    assert (await directory.patch(ada["id"], {"op": "replace", "value": {"active": True}})).status == 200
    assert await shown(directory, team) == set(), "what was assigned ended with the deactivation"
    actions = [entry["action"] for entry in directory.logged() if entry["action"].startswith("team.")]
    assert actions == ["team.created", "team.member.added", "team.created", "team.updated"]


async def test_a_person_with_rights_of_their_own_stays_out_of_a_directorys_hands(directory: Directory) -> None:
    ada = await directory.create("ada@example.org")
    await by(directory, directory.owner, "POST", TEAMS, {"slug": "own", "name": "Own", "role": "admin"})
    assert (await by(directory, directory.owner, "PUT", f"{TEAMS}/own/members/{ada['id']}")).status == 204
    assert refusal(await directory.patch(ada["id"], {"op": "replace", "value": {"active": False}})) == (403, None)
    # The group of the whole organization keeps such a person, as it keeps administrators.
    body = {"schemas": [GROUP], "displayName": "Acme", "members": []}
    assert ada["id"] in {one["value"] for one in (await directory.ask("PUT", directory.group, body)).ok()["members"]}


async def test_directories_see_their_own_teams_and_the_organization_alone(directory: Directory, client: Client, people: People) -> None:
    other = await Directory(directory.postern, client, people, "globex").connect()
    await other.switch()
    theirs = await push(other, "Sales", externalId="s-1")
    own = (await by(directory, directory.owner, "POST", TEAMS, {"slug": "own", "name": "Own"})).ok(201)
    team = await push(directory, "Sales", externalId="s-1")
    listed = (await directory.ask("GET", GROUPS)).ok()
    assert [one["id"] for one in listed["Resources"]] == [str(directory.tenant.id), team["id"]]
    stranger = await other.create("eve@example.org")
    for hidden in (theirs["id"], own["id"], str(other.tenant.id), str(uuid4())):
        place = f"{GROUPS}/{hidden}"
        assert refusal(await directory.ask("GET", place)) == (404, None)
        assert refusal(await directory.patch(place, {"op": "replace", "path": "displayName", "value": "X"})) == (404, None)
        assert refusal(await directory.ask("PUT", place, {"schemas": [GROUP], "displayName": "X", "members": []})) == (404, None)
        assert refusal(await directory.ask("DELETE", place)) == (404, None)
        assert await directory.find(f'id eq "{hidden}"', GROUPS) == []
    for body in (
        {"op": "add", "path": "members", "value": member(stranger["id"])},
        {"op": "replace", "value": {"members": member(uuid4())}},
    ):
        assert refusal(await directory.patch(f"{GROUPS}/{team['id']}", body)) == (400, "invalidValue")
    refused_with = {"schemas": [GROUP], "displayName": "X", "members": member(stranger["id"])}
    assert refusal(await directory.ask("POST", GROUPS, refused_with)) == (400, "invalidValue")
    assert len((await directory.ask("GET", GROUPS)).ok()["Resources"]) == 2
    assert people.rows("select slug from teams where name = 'X'") == []


async def test_lists_are_filtered_and_paged(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    users = [(await directory.create(f"{name}@example.org"))["id"] for name in ("ada", "bob", "cleo")]
    teams = [await push(directory, f"Team {n}", *users[:n], externalId=f"t-{n}") for n in range(4)]
    for wanted, found in {
        'displayName eq "Team 1"': [1],
        'externalId eq "t-2" or displayName eq "Team 0"': [0, 2],
        f'members eq "{users[1]}"': [2, 3],
        f'id eq "{teams[3]["id"]}" and members.value eq "{users[2]}"': [3],
        'not (externalId eq "t-1")': [0, 2, 3],
    }.items():
        listed = [one for one in await directory.find(wanted, GROUPS) if one["id"] != str(directory.tenant.id)]
        assert [one["id"] for one in listed] == [teams[n]["id"] for n in found], wanted
        assert listed == [teams[n] for n in found]
    ids = [str(directory.tenant.id), *(team["id"] for team in teams)]
    for start, count, expected in ((1, 2, ids[:2]), (2, 3, ids[1:4]), (5, 9, ids[4:]), (6, 1, []), (1, 0, [])):
        page = (await directory.ask("GET", f"{GROUPS}?startIndex={start}&count={count}")).ok()
        assert ([one["id"] for one in page["Resources"]], page["totalResults"], page["itemsPerPage"]) == (expected, 5, len(expected))
    searched = (await directory.ask("POST", "/scim/v2/.search", {"startIndex": 6, "count": 3})).ok()
    assert ([one["id"] for one in searched["Resources"]], searched["totalResults"]) == (ids[1:4], 9)
    # A page ends before it has too many members, and has one group at least.
    monkeypatch.setattr(usecase, "MOST_LISTED_MEMBERS", 2)
    for start, expected in ((2, teams[:2]), (4, teams[2:3]), (5, teams[3:])):
        assert (await directory.ask("GET", f"{GROUPS}?startIndex={start}")).ok()["Resources"] == expected, start
    without = (await directory.ask("GET", f"{GROUPS}?excludedAttributes=members&startIndex=2")).ok()["Resources"]
    assert [(one["id"], "members" in one) for one in without] == [(one["id"], False) for one in teams]


async def test_versions_and_read_only_attributes(directory: Directory) -> None:
    ada = await directory.create("ada@example.org")
    created = await directory.ask("POST", GROUPS, {"schemas": [GROUP], "displayName": "Sales"})
    team = created.ok(201)
    place = f"{GROUPS}/{team['id']}"
    assert (created.header("location"), created.header("etag")) == (f"https://id.example.org{place}", team["meta"]["version"])
    version = [("if-match", team["meta"]["version"])]
    known = [("if-none-match", team["meta"]["version"])]
    assert (await directory.ask("GET", place, headers=known)).status == 304
    add = {"op": "add", "path": "members", "value": member(ada["id"])}
    filled = (await directory.patch(place, add, headers=version)).ok()
    assert (await directory.patch(place, add)).ok() == filled, "the same again changes nothing"
    assert refusal(await directory.patch(place, add, headers=version)) == (412, None)
    assert refusal(await directory.ask("DELETE", place, headers=version)) == (412, None)
    # Leaving the organization changes the team as well.
    assert (await by(directory, directory.owner, "POST", f"/api/organizations/acme/members/{ada['id']}")).status == 200
    left = (await directory.ask("GET", place, headers=[("if-none-match", filled["meta"]["version"])])).ok()
    assert left["members"] == []
    for operation, kind in (
        ({"op": "replace", "path": "id", "value": str(uuid4())}, "mutability"),
        ({"op": "remove", "path": "displayName"}, "invalidValue"),
        ({"op": "replace", "path": "displayName", "value": " "}, "invalidValue"),
        ({"op": "replace", "path": "displayName", "value": "n" * 257}, "invalidValue"),
        ({"op": "replace", "path": "owner", "value": "x"}, "invalidPath"),
    ):
        assert refusal(await directory.patch(place, operation)) == (400, kind), operation
    for body in ({"schemas": [GROUP], "members": []}, {"schemas": [GROUP], "displayName": "X"}):
        assert refusal(await directory.ask("PUT", place, body)) == (400, "invalidValue")
    replaced = (await directory.ask("PUT", place, {"schemas": [GROUP], "displayName": "New", "externalId": "n", "members": []})).ok()
    assert (replaced["displayName"], replaced["externalId"]) == ("New", "n")
    second = await push(directory, "Second", externalId="n2")
    answer = await directory.patch(f"{GROUPS}/{second['id']}", {"op": "replace", "path": "externalId", "value": "n"})
    assert refusal(answer) == (409, "uniqueness")
    schema = (await directory.ask("GET", f"/scim/v2/Schemas/{GROUP}")).ok()
    assert {one["name"]: one["mutability"] for one in schema["attributes"]}["displayName"] == "readWrite"


async def test_there_are_bounds(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    users = [(await directory.create(f"{name}@example.org"))["id"] for name in ("ada", "bob", "cleo")]
    team = await push(directory, "Sales", *users)
    monkeypatch.setattr(usecase, "MOST_MEMBERS", 2)
    body = {"schemas": [GROUP], "displayName": "Sales", "members": []}
    assert refusal(await directory.ask("PUT", f"{GROUPS}/{team['id']}", body)) == (400, "invalidValue")
    assert await shown(directory, team) == set(users)
    (await directory.ask("PUT", f"{GROUPS}/{team['id']}", {**body, "members": member(users[0])})).ok()
    monkeypatch.setattr(rules, "MOST_MEMBERS", 2)
    answer = await directory.ask("POST", GROUPS, {**body, "displayName": "More", "members": member(*users)})
    assert refusal(answer) == (400, "invalidValue")
    directory.people.change(
        "insert into teams (id, org_id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), %s, 'team-' || n, 'T', now(), now() from generate_series(1, %s) as n",
        directory.tenant.id,
        MOST_TEAMS - 1,
    )
    assert refusal(await directory.ask("POST", GROUPS, {**body, "displayName": "More"})) == (400, None)


async def test_races_of_pushes(directory: Directory) -> None:
    ada = await directory.create("ada@example.org")
    made = await all_at_once(*[lambda: directory.ask("POST", GROUPS, {"schemas": [GROUP], "displayName": "Sales"})] * 5)
    assert {answer.status for answer in made} == {201}
    slugs = sorted(row["slug"] for row in directory.people.rows("select slug from teams"))
    assert slugs == ["sales", "sales-2", "sales-3", "sales-4", "sales-5"]
    place = f"{GROUPS}/{made[0].json()['id']}"
    add = {"op": "add", "path": "members", "value": member(ada["id"])}
    answers = await all_at_once(*[lambda: directory.patch(place, add)] * 5)
    assert {answer.status for answer in answers} == {200}
    assert len([entry for entry in directory.logged() if entry["action"] == "team.member.added"]) == 1
    answers = await all_at_once(
        lambda: directory.patch(place, add),
        lambda: directory.ask("DELETE", place),
        lambda: directory.patch(ada["id"], {"op": "replace", "value": {"active": False}}),
    )
    assert {answer.status for answer in answers} <= {200, 204, 404}
    assert directory.people.rows("select from team_members") == []


async def test_a_large_team_is_read_and_changed_in_parts(directory: Directory) -> None:
    team = await push(directory, "Everybody")
    directory.people.change(
        "insert into users (id, email, email_key, created_at, updated_at)"
        " select gen_random_uuid(), n || '@example.com', n || '@example.com', now(), now() from generate_series(1, 1200) as n"
    )
    directory.people.change(
        "insert into memberships (id, org_id, user_id, role, created_at)"
        " select gen_random_uuid(), %s, id, 'member', now() from users where email like '%%@example.com'",
        directory.tenant.id,
    )
    directory.people.change(
        "insert into team_members (team_id, org_id, user_id, added_at)"
        " select %s, org_id, user_id, now() from memberships where user_id in (select id from users where email like '%%@example.com')",
        UUID(team["id"]),
    )
    everybody = await shown(directory, team)
    assert len(everybody) == 1200
    one = next(iter(everybody))
    await directory.patch(f"{GROUPS}/{team['id']}", {"op": "remove", "path": f'members[value eq "{one}"]'})
    assert await shown(directory, team) == everybody - {one}
    in_part = (await directory.ask("GET", f"{GROUPS}/{team['id']}?attributes=members.value")).ok()["members"]
    assert (len(in_part), in_part[0].keys()) == (1199, {"value"})


async def test_what_others_gave_does_not_go_to_the_person_of_another_address(directory: Directory) -> None:
    """A directory may move an account that nobody uses yet. It must not choose who gets the rights that the organization has given."""
    user = (await directory.create("ada@example.org"))["id"]
    await push(directory, "Sales", user)
    directory.tenants.service(directory.tenant, "shop")
    (await by(directory, directory.owner, "POST", TEAMS, {"slug": "own", "name": "Own"})).ok(201)
    assert (await by(directory, directory.owner, "PUT", f"{TEAMS}/own/members/{user}")).status == 204
    roles = "/api/organizations/acme/services/shop/roles"
    (await by(directory, directory.owner, "POST", roles, {"slug": "boss", "name": "Boss"})).ok(201)
    assignments = "/api/organizations/acme/services/shop/assignments"
    for to in ({"user_id": user}, {"team": "own"}):
        (await by(directory, directory.owner, "POST", assignments, {"role": "boss", **to})).ok(201)
    # Another spelling is the same person.
    for name, teams, given in (("Ada@example.org", {"own", "sales"}, 2), ("eve@example.org", {"sales"}, 1)):
        (await directory.patch(user, {"op": "replace", "path": "userName", "value": name})).ok()
        rows = directory.people.rows("select slug from teams join team_members on team_id = teams.id where user_id = %s", UUID(user))
        assert {row["slug"] for row in rows} == teams
        listed = (await by(directory, directory.owner, "GET", assignments)).ok()["assignments"]
        assert len(listed) == given
