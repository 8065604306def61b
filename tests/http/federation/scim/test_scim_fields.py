"""The organization's own fields in SCIM: an extension that the directory reads in the schemas, and writes with each person."""

from typing import Any, Final

import pytest

from adapters.postgres.tenancy.profile_fields import ProfileValueRows
from entrypoints.bootstrap import Postern
from tests.http.client import Client
from tests.http.federation.scim.directories import BASE, USER, USERS, Directory, refusal
from tests.http.people import People

FIELDS: Final = "urn:ietf:params:scim:schemas:extension:postern:User"
ADA: Final = "ada@acme.example"


@pytest.fixture
async def directory(postern: Postern, client: Client, people: People) -> Directory:
    return await Directory(postern, client, people).connect()


async def test_an_organization_without_fields_has_no_extension(directory: Directory) -> None:
    kinds = (await directory.ask("GET", f"{BASE}/ResourceTypes")).ok()["Resources"]
    assert [one["schemaExtensions"] for one in kinds] == [[], []]
    assert len((await directory.ask("GET", f"{BASE}/Schemas")).ok()["Resources"]) == 2
    made = await directory.create(ADA, **{FIELDS: {"department": "Sales"}})
    assert FIELDS not in made
    assert made["schemas"] == [USER]


async def test_the_schemas_name_the_fields_of_this_organization_that_directories_write(
    directory: Directory, postern: Postern, client: Client, people: People
) -> None:
    await directory.declare("department", "choice", rule={"choices": ["Sales", "Support"]})
    await directory.declare("grade", "number")
    await directory.declare("tags", "list")
    other = await Directory(postern, client, people, "globex").connect()
    await other.declare("theirs")
    path = "/api/organizations/acme/profile-fields"
    body = {"key": "private", "label": "Private", "kind": "text"}
    assert (await client.post(path, body, token=await people.token(directory.owner))).status == 201
    (person, _) = (await directory.ask("GET", f"{BASE}/ResourceTypes")).ok()["Resources"]
    assert person["schemaExtensions"] == [{"schema": FIELDS, "required": False}]
    schema = (await directory.ask("GET", f"{BASE}/Schemas/{FIELDS}")).ok()
    told = {one["name"]: (one["type"], one["multiValued"], one.get("canonicalValues")) for one in schema["attributes"]}
    assert told == {
        "department": ("string", False, ["Sales", "Support"]),
        "grade": ("decimal", False, None),
        "tags": ("string", True, None),
    }


async def test_a_directory_writes_its_fields_and_no_others(directory: Directory) -> None:
    await directory.declare("department", "text", "administrator")
    await directory.declare("tags", "list")
    made = await directory.create(ADA, **{FIELDS: {"Department": "Sales", "tags": ["a"], "unknown": 1}})
    user = made["id"]
    assert made[FIELDS] == {"department": "Sales", "tags": ["a"]}
    assert made["schemas"] == [USER, FIELDS]
    shown = await directory.get(user)
    assert shown.ok() == made
    assert await directory.kept(user) == made[FIELDS]
    # PATCH: one field by its path, several without one, and what to add to a list.
    patched = await directory.patch(
        user,
        {"op": "replace", "path": f"{FIELDS}:department", "value": "Support"},
        {"op": "add", "value": {FIELDS: {"tags": ["a", "b"]}}},
    )
    assert patched.ok()[FIELDS] == {"department": "Support", "tags": ["a", "b"]}
    assert patched.header("etag") != shown.header("etag")
    for wrong in (
        {"op": "replace", "path": f"{FIELDS}:unknown", "value": "x"},
        {"op": "replace", "path": f"{FIELDS}:department", "value": 7},
    ):
        assert refusal(await directory.patch(user, wrong))[0] == 400
    assert (await directory.patch(user, {"op": "remove", "path": f"{FIELDS}:tags"})).ok()[FIELDS] == {"department": "Support"}
    # A resource without the extension leaves the fields, one with it states all of them.
    whole = {"schemas": [USER], "userName": ADA}
    assert (await directory.ask("PUT", f"{USERS}/{user}", whole)).ok()[FIELDS] == {"department": "Support"}
    assert (await directory.ask("PUT", f"{USERS}/{user}", {**whole, FIELDS: {"tags": ["z"]}})).ok()[FIELDS] == {"tags": ["z"]}
    assert FIELDS not in (await directory.get(user, f"?excludedAttributes={FIELDS}")).ok()
    assert (await directory.get(user, f"?attributes={FIELDS}:tags")).ok()[FIELDS] == {"tags": ["z"]}
    listed = await directory.find(f'userName eq "{ADA}"')
    assert listed[0][FIELDS] == {"tags": ["z"]}
    told = [one["details"] for one in directory.logged() if one["action"] == "user.fields.updated"]
    assert [one["keys"] for one in told] == [["department", "tags"], ["department", "tags"], ["tags"], ["department", "tags"]]
    assert {one["written_by"] for one in told} == {"directory"}


@pytest.mark.parametrize("path", [FIELDS, FIELDS.upper(), f"{FIELDS}:"])
async def test_a_directory_removes_all_its_fields_by_the_name_of_the_extension(directory: Directory, path: str) -> None:
    await directory.declare("department")
    await directory.declare("tags", "list")
    user = (await directory.create(ADA, **{FIELDS: {"department": "Sales", "tags": ["a"]}}))["id"]
    assert FIELDS not in (await directory.patch(user, {"op": "remove", "path": path})).ok()
    assert FIELDS not in await directory.shown(user)
    assert await directory.kept(user) == {}


async def test_where_the_fields_of_a_user_cannot_be_held_nothing_is_changed(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hold(*_: Any) -> None:
        return None

    await directory.declare("department")
    made = await directory.create(ADA, displayName="Ada", **{FIELDS: {"department": "Sales"}})
    changes = (
        {"op": "replace", "path": "displayName", "value": "Countess"},
        {"op": "replace", "path": f"{FIELDS}:department", "value": "Support"},
    )
    with monkeypatch.context() as patch:
        patch.setattr(ProfileValueRows, "hold", hold)
        assert refusal(await directory.patch(made["id"], *changes)) == (404, None)
    assert await directory.shown(made["id"]) == made
    assert (await directory.patch(made["id"], *changes)).ok()[FIELDS] == {"department": "Support"}


async def test_values_outlive_a_deactivation_and_end_with_the_user(directory: Directory) -> None:
    await directory.declare("department")
    user = (await directory.create(ADA, **{FIELDS: {"department": "Sales"}}))["id"]
    for active in (False, True):
        answer = await directory.patch(user, {"op": "replace", "path": "active", "value": active})
        assert answer.ok()[FIELDS] == {"department": "Sales"}
    assert (await directory.ask("DELETE", f"{USERS}/{user}")).status == 204
    assert directory.people.rows("select user_id from profile_values") == []
