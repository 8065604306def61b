"""What goes wrong between two steps, and what seldom comes."""

import pytest

from ops.browser.page_reader import PageReader
from tests.http.ldap.scene import PASSWORD, PATH, LdapScene, own
from tests.http.people import BASE_URL
from tests.ldap.fake import result
from tests.meanwhile import meanwhile

_SEARCH = 0x63
_UNWILLING = 53


async def _asked(scene: LdapScene, provider: str) -> tuple[object, object]:
    """A browser in a test, with the page that asks for a person's password."""
    tabs = scene.browser()
    started = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
    form = PageReader((await tabs.request("GET", started)).body).forms[0]
    left = await tabs.request("POST", form.action, form.fields)
    return tabs, await tabs.request("GET", own(PageReader(left.body).refresh))


async def test_an_entry_without_a_name_is_nobody(scene: LdapScene) -> None:
    scene.directory.add("carol", dn="")
    provider, tabs = await scene.active(), scene.browser()
    answer = await scene.arrive(tabs, provider, name="carol")
    assert answer.status == 400
    assert scene.identities() == []
    (recorded,) = [one for one in await scene.recorded(provider) if one["fault"] == "no_identity"]
    assert "no name" in recorded["reason"]


async def test_a_test_says_that_the_directory_searches_for_nobody(scene: LdapScene) -> None:
    scene.prove_domain()

    def unwilling(number: int, operation: int, body: bytes) -> bytes | None:
        return result(0x65, number, _UNWILLING, "not now") if operation == _SEARCH and b"ada" in body else None

    provider = await scene.draft()
    scene.directory.answers = unwilling
    page = await scene.test(provider)
    assert b"All checks passed" not in page.body
    assert PASSWORD.encode() not in scene.directory.passwords()


async def test_a_directory_that_goes_away_in_the_middle_of_a_test_fails_it(scene: LdapScene) -> None:
    scene.prove_domain()
    provider = await scene.draft()
    tabs, page = await _asked(scene, provider)
    scene.directory.is_away = True
    typed = await scene.type(tabs, page, "ada", PASSWORD)  # type: ignore[arg-type]  # both come from a browser
    shown = await tabs.request("GET", own(PageReader(typed.body).refresh))  # type: ignore[attr-defined]
    assert b"All checks passed" not in shown.body


async def test_a_test_whose_starter_signs_out_meanwhile_binds_nobody(scene: LdapScene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.prove_domain()
    provider = await scene.draft()
    starter = scene.resident(scene.acme, "admin")
    tabs, asked = scene.browser(), len(scene.directory.passwords())
    started = (await scene.request("POST", f"{PATH}/{provider}/test", by=starter)).ok()["url"].removeprefix(BASE_URL)
    page = await tabs.request("GET", started)
    starters = scene.postern.tenancy.connection_tests.starters
    meanwhile(monkeypatch, starters, "may_go_on", lambda: scene.people.change("update sessions set revoked_at = now()"))
    form = PageReader(page.body).forms[0]
    assert (await tabs.request("POST", form.action, form.fields)).status == 400
    assert len(scene.directory.passwords()) == asked


async def test_a_test_whose_starter_has_lost_the_right_binds_no_more(scene: LdapScene) -> None:
    scene.prove_domain()
    provider = await scene.draft()
    starter = scene.resident(scene.acme, "admin")
    tabs = scene.browser()
    started = (await scene.request("POST", f"{PATH}/{provider}/test", by=starter)).ok()["url"].removeprefix(BASE_URL)
    form = PageReader((await tabs.request("GET", started)).body).forms[0]
    left = await tabs.request("POST", form.action, form.fields)
    page = await tabs.request("GET", own(PageReader(left.body).refresh))
    (await scene.request("PATCH", f"/api/organizations/acme/members/{starter.user}", {"role": "member"})).ok()
    asked = len(scene.directory.passwords())
    assert (await scene.type(tabs, page, "ada", PASSWORD)).status == 400
    assert len(scene.directory.passwords()) == asked
