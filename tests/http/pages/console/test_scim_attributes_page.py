"""The table of fields and the attributes of a directory that fill them."""

from typing import Any, Final

from tests.http.browsing import Tab
from tests.http.pages.console.conftest import ConsoleScene

PLACE: Final = "/directories/scim/attributes"


async def declare(console: ConsoleScene, key: str, kind: str = "text", writer: str = "directory") -> None:
    path, token = "/api/organizations/acme/profile-fields", await console.tenants.token_in(console.ada, console.acme)
    rule = {"rule": {"choices": ["Engines", "Mills"]}} if kind == "choice" else {}
    body = {"key": key, "label": key.title(), "kind": kind, "written_by": [writer], **rule}
    assert (await console.client.post(path, body, token=token)).status == 201


async def mapping(console: ConsoleScene) -> Any:
    token = await console.tenants.token_in(console.ada, console.acme)
    return (await console.client.get("/api/organizations/acme/scim/settings", token=token)).ok()["profile_mapping"]


async def save(console: ConsoleScene, **rows: str) -> Tab:
    return await console.submit(PLACE, field=list(rows), attribute=list(rows.values()))


async def test_the_owner_chooses_an_attribute_for_each_field_of_the_directory(console: ConsoleScene) -> None:
    tab = await console.at(PLACE)
    assert "No profile fields for the directory" in tab.page.text
    for key, kind, writer in (
        *(("job", "text", "directory"), ("department", "choice", "directory"), ("number", "number", "directory")),
        *(("tags", "list", "directory"), ("private", "text", "administrator")),
    ):
        await declare(console, key, kind, writer)
    assert f"/ui/o/acme{PLACE}" in (await console.at("/directories/scim")).page.links
    tab = await console.at(PLACE)
    assert {"Job", "Department", "Number"} <= set(tab.page.text.split())
    assert {"Tags", "Private"}.isdisjoint(tab.page.text.split())
    tab = await save(console, job="title", department="department", number="")
    assert (tab.status, "Saved" in tab.page.text) == (200, True)
    assert await mapping(console) == {"title": "job", "department": "department"}
    # The page shows what is mapped, and its form sends it back.
    assert b"<option selected>title</option>" in tab.shown.body
    tab = await save(console, job="", department="department", number='phoneNumbers[type eq "work"].value')
    assert await mapping(console) == {"department": "department", 'phoneNumbers[type eq "work"].value': "number"}


async def test_an_attribute_fills_one_field(console: ConsoleScene) -> None:
    await declare(console, "job")
    await declare(console, "other")
    await console.at(PLACE)
    tab = await save(console, job="title", other="title")
    assert (tab.status, "Use each attribute only once." in tab.page.text) == (400, True)
    assert tab.shown.body.count(b"<option selected>title</option>") == 2
    assert await mapping(console) == {}
    tab = await save(console, job="shoeSize", other="")
    assert (tab.status, await mapping(console)) == (400, {})


async def test_a_field_that_the_table_does_not_show_keeps_its_attribute(console: ConsoleScene) -> None:
    for key in ("job", "later", "gone"):
        await declare(console, key)
    token = await console.tenants.token_in(console.ada, console.acme)
    body = {"profile_mapping": {"title": "later", "userType": "gone"}}
    assert (await console.client.request("PATCH", "/api/organizations/acme/scim/settings", body=body, token=token)).status == 200
    for key in ("later", "gone"):
        assert (await console.client.request("DELETE", f"/api/organizations/acme/profile-fields/{key}", token=token)).status in {202, 204}
    await console.at(PLACE)
    await save(console, job="title")
    assert await mapping(console) == {"title": "job", "userType": "gone"}


async def test_others_read_or_see_nothing(console: ConsoleScene) -> None:
    await declare(console, "job")
    admin = await console.colleague("admin").open(f"/ui/o/acme{PLACE}")
    assert (admin.status, [one.action for one in admin.page.forms if one.action.endswith(PLACE)]) == (200, [])
    assert (await console.colleague().open(f"/ui/o/acme{PLACE}")).status == 403
    _, stranger = console.stranger()
    assert (await stranger.open(f"/ui/o/acme{PLACE}")).status == 403


async def test_saving_asks_for_a_fresh_proof(console: ConsoleScene) -> None:
    await declare(console, "job")
    await console.at(PLACE)
    console.grow_old()
    tab = await save(console, job="title")
    assert not tab.place.startswith("/ui/o/")
    assert await mapping(console) == {}
