"""The only group in SCIM: the organization, whose members a directory adds and removes."""

import threading
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
import trio

from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.routes.federation import scim_groups
from tests.http.client import Client
from tests.http.federation.scim.directories import BASE, GROUP, GROUPS, USER, USERS, Directory, refusal
from tests.http.people import People


@pytest.fixture
async def directory(postern: Postern, client: Client, people: People) -> Directory:
    return await Directory(postern, client, people).connect()


def member(*users: Any) -> list[dict[str, str]]:
    return [{"value": str(user)} for user in users]


async def test_the_group_is_the_organization(directory: Directory) -> None:
    ada = await directory.create("ada@example.org")
    answer = await directory.ask("GET", directory.group)
    group = answer.ok()
    assert (group["schemas"], group["id"], group["displayName"]) == ([GROUP], str(directory.tenant.id), "Acme")
    assert group["meta"]["location"] == f"https://id.example.org{directory.group}"
    assert group["meta"]["version"] == answer.header("etag")
    assert {"value": ada["id"], "$ref": f"https://id.example.org{USERS}/{ada['id']}", "type": "User"} in group["members"]
    assert len(group["members"]) == 2
    listed = (await directory.ask("GET", GROUPS)).ok()
    assert (listed["totalResults"], listed["Resources"]) == (1, [group])
    assert (await directory.ask("GET", f"{GROUPS}?startIndex=2")).ok()["Resources"] == []
    assert (await directory.ask("GET", f"{GROUPS}?count=0")).ok()["totalResults"] == 1
    assert "members" not in (await directory.ask("GET", f"{directory.group}?excludedAttributes=members")).ok()
    assert (await directory.ask("GET", f"{GROUPS}?attributes=members.value")).ok()["Resources"][0]["members"] == [
        {"value": one["value"]} for one in group["members"]
    ]
    assert (await directory.ask("GET", directory.group, headers=[("if-none-match", group["meta"]["version"])])).status == 304
    assert (await directory.ask("POST", f"{GROUPS}/.search", {"filter": 'displayName eq "Acme"'})).ok()["Resources"] == [group]


async def test_the_group_is_found_by_what_it_is_and_whom_it_has(directory: Directory) -> None:
    ada = await directory.create("ada@example.org")
    await directory.patch(directory.group, {"op": "add", "value": {"externalId": "g1"}})
    identifier = directory.tenant.id
    for wanted, found in {
        'displayName eq "Acme"': True,
        'displayName eq "acme"': False,
        f'id eq "{identifier}" and members eq "{ada["id"]}"': True,
        f'id eq "{identifier}" and members.value eq "{uuid4()}"': False,
        'members eq "x"': False,
        'externalId eq "g1" or displayName eq "x"': True,
        'not (externalId eq "g1")': False,
    }.items():
        assert bool(await directory.find(wanted, GROUPS)) is found, wanted
    of_users = quote('userName eq "a"')
    assert refusal(await directory.ask("GET", f"{GROUPS}?filter={of_users}")) == (400, "invalidFilter")


async def test_large_bodies_are_worked_on_beside_the_loop(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the event loop, twenty thousand members took a quarter of a second, and every other request waited."""
    ada = await directory.create("ada@example.org")
    loop = threading.get_ident()
    beside: list[tuple[str, bool]] = []

    def noted(name: str, work: Any, *given: Any) -> Any:
        beside.append((name, threading.get_ident() != loop))
        return work(*given)

    for name in ("whole_group", "group_change", "_in_part"):
        monkeypatch.setattr(scim_groups, name, partial(noted, name, getattr(scim_groups, name)))
    for members in (member(ada["id"]), member(ada["id"]) * 1000):
        beside.clear()
        (await directory.ask("PUT", directory.group, {"members": members})).ok()
        (await directory.patch(directory.group, {"op": "add", "path": "members", "value": members})).ok()
        assert beside == [("whole_group", len(members) > 1), ("group_change", len(members) > 1)]
    directory.people.change(
        "insert into users (id, email, email_key, created_at, updated_at)"
        " select gen_random_uuid(), n || '@example.com', n || '@example.com', now(), now() from generate_series(1, 1200) as n"
    )
    directory.people.change(
        "insert into memberships (id, org_id, user_id, role, created_at)"
        " select gen_random_uuid(), %s, id, 'member', now() from users where email like '%%@example.com'",
        directory.tenant.id,
    )
    beside.clear()
    shown = (await directory.ask("GET", f"{directory.group}?attributes=members.value")).ok()
    assert {one["value"] for one in shown["members"]} == await directory.members()
    assert (len(shown["members"]), shown["members"][0].keys()) == (1202, {"value"})
    assert beside == [("_in_part", True)]


async def test_it_can_be_neither_made_nor_deleted(directory: Directory) -> None:
    assert refusal(await directory.ask("POST", GROUPS, {"schemas": [GROUP], "displayName": "New"})) == (501, None)
    assert refusal(await directory.ask("DELETE", directory.group)) == (403, None)
    assert refusal(await directory.ask("DELETE", f"{GROUPS}/{uuid4()}")) == (403, None)


async def test_members_are_replaced_but_for_owners_and_admins_and_roles_stay(directory: Directory) -> None:
    admin = directory.tenants.member(directory.tenant, "admin")
    support = directory.tenants.role(directory.tenant, "support", [Capability.END_USERS_VIEW])
    helper = directory.tenants.member(directory.tenant, support)
    ada, bob = await directory.create("ada@example.org"), await directory.create("bob@example.org")
    before = (await directory.ask("GET", directory.group)).ok()["meta"]["version"]
    body = {"schemas": [GROUP], "displayName": "Whatever", "members": member(ada["id"], helper.user)}
    replaced = (await directory.ask("PUT", directory.group, body)).ok()
    expected = {str(directory.owner.user), str(admin.user), str(helper.user), ada["id"]}
    assert {one["value"] for one in replaced["members"]} == expected == await directory.members()
    assert replaced["displayName"] == "Acme"
    assert replaced["meta"]["version"] != before
    (role,) = directory.people.rows("select role from memberships where user_id = %s", helper.user)
    assert role["role"] == "support"
    assert (await directory.shown(bob["id"]))["active"] is False
    assert refusal(await directory.ask("PUT", directory.group, {"displayName": "Acme"})) == (400, "invalidValue")
    assert refusal(await directory.ask("PUT", directory.group, {**body, "schemas": [USER]})) == (400, "invalidSyntax")
    assert refusal(await directory.ask("PUT", directory.group, body, headers=[("if-match", before)])) == (412, None)
    assert refusal(await directory.ask("PUT", f"{GROUPS}/{uuid4()}", body)) == (404, None)
    again = (await directory.ask("PUT", directory.group, body)).ok()
    assert again == replaced, "nothing has changed"
    everybody = {**body, "members": member(ada["id"], bob["id"], helper.user, admin.user, directory.owner.user)}
    assert len((await directory.ask("PUT", directory.group, everybody)).ok()["members"]) == 5
    told = [(entry["action"], entry["details"].get("why")) for entry in directory.logged()][-2:]
    assert told == [("user.removed", "left_group"), ("user.joined", None)]


@pytest.mark.parametrize(
    "remove",
    [
        lambda user: {"op": "remove", "path": f'members[value eq "{user}"]'},
        lambda user: {"op": "Remove", "path": f"members[value eq {user}]"},
        lambda user: {"op": "Remove", "path": "members", "value": [{"$ref": None, "value": user}]},
        lambda user: {"op": "remove", "path": "members", "value": {"value": user, "type": "User"}},
        lambda user: {"op": "remove", "path": f'{GROUP}:members[value eq "{uuid4()}" or value eq "{user}"]'},
    ],
)
async def test_members_are_removed_and_added_in_any_dialect(directory: Directory, remove: Any) -> None:
    ada, bob = await directory.create("ada@example.org"), await directory.create("bob@example.org")
    removed = await directory.patch(directory.group, remove(ada["id"]))
    assert ada["id"] not in {one["value"] for one in removed.ok()["members"]}
    assert await directory.members() == {str(directory.owner.user), bob["id"]}
    # The same request again changes nothing.
    assert (await directory.patch(directory.group, remove(ada["id"]))).ok() == removed.json()
    for add in (
        {"op": "Add", "path": "members", "value": member(ada["id"], ada["id"])},
        {"op": "add", "value": {"members": member(ada["id"])}},
        {"op": "add", "path": "members", "value": {"value": ada["id"]}},
    ):
        assert ada["id"] in {one["value"] for one in (await directory.patch(directory.group, add)).ok()["members"]}
    assert ada["id"] in await directory.members()
    assert (await directory.shown(ada["id"]))["active"] is True


async def test_operations_are_carried_out_together(directory: Directory) -> None:
    ada, bob = await directory.create("ada@example.org"), await directory.create("bob@example.org")
    swapped = await directory.patch(
        directory.group,
        {"op": "remove", "path": "members", "value": None},
        {"op": "add", "path": "members", "value": member(bob["id"], ada["id"])},
        {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'},
        {"op": "replace", "value": {"id": str(directory.tenant.id), "displayName": "Acme", "schemas": [GROUP], "externalId": "g"}},
    )
    assert {one["value"] for one in swapped.ok()["members"]} == {str(directory.owner.user), bob["id"]}
    assert swapped.json()["externalId"] == "g"
    half = await directory.patch(
        directory.group,
        {"op": "add", "path": "members", "value": member(ada["id"])},
        {"op": "remove", "path": f'members[value eq "{directory.owner.user}"]'},
    )
    assert refusal(half) == (403, None)
    assert ada["id"] not in await directory.members()
    assert (await directory.patch(directory.group, {"op": "remove", "path": "externalId"})).ok().get("externalId") is None
    assert (await directory.patch(directory.group, {"op": "replace", "path": "members", "value": member(ada["id"])})).status == 200
    assert await directory.members() == {str(directory.owner.user), ada["id"]}


@pytest.mark.parametrize(
    ("operation", "scim_type"),
    [
        ({"op": "replace", "path": "displayName", "value": "Other"}, "mutability"),
        ({"op": "replace", "value": {"id": "other"}}, "mutability"),
        ({"op": "replace", "path": "meta", "value": {}}, "mutability"),
        ({"op": "replace", "path": "title", "value": "x"}, "invalidPath"),
        ({"op": "replace", "path": "members.value", "value": "x"}, "invalidPath"),
        ({"op": "add", "path": 'members[value eq "x"]', "value": "x"}, "invalidPath"),
        ({"op": "remove", "path": 'members[type eq "User"]'}, "invalidPath"),
        ({"op": "remove", "path": 'members[value eq "x"]'}, "invalidValue"),
        ({"op": "add", "path": "members", "value": "x"}, "invalidValue"),
        ({"op": "add", "path": "members", "value": ["x"]}, "invalidValue"),
        ({"op": "add", "path": "members", "value": [{"value": 5}]}, "invalidValue"),
        ({"op": "add", "path": "members", "value": [{"value": str(uuid4())}]}, "invalidValue"),
        ({"op": "add", "path": "members", "value": [{"value": str(uuid4()), "type": "Group"}]}, "invalidValue"),
        ({"op": "remove"}, "noTarget"),
        ({"op": "add"}, "invalidValue"),
        ({"op": "x", "path": "members"}, "invalidSyntax"),
    ],
)
async def test_what_cannot_be_done_is_refused(directory: Directory, operation: dict[str, Any], scim_type: str) -> None:
    before = (await directory.ask("GET", directory.group)).ok()
    assert refusal(await directory.patch(directory.group, operation)) == (400, scim_type)
    assert (await directory.ask("GET", directory.group)).ok() == before


async def test_the_deactivated_stay_in_the_group_and_no_group_lets_them_in_again(directory: Directory) -> None:
    ada = await directory.create("ada@example.org")
    add = {"op": "add", "path": "members", "value": member(ada["id"])}
    remove = {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'}
    await directory.patch(ada["id"], {"op": "replace", "path": "active", "value": False})
    assert ada["id"] in await directory.members()
    for operation, listed in ((add, True), (remove, False), (add, True)):
        shown = (await directory.patch(directory.group, operation)).ok()
        assert (ada["id"] in {one["value"] for one in shown["members"]}) is listed
        assert (await directory.shown(ada["id"]))["active"] is False
        assert directory.people.rows("select from memberships where user_id = %s", ada["id"]) == []
    await directory.patch(ada["id"], {"op": "replace", "path": "active", "value": True})
    assert (await directory.shown(ada["id"]))["active"] is True


async def test_the_member_limit_holds_for_the_group(directory: Directory) -> None:
    ada, bob = await directory.create("ada@example.org"), await directory.create("bob@example.org")
    await directory.patch(directory.group, {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'})
    directory.people.change("update all_organizations set max_users = 2 where id = %s", directory.tenant.id)
    assert refusal(await directory.patch(directory.group, {"op": "add", "path": "members", "value": member(ada["id"])})) == (400, None)
    # When one member leaves, another may come.
    assert (await directory.ask("PUT", directory.group, {"members": member(ada["id"])})).status == 200
    assert await directory.members() == {str(directory.owner.user), ada["id"]}, bob


async def test_fifty_at_once_that_add_and_remove_the_same_member_end_in_one_state(directory: Directory) -> None:
    ada = await directory.create("ada@example.org")
    statuses: list[int] = []

    async def change(number: int) -> None:
        add = {"op": "add", "path": "members", "value": member(ada["id"])}
        remove = {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'}
        statuses.append((await directory.patch(directory.group, add if number % 2 else remove)).status)

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(change, number)
    assert statuses == [200] * 50
    assert (ada["id"] in await directory.members()) is (await directory.shown(ada["id"]))["active"]
    (counted,) = directory.people.rows("select member_count from organizations where id = %s", directory.tenant.id)
    assert counted["member_count"] == len(await directory.members())


async def test_a_search_among_everything_finds_people_and_the_group(directory: Directory) -> None:
    ada = await directory.create("ada@example.org", externalId="x")
    await directory.patch(directory.group, {"op": "add", "path": "externalId", "value": "x"})

    async def found(**wanted: Any) -> tuple[int, list[str]]:
        body = (await directory.ask("POST", f"{BASE}/.search", wanted)).ok()
        return body["totalResults"], [one["id"] for one in body["Resources"]]

    group = str(directory.tenant.id)
    assert await found() == (3, [str(directory.owner.user), ada["id"], group])
    assert await found(filter='externalId eq "x"') == (2, [ada["id"], group])
    assert await found(filter='userName eq "ada@example.org"') == (1, [ada["id"]])
    assert await found(filter='displayName eq "Acme"') == (1, [group])
    assert await found(count=2) == (3, [str(directory.owner.user), ada["id"]])
    assert await found(startIndex=3, count=2) == (3, [group])
    assert await found(startIndex=4) == (3, [])
    assert refusal(await directory.ask("POST", f"{BASE}/.search", {"filter": 'title eq "x"'})) == (400, "invalidFilter")
