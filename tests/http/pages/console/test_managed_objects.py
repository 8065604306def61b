"""What the console says of objects that a configuration document manages."""

from entrypoints.cli.configuration.operators import DocumentOperator
from entrypoints.http.routes.configuration.applying import Configuring
from tests.http.configuration.documents import resolve
from tests.http.pages.console.conftest import ConsoleScene

MANAGES = "Managed by a configuration file"


async def apply(console: ConsoleScene, **held: object) -> str:
    configuring = Configuring(DocumentOperator(console.postern, {}))
    planned = await configuring.plan({"postern": 1, "organizations": {"acme": held}}, resolve)
    assert planned.problems == ()
    assert (await configuring.apply(planned)).refused == []
    return planned.document.digest


async def test_an_object_that_a_document_manages_says_so_wherever_it_can_be_changed(console: ConsoleScene) -> None:
    permissions = ["end_users.view"]
    digest = await apply(
        console,
        roles={"support": {"name": "Support", "permissions": permissions}},
        sign_in_rules={"device_trust_days": 7},
        services={"wiki": {"name": "Wiki", "service_type": "web", "permissions": {"pages:write": {}}}},
    )
    await console.at("/people/roles/~new")
    await console.submit("/people/roles/~new", slug="free", name="Free", permissions=permissions, description="")
    roles = {row["slug"]: f"/people/roles/{row['id']}" for row in console.people.rows("select slug, id from roles")}
    for page in (
        *(roles["support"], f"{roles['support']}/change", f"{roles['support']}/end", "/sign-in"),
        *("/applications/wiki/settings", "/applications/wiki/permissions/pages:write"),
    ):
        tab = await console.at(page)
        assert tab.status == 200, page
        assert MANAGES in tab.page.text, page
        assert digest[:12] in tab.page.text, page
    for page in (roles["free"], "/people/roles", "/settings/looks", "/applications/wiki/plans"):
        tab = await console.at(page)
        assert (tab.status, MANAGES in tab.page.text) == (200, False), page


async def test_the_list_of_managed_objects_tells_which_were_changed_by_hand(console: ConsoleScene) -> None:
    tab = await console.at("/settings/documents")
    assert "No configuration files" in tab.page.text
    await apply(console, roles={"support": {"name": "Support", "permissions": ["end_users.view"]}}, sign_in_rules={"sign_in_links": True})
    tab = await console.at("/settings/documents")
    assert "/organizations/acme/roles/support" in tab.page.text
    assert "Changed manually" not in tab.page.text
    console.people.change("update roles set name = 'By hand'")
    tab = await console.at("/settings/documents")
    assert "Changed manually" in tab.page.text
    assert "Matches file" in tab.page.text
