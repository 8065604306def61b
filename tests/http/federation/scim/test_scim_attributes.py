"""Attributes of a directory that an owner maps to fields of the organization: the setting, its effect, and its limits."""

from typing import Any, Final

import pytest
import trio

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, refused
from tests.http.federation.scim.directories import BASE, PATCH_OP, USER, USERS, Directory, refusal
from tests.http.people import People
from tests.patience import PATIENCE

ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
FIELDS: Final = "urn:ietf:params:scim:schemas:extension:postern:User"
SETTINGS: Final = "/api/organizations/acme/scim/settings"
ADA: Final = "ada@example.org"
BOTH: Final = {"title": "job", "department": "department"}


@pytest.fixture
async def directory(postern: Postern, client: Client, people: People) -> Directory:
    directory = await Directory(postern, client, people).connect()
    await directory.declare("job")
    await directory.declare("department", "choice", rule={"choices": ["Engines", "Mills"]})
    return directory


def put(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


async def test_an_owner_maps_attributes_and_the_audit_log_has_it(directory: Directory, client: Client, people: People) -> None:
    admin = directory.tenants.member(directory.tenant, "admin")
    answer = await client.request("PATCH", SETTINGS, body={"profile_mapping": BOTH}, token=await directory.tenants.token(admin))
    assert refused(answer) == (403, "FORBIDDEN")
    for _ in range(2):
        assert (await directory.map(BOTH)).ok() == {"groups": "organization", "profile_mapping": BOTH}
    assert (await directory.switch()).ok() == {"groups": "teams", "profile_mapping": BOTH}
    owner = await people.token(directory.owner)
    no_field = {"profile_mapping": {**BOTH, "userType": "later"}}
    for wrong in ({}, {"profile_mapping": {"shoeSize": "job"}}, {"profile_mapping": {"title": "job", "userType": "job"}}, no_field):
        assert refused(await client.request("PATCH", SETTINGS, body=wrong, token=owner)) == (400, "BAD_REQUEST"), wrong
    assert (await client.get(SETTINGS, token=await directory.tenants.token(admin))).ok()["profile_mapping"] == BOTH
    assert (await directory.map({})).ok()["profile_mapping"] == {}
    told = [entry["details"] for entry in directory.logged() if entry["action"] == "scim_settings.updated"]
    assert told == [
        {"old_profile_mapping": {}, "new_profile_mapping": BOTH},
        {"old_groups": "organization", "new_groups": "teams"},
        {"old_profile_mapping": BOTH, "new_profile_mapping": {}},
    ]


async def test_a_field_that_does_not_exist_is_refused_in_words(directory: Directory, client: Client, people: People) -> None:
    """What was mapped before its field went may stay, and counts for nothing."""
    refusal = await directory.map({"title": "jobs"})
    assert refused(refusal) == (400, "BAD_REQUEST")
    assert refusal.json()["error"] == "profile_mapping: jobs: the organization has no field with this key: declare it first"
    await directory.map(BOTH)
    owner = await people.token(directory.owner)
    assert (await client.request("DELETE", "/api/organizations/acme/profile-fields/job", token=owner)).status in {202, 204}
    assert (await directory.map({"title": "job"})).ok()["profile_mapping"] == {"title": "job"}
    assert refused(await directory.map({"userType": "job"})) == (400, "BAD_REQUEST")


async def test_an_attribute_fills_its_field_from_the_mapping_on(directory: Directory) -> None:
    user = (await directory.create(ADA, title="Analyst", **{ENTERPRISE: {"department": "Engines"}}))["id"]
    assert await directory.kept(user) == {}
    before = (await directory.get(user)).header("etag")
    await directory.map(BOTH)
    changed = await directory.patch(user, put("title", "Countess"), put(f"{ENTERPRISE}:department", "Mills"))
    assert (changed.ok()["title"], changed.ok()[ENTERPRISE]) == ("Countess", {"department": "Mills"})
    shown = await directory.get(user)
    assert shown.json() == changed.json()
    assert shown.json()["schemas"] == [USER, ENTERPRISE]
    assert before != shown.header("etag") == changed.header("etag")
    assert await directory.find(f'userName eq "{ADA}"') == [shown.json()]
    assert await directory.kept(user) == {"job": "Countess", "department": "Mills"}
    # The same values again change nothing.
    assert (await directory.patch(user, put("title", "Countess"))).header("etag") == shown.header("etag")
    assert FIELDS not in (await directory.patch(user, {"op": "remove", "path": ENTERPRISE}, put("title", None))).ok()
    assert await directory.kept(user) == {}
    told = [one["details"] for one in directory.logged() if one["action"] == "user.fields.updated"]
    assert [(one["keys"], one["written_by"]) for one in told] == [(["department", "job"], "directory")] * 2


async def test_the_end_of_a_mapping_leaves_the_values_to_the_extension(directory: Directory) -> None:
    await directory.map(BOTH)
    user = (await directory.create(ADA, title="Analyst"))["id"]
    mapped = await directory.get(user)
    assert (mapped.ok()["title"], FIELDS in mapped.ok()) == ("Analyst", False)
    await directory.map({})
    left = await directory.patch(user, put("title", "Countess"), put("displayName", "Ada"))
    assert ("title" in left.ok(), left.ok()[FIELDS]) == (False, {"job": "Analyst"})
    assert left.header("etag") != mapped.header("etag")


async def test_the_documents_say_what_is_mapped(directory: Directory) -> None:
    await directory.declare("own")
    await directory.map(BOTH)
    (person, _) = (await directory.ask("GET", f"{BASE}/ResourceTypes")).ok()["Resources"]
    assert [one["schema"] for one in person["schemaExtensions"]] == [FIELDS, ENTERPRISE]
    schemas = {one["id"]: one for one in (await directory.ask("GET", f"{BASE}/Schemas")).ok()["Resources"]}
    assert [one["name"] for one in schemas[FIELDS]["attributes"]] == ["own"]
    assert [(one["name"], one["canonicalValues"]) for one in schemas[ENTERPRISE]["attributes"]] == [("department", ["Engines", "Mills"])]
    assert "title" in {one["name"] for one in schemas[USER]["attributes"]}
    assert (await directory.ask("GET", f"{BASE}/Schemas/{ENTERPRISE}")).ok() == schemas[ENTERPRISE]


async def test_a_mapping_reaches_no_other_organization(directory: Directory, postern: Postern, client: Client, people: People) -> None:
    other = await Directory(postern, client, people, "globex").connect()
    await other.declare("job", "number")
    await other.declare("theirs")
    # Another organization's field is none of this one's.
    assert refused(await directory.map({"title": "job", "userType": "theirs"})) == (400, "BAD_REQUEST")
    await directory.map({"title": "job"})
    both = {"title": "Analyst", "userType": "Employee"}
    ada = await directory.create(ADA, **both)
    assert (ada["title"], "userType" in ada) == ("Analyst", False)
    told = {one["name"] for one in (await directory.ask("GET", f"{BASE}/Schemas/{USER}")).ok()["attributes"]}
    assert told & {"title", "userType"} == {"title"}
    theirs = await other.create(ADA, **both)
    assert {"title", "userType", FIELDS}.isdisjoint(theirs)
    assert theirs["id"] == ada["id"]
    assert await other.kept(ada["id"]) == {}
    await other.map({"title": "theirs"})
    assert (await other.patch(ada["id"], put("title", "Countess"))).ok()["title"] == "Countess"
    assert (await directory.shown(ada["id"]))["title"] == "Analyst"


async def test_a_field_counts_while_it_is_there_and_the_directory_may_write_it(
    directory: Directory, client: Client, people: People
) -> None:
    path, owner = "/api/organizations/acme/profile-fields", await people.token(directory.owner)
    await directory.declare("later")
    await directory.map({"title": "later", "userType": "job"})
    assert (await client.request("DELETE", f"{path}/later", token=owner)).status == 204
    user = (await directory.create(ADA, title="Analyst", userType="Employee"))["id"]
    assert await directory.kept(user) == {"job": "Employee"}
    await directory.declare("later")
    assert (await directory.patch(user, put("title", "Countess"))).ok()["title"] == "Countess"
    assert (await client.request("PATCH", f"{path}/job", body={"written_by": ["administrator"]}, token=owner)).status == 200
    assert (await client.request("DELETE", f"{path}/later", token=owner)).status == 204
    answer = await directory.patch(user, put("title", "Analyst"), put("userType", "Guest"))
    assert {"title", "userType"}.isdisjoint(answer.ok())
    assert await directory.kept(user) == {"job": "Employee"}


async def test_a_required_field_keeps_nobody_out(directory: Directory) -> None:
    await directory.declare("phone", "text", "person", required=True, asked_at="sign_in")
    await directory.map({'phoneNumbers[type eq "work"].value': "phone"})
    user = (await directory.create(ADA))["id"]
    assert (await directory.patch(user, put("phoneNumbers", [{"value": "1", "type": "work"}]))).ok()["phoneNumbers"][0]["value"] == "1"
    assert "phoneNumbers" not in (await directory.patch(user, {"op": "remove", "path": "phoneNumbers"})).ok()
    whole = {"schemas": [USER], "userName": ADA, "phoneNumbers": [{"value": "x" * 2000, "type": "work"}]}
    assert "phoneNumbers" not in (await directory.ask("PUT", f"{USERS}/{user}", whole)).ok()


async def test_a_full_row_of_values_keeps_nobody_in(directory: Directory, client: Client, people: People) -> None:
    """Somebody fills all the room for values, and the directory sends its attributes together with the deactivation."""
    for number in range(17):
        await directory.declare(f"long{number}", "text", "administrator")
    await directory.map(BOTH)
    user = (await directory.create(ADA, title="Analyst"))["id"]
    path, owner = f"/api/organizations/acme/users/{user}/profile", await people.token(directory.owner)
    for number in range(16):
        body = {"values": {f"long{number}": "x" * 955}}
        assert (await client.request("PATCH", path, body=body, token=owner)).status == 200, number
    changed = await directory.patch(user, put("title", "x" * 500), put("active", "False"))
    assert (changed.ok()["active"], "title" in changed.ok()) == (False, False)
    kept = await directory.kept(user)
    assert (len(kept), "job" in kept) == (16, False)
    # Values by the extension are refused, as before.
    answer = await directory.patch(user, put(f"{FIELDS}:long16", "x" * 1000), put("title", "y"))
    assert refusal(answer) == (400, "invalidValue")
    await directory.map({})
    answer = await directory.patch(user, put(f"{FIELDS}:long16", "x" * 1000))
    assert refusal(answer) == (400, "invalidValue")


async def test_a_mapping_takes_no_more_round_trips_but_one_for_the_values(directory: Directory, log: CapturedLog) -> None:
    user = (await directory.create(ADA))["id"]

    async def trips(*operations: dict[str, Any], method: str = "PATCH") -> int:
        body = {"schemas": [PATCH_OP], "Operations": operations} if operations else None
        assert (await directory.ask(method, f"{USERS}/{user}", body)).status == 200
        counted: int = log.events("request")[-1]["db_round_trips"]
        return counted

    read = await trips(method="GET")
    plain = await trips(put("displayName", "Ada"))
    dropped = await trips(put("displayName", "Countess"), put("title", "Countess"))
    await directory.map(BOTH)
    assert plain == dropped == await trips(put("displayName", "Ada"), put("nickName", "Ada"))
    assert read == await trips(method="GET")
    assert plain + 1 >= await trips(put("displayName", "Countess"), put("title", "Countess"), put(f"{ENTERPRISE}:department", "Mills"))
    # A value that changes nothing asks for nothing.
    assert plain == await trips(put("displayName", "Ada"), put("title", "Countess"), put(f"{ENTERPRISE}:department", "Mills"))


async def test_the_recorder_names_what_no_field_takes(directory: Directory, postern: Postern, client: Client, people: People) -> None:
    await directory.map(BOTH)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: postern.federation.scim_recorder.run(task_status=task_status))
        await directory.create(ADA, title="Analyst", nickName="Ada", **{ENTERPRISE: {"department": "Poetry"}})
        with trio.fail_after(PATIENCE):
            found: list[dict[str, Any]] = []
            while not found:
                await trio.sleep(0.05)
                answer = await client.get("/api/organizations/acme/scim/exchanges", token=await people.token(directory.owner))
                found = answer.ok()["exchanges"]
        nursery.cancel_scope.cancel()
    assert [one["reason"] for one in found] == ["Not kept here: department, nickName"]
