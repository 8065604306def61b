"""The pages that describe a directory by LDAP: the second step is the form, and what a test misses stands on the page that says so."""

import re
from typing import Any, Final

from tests.http.browsing import Tab
from tests.http.ldap.scene import LdapScene
from tests.ldap.fake import BASE, BIND_DN, BIND_PASSWORD

DIRECTORIES: Final = "/ui/o/acme/directories"
WARNED: Final = "No one can sign in through this identity provider yet"


async def made(scene: LdapScene) -> tuple[str, Tab]:
    """A draft that was added on the page. Returns its record's address, and the record."""
    tab = scene.signed_in(scene.speaker).tab()
    await tab.open(f"{DIRECTORIES}/~new")
    form = next(at for at, one in enumerate(tab.page.forms) if one.action == f"{DIRECTORIES}/~new")
    await tab.send(form, kind="openldap")
    (provider,) = (await scene.request("GET", "/api/organizations/acme/upstream-providers")).json()
    return f"{DIRECTORIES}/{provider['id']}", tab


def step(page: str, heading: str) -> str:
    """A part of the page."""
    return next(part for part in page.split("<section")[1:] if heading in part.partition("</h2>")[0])


def fields(part: str) -> set[str]:
    return set(re.findall(r'<(?:input|textarea|select) id="[^"]*" name="([^"]*)"', part))


async def saved(scene: LdapScene, tab: Tab, at: str, **changes: str) -> Tab:
    form = next(number for number, one in enumerate(tab.page.forms) if one.action == f"{at}/ldap")
    given = {
        "hosts": f"ldaps://127.0.0.1:{scene.directory.port}",
        "ca_certificates": scene.authority.pem,
        "bind_dn": BIND_DN,
        "bind_password": BIND_PASSWORD,
        "base_dn": BASE,
        "person_filter": "(objectClass=person)",
    }
    return await tab.send(form, **{**given, **changes})


async def begun(tab: Tab, at: str) -> Tab:
    form = next(number for number, one in enumerate(tab.page.forms) if one.action == f"{at}/connection/test")
    return await tab.send(form)


async def test_the_second_step_is_the_form(scene: LdapScene) -> None:
    at, tab = await made(scene)
    page = tab.shown.body.decode()
    assert "OpenLDAP added as a draft" in tab.page.text
    second = step(page, "2. ")
    seen, _, folded = second.partition("<details")
    assert fields(seen) == {"hosts", "bind_dn", "bind_password", "base_dn"}
    assert {"ca_certificates", "person_filter", "sign_in_attributes", "lockout_threshold"} <= fields(folded)
    # Nothing else on the page asks for them, and no name that people never type stands there.
    assert page.count('name="hosts"') == 1
    assert "urn:uuid" not in second
    tab = await saved(scene, tab, at)
    assert "Settings of OpenLDAP saved" in tab.page.text
    assert f"ldaps://127.0.0.1:{scene.directory.port}" in step(tab.shown.body.decode(), "2. ")
    # What is wrong in the folded part is in sight.
    tab = await saved(scene, tab, at, person_filter="(((")
    assert tab.status == 400
    assert '<a href="#person_filter">' in tab.shown.body.decode()
    assert " open>" in step(tab.shown.body.decode(), "2. ")


async def test_a_domain_is_a_step_and_a_warning_until_it_is_proved(scene: LdapScene) -> None:
    at, tab = await made(scene)
    assert WARNED in step(tab.shown.body.decode(), "4. ")
    assert f"{DIRECTORIES}/domains/~new" in tab.page.links
    await saved(scene, tab, at)
    shown = await scene.test(at.rpartition("/")[2])
    page = shown.body.decode()
    assert "All checks passed" in page
    line = step_of_test(page, "Email addresses")
    assert "Warning." in line
    assert "Passed." not in line
    assert f'href="{DIRECTORIES}/domains/~new"' in line
    scene.prove_domain()
    page = (await tab.open(at)).shown.body.decode()
    assert WARNED not in page
    assert "Your organization has a verified email domain" in step(page, "4. ")
    assert "Passed." in step_of_test((await scene.test(at.rpartition("/")[2])).body.decode(), "Email addresses")


def step_of_test(page: str, name: str) -> str:
    return next(part for part in page.split("<dt>")[1:] if part.startswith(name))


async def test_what_a_test_misses_is_asked_on_the_page_that_says_so(scene: LdapScene) -> None:
    at, tab = await made(scene)
    tab = await begun(tab, at)
    assert tab.status == 400
    page = tab.shown.body.decode()
    assert {one for one in ("hosts", "bind_dn", "bind_password") if f'<a href="#{one}">' in page} == {"hosts", "bind_dn", "bind_password"}
    second = step(page, "2. ")
    assert {"hosts", "bind_dn", "bind_password", "base_dn"} <= fields(second)
    assert second.count('class="error"') == 3
    assert scene.directory.connections == 0
    # The same page sends the form, and then begins the test.
    tab = await saved(scene, tab, at)
    assert tab.status == 200
    assert (await begun(tab, at)).status == 200


async def test_a_check_that_fails_leads_to_its_field(scene: LdapScene) -> None:
    at, tab = await made(scene)
    provider = at.rpartition("/")[2]
    for changes, name, field in (
        ({"bind_password": "not the password"}, "Bind account", "bind_dn"),
        ({"identity_attribute": "nsUniqueId"}, "Identity attribute", "identity_attribute"),
        ({"hosts": "ldaps://127.0.0.1:1"}, "Connection", "hosts"),
    ):
        await tab.open(at)
        await saved(scene, tab, at, **changes)
        link = f"{at}/ldap#{field}"
        line = step_of_test((await scene.test(provider)).body.decode(), name)
        assert f'href="{link}"' in line, changes
        opened = await tab.open(link.partition("#")[0])
        assert f'id="{field}"' in opened.shown.body.decode()


async def test_an_active_one_keeps_its_form_in_its_panel(scene: LdapScene) -> None:
    provider = await scene.active()
    tab = await scene.signed_in(scene.speaker).tab().open(f"{DIRECTORIES}/{provider}/ldap")
    page = tab.shown.body.decode()
    assert page.count('name="hosts"') == 1
    assert 'id="hosts"' in page.partition('<div class="panels">')[2]
    assert WARNED not in page


async def test_a_reader_without_the_right_sees_no_form(scene: LdapScene) -> None:
    at, _ = await made(scene)
    member = scene.resident(scene.acme, "member", "member")
    tab = await scene.signed_in(member).tab().open(at)
    assert tab.status in {403, 404}
    stranger = scene.signed_in(scene.resident(scene.tenants.add("globex"), "owner", "stranger")).tab()
    assert (await stranger.open(at)).status in {403, 404}
    sent: Any = await stranger.tabs.request("POST", f"{at}/connection/test", {"form_token": "none"})
    assert sent.status in {403, 404}
