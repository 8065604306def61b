"""A directory may let its people use our own pages, and no application (`ProxyRestriction`; the root of CVE-2026-92856)."""

from typing import Final

import pytest

from core.domain.errors import Forbidden
from core.domain.identity.devices import Client
from core.domain.secrets import Token
from tests.http.browsing import Tabs
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.federation.arriving import told
from tests.http.people import Person
from tests.http.upstream.scene import ADA

FORBIDS: Final = {
    "nobody": '<saml:ProxyRestriction Count="0"/>',
    "no number": '<saml:ProxyRestriction Count="-1"/>',
    "words": '<saml:ProxyRestriction Count="many"/>',
    "others": "<saml:ProxyRestriction><saml:Audience>https://another.example/sp</saml:Audience></saml:ProxyRestriction>",
    "both": '<saml:ProxyRestriction Count="3"><saml:Audience>https://another.example/sp</saml:Audience></saml:ProxyRestriction>',
}
ALLOWS: Final = {
    "none": "",
    "one more": '<saml:ProxyRestriction Count="1"/>',
    "empty": "<saml:ProxyRestriction/>",
    "us": "<saml:ProxyRestriction><saml:Audience>{us}</saml:Audience></saml:ProxyRestriction>",
}


async def came(scene: ConnectionScene, restriction: str) -> Tabs:
    provider = await scene.active()
    scene.directory.restriction = restriction.replace("{us}", f"https://id.example.org/saml/sp/{provider}")
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    assert tabs.session is not None
    (row,) = scene.people.rows("select id from users where email = %s", ADA)
    scene.allow(Person(row["id"], row["id"], ADA))
    return tabs


@pytest.mark.parametrize("restriction", FORBIDS.values(), ids=FORBIDS)
async def test_our_own_pages_are_open_and_no_application_is(scene: ConnectionScene, restriction: str) -> None:
    tabs = await came(scene, restriction)
    assert (await tabs.tab().open("/ui")).status == 200
    for prompts in ({}, {"prompt": "none"}):
        answer = told(await tabs.request("GET", scene.asking(**prompts)))
        assert (answer["error"], "identity provider" in answer["error_description"]) == ("access_denied", True)
    assert scene.codes() == []
    await scene.keep_recorded()
    (provider,) = scene.people.rows("select id from upstream_providers")
    (newest, *_) = (await scene.request("GET", f"{PATH}/{provider['id']}/exchanges")).ok()["exchanges"]
    check = next(one for one in newest["checks"] if one["name"] == "applications")
    assert newest["succeeded"] is True
    assert check["came"].startswith("ProxyRestriction"), check


@pytest.mark.parametrize("restriction", ALLOWS.values(), ids=ALLOWS)
async def test_without_such_a_restriction_applications_are_open(scene: ConnectionScene, restriction: str) -> None:
    tabs = await came(scene, restriction)
    assert "code" in told(await tabs.request("GET", scene.asking()))


async def test_the_way_straight_to_the_directory_leads_to_no_application_either(scene: ConnectionScene) -> None:
    provider = await scene.active()
    scene.directory.restriction = FORBIDS["nobody"]
    answer = await scene.arrive(scene.browser(), provider, scene.direct())
    assert (answer.status, "error=access_denied" in (answer.header("location") or "")) == (302, True), answer.body
    assert scene.codes() == []


async def test_a_later_sign_in_without_it_opens_them_again_and_one_with_it_closes_them(scene: ConnectionScene) -> None:
    tabs = await came(scene, FORBIDS["nobody"])
    (provider,) = scene.people.rows("select id from upstream_providers")
    for restriction, opens in (("", True), (FORBIDS["others"], False)):
        scene.directory.restriction = restriction
        await scene.arrive(tabs, str(provider["id"]))
        assert ("code" in told(await tabs.request("GET", scene.asking()))) is opens


async def test_no_device_is_let_in(scene: ConnectionScene) -> None:
    tabs = await came(scene, FORBIDS["nobody"])
    caller = await scene.postern.tenancy.callers.resolve_browser(Token(tabs.session or ""))
    assert caller is not None
    flow = scene.postern.federation.device_flow
    sent = await scene.unlimited.post("/auth/device/code", {"client_id": scene.client_id(scene.app), "org": "acme", "service": "app"})
    entered, _ = await flow.find_entered(sent.ok()["user_code"], caller.user)
    with pytest.raises(Forbidden, match="identity provider"):
        await flow.approve(entered.id, caller, Client("198.51.100.7", "Firefox"))
    assert scene.people.rows("select state from device_codes") == [{"state": "pending"}]
