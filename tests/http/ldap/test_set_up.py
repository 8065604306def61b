"""A directory by LDAP in a set-up link: its holder describes it, and types the bind password themselves."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from entrypoints.bootstrap import Postern
from ops.browser.page_reader import PageReader
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.ldap.scene import PASSWORD, PATH, own
from tests.http.people import People
from tests.http.tenancy.proving import proving
from tests.http.tenancy.setup.scene import SetupScene
from tests.ldap.authority import Authority
from tests.ldap.fake import BASE, BIND_DN, BIND_PASSWORD, FakeLdap


class LdapSetUp(SetupScene):
    directory: FakeLdap
    authority: Authority

    async def chosen(self, **more: Any) -> tuple[str, Tab]:
        link, tab = await self.begun("connection", **more)
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")
        return link, await page.send(directory="other", kind="ldap", name="Example directory")

    async def describe(self, link: str, tab: Tab, **changes: str) -> Tab:
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")
        form = next(at for at, one in enumerate(page.page.forms) if one.action.endswith("/description"))
        fields = {
            "product": "openldap",
            "hosts": f"ldaps://127.0.0.1:{self.directory.port}",
            "ca_certificates": self.authority.pem,
            "bind_dn": BIND_DN,
            "bind_password": BIND_PASSWORD,
            "base_dn": BASE,
        }
        return await page.send(form, **{**fields, **changes})

    async def provider(self) -> dict[str, Any]:
        (found,) = (await self.request("GET", PATH)).json()
        return dict(found)

    async def tries(self, link: str, tab: Tab) -> bytes:
        page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")
        action = f"/ui/setup/of/{link}/connection/test"
        begun = await tab.tabs.request("POST", action, {"form_token": self.token_of(tab)})
        if begun.status != 303:
            return begun.body
        del page
        question = await tab.tabs.request("GET", str(begun.header("location")))
        form = PageReader(question.body).forms[0]
        left = await tab.tabs.request("POST", form.action, form.fields)
        place = own(PageReader(left.body).refresh)
        if "/password?" in place:
            asked = PageReader((await tab.tabs.request("GET", place)).body).forms[0]
            fields = {**asked.fields, "directory_name": "ada", "directory_password": PASSWORD}
            typed = await tab.tabs.request("POST", asked.action, fields)
            place = own(PageReader(typed.body).refresh)
        return (await tab.tabs.request("GET", place)).body


@pytest.fixture
async def scene(
    postern: Postern, people: People, log: CapturedLog, tmp_path: Path, directory: FakeLdap, authority: Authority
) -> AsyncIterator[LdapSetUp]:
    async with proving(LdapSetUp, postern, people, log, tmp_path, "example.org") as made:
        made.directory, made.authority = directory, authority
        log.remember(BIND_PASSWORD, PASSWORD)
        for one in directory.people:
            one.attributes = {**one.attributes, "objectClass": [b"inetOrgPerson"]}
        yield made


async def test_whoever_has_the_link_describes_the_directory_and_tries_it(scene: LdapSetUp) -> None:
    link, page = await scene.chosen()
    assert "Create a read-only directory account" in page.page.text
    page = await scene.describe(link, page)
    assert f"ldaps://127.0.0.1:{scene.directory.port}" in page.page.text
    assert BIND_PASSWORD not in page.shown.body.decode()
    assert b"All checks passed" in await scene.tries(link, page)
    provider = await scene.provider()
    assert (provider["state"], provider["enabled"], provider["has_secret"]) == ("tested", False, True)
    assert provider["ldap"]["ldap_preset"] == "openldap"


async def test_what_is_wrong_stands_at_its_field(scene: LdapSetUp) -> None:
    link, page = await scene.chosen()
    for changes, words in (
        ({"hosts": "ldap://dc1.example.org"}, "is not encrypted"),
        ({"hosts": "ldaps://dc1.example.org", "start_tls": "yes"}, "With StartTLS"),
        ({"bind_dn": "reader"}, "Enter a DN such as"),
        ({"ca_certificates": "none"}, "one or more certificates in PEM"),
    ):
        assert words in (await scene.describe(link, page, **changes)).page.text
    assert scene.directory.connections == 0


async def test_a_link_never_uses_a_password_that_somebody_else_typed(scene: LdapSetUp) -> None:
    link, page = await scene.chosen()
    await scene.describe(link, page, bind_password="")
    provider = await scene.provider()
    assert not provider["has_secret"]
    # An administrator helps, at the interface.
    (await scene.request("PATCH", f"{PATH}/{provider['id']}", {"bind_password": BIND_PASSWORD})).ok()
    assert (await scene.provider())["has_secret"]
    assert b"Settings are missing" in await scene.tries(link, page)
    assert scene.directory.binds == []
    await scene.describe(link, page)
    assert b"All checks passed" in await scene.tries(link, page)


async def test_other_hosts_empty_the_password_in_a_link_too(scene: LdapSetUp) -> None:
    link, page = await scene.chosen()
    await scene.describe(link, page)
    await scene.describe(link, page, hosts="ldaps://10.1.2.3", bind_password="")
    assert not (await scene.provider())["has_secret"]
    assert b"Settings are missing" in await scene.tries(link, page)


async def test_a_link_for_another_kind_takes_no_description(scene: LdapSetUp) -> None:
    link, tab = await scene.begun("connection")
    page = await tab.tabs.tab().open(f"/ui/setup/of/{link}/connection")
    await page.send(directory="okta", kind="saml", name="Okta")
    action = f"/ui/setup/of/{link}/connection/description"
    answer = await tab.tabs.request("POST", action, {"form_token": scene.token_of(tab), "hosts": "ldaps://dc1.example.org"})
    assert answer.status == 400


async def test_the_same_description_twice_keeps_the_test(scene: LdapSetUp) -> None:
    link, page = await scene.chosen()
    await scene.describe(link, page)
    assert b"All checks passed" in await scene.tries(link, page)
    await scene.describe(link, page, bind_password="")
    assert (await scene.provider())["state"] == "tested"
