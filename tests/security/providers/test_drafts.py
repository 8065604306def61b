"""A provider that nobody has tested is nobody's way in, whatever its maker says of `enabled`."""

from typing import Any, Final
from urllib.parse import urlencode

import pytest

from entrypoints import checks
from ops.browser.page_reader import PageReader
from tests.http.browsing import Tabs
from tests.http.client import Received, refused
from tests.http.upstream.further.scene import ADDRESS, CODE, PROVIDERS, FurtherScene
from tests.http.upstream.further.test_administration import PROFILE
from tests.http.upstream.scene import ADA

PAGES: Final = "/ui/platform/providers"
TEST: Final = "/ui/test-provider/profiles"
ONE: Final = f"{PROVIDERS}/profiles"


def body(scene: FurtherScene) -> dict[str, Any]:
    made = {**PROFILE, "scopes": ["profile"], **scene.of_preset("profiles"), "name": "Other"}
    del made["preset"], made["active"]
    return made


async def made_on_page(scene: FurtherScene) -> Tabs:
    """Root has added the provider as a person does. Returns Root's browser."""
    tabs = scene.signed_in(scene.root)
    told = {"kind": "oauth2", "authorization_url": body(scene)["authorization_url"]}
    form = PageReader((await tabs.request("GET", f"{PAGES}/~new?{urlencode(told)}")).body)
    sent = await scene.send(tabs, form, f"{PAGES}/~new", **body(scene))
    assert sent.status == 303, sent.body
    scene.seats("profiles")
    return tabs


async def walked(scene: FurtherScene, tabs: Tabs) -> Received:
    """The page at which Root's test ends."""
    left = await scene.send(tabs, PageReader((await tabs.request("GET", TEST)).body), TEST)
    return await tabs.request("GET", scene.fakes["profiles"].consent(PageReader(left.body).refresh))


async def made_active(scene: FurtherScene, tabs: Tabs) -> Received:
    at = f"{PAGES}/profiles/activate"
    return await scene.send(tabs, PageReader((await tabs.request("GET", at)).body), at)


async def record(scene: FurtherScene) -> dict[str, Any]:
    found: dict[str, Any] = (await scene.request("GET", ONE, by=scene.root)).ok()
    return found


async def offered(scene: FurtherScene, place: str = "/ui/sign-in") -> bool:
    page = await scene.browser().tab().open(place)
    return any(link.startswith("/auth/profiles") for link in page.page.links)


async def test_what_is_made_on_a_page_is_live_for_nobody(scene: FurtherScene) -> None:
    await made_on_page(scene)
    assert not await offered(scene)
    assert not await offered(scene, scene.asking())
    assert (await record(scene))["state"] == "draft"
    strangers = scene.browser()
    answers = [await strangers.request("GET", f"/auth/{name}") for name in ("profiles", "nobodys1")]
    assert [one.status for one in answers] == [404, 404]
    shown = [PageReader(one.body).text for one in answers]
    assert shown[0] == shown[1]
    # In a flow that began in this browser, too, and in one that leads to an application.
    tab = await scene.browser().tab().open(scene.asking())
    flow = next(link for link in tab.page.links if "flow=" in link).partition("flow=")[2].partition("&")[0]
    for name in ("profiles", "nobodys1"):
        assert (await tab.tabs.request("GET", f"/auth/{name}?flow={flow}")).status == 404
    assert scene.people.rows("select from identities") == []


async def test_it_links_nobody_and_stands_in_no_list(scene: FurtherScene) -> None:
    await made_on_page(scene)
    ada = scene.verified()
    tabs = scene.signed_in(scene.people.session_of(ada))
    page = await tabs.request("GET", "/ui/settings/connections")
    assert b"profiles" not in page.body
    assert (await checks.further_providers(scene.postern)).is_used is False
    await scene.has("discord")
    discord = PageReader((await tabs.request("GET", "/ui/settings/connections/discord/connect")).body)
    fields = next(one for one in discord.forms if one.action.endswith("/connect")).fields
    for name in ("profiles", "nobodys1"):
        asked = f"/ui/settings/connections/{name}/connect"
        assert (await tabs.request("GET", asked)).status == 400
        sent = await tabs.request("POST", asked, fields)
        assert sent.status == 400
        assert b"This sign-in method does not exist" in sent.body
    by = scene.people.session_of(ada)
    gone = [await scene.request("DELETE", f"/api/user/identities/{name}", by=by) for name in ("profiles", "nobodys1")]
    assert [refused(one) for one in gone] == [(400, "BAD_REQUEST")] * 2
    assert gone[0].json()["error"] == gone[1].json()["error"]
    assert scene.identities() == []


async def test_after_a_test_an_owner_makes_it_active(scene: FurtherScene) -> None:
    tabs = await made_on_page(scene)
    before = await scene.request("POST", f"{ONE}/activate", {"digest": (await record(scene))["digest"]}, by=scene.root)
    assert refused(before) == (400, "BAD_REQUEST")
    shown = await walked(scene, tabs)
    assert shown.status == 200, shown.body
    assert b"Activate it if this result is correct" in shown.body
    assert not await offered(scene)
    assert (await record(scene))["test"] == "passed"
    done = await made_active(scene, tabs)
    assert done.status == 303, done.body
    found = await record(scene)
    assert (found["state"], found["enabled"], found["test"]) == ("active", True, "passed")
    assert await offered(scene)
    newcomer = scene.browser()
    await scene.register(newcomer, await scene.asked(newcomer, await scene.come(newcomer, "profiles")))
    assert await scene.who(newcomer) is not None
    assert [one["action"] for one in scene.audited("platform.provider.%")] == [
        *("platform.provider.created", "platform.provider.tested", "platform.provider.activated")
    ]
    assert scene.audited("platform.provider.activated")[0]["details"]["how"] == "test"


async def test_a_test_that_fails_opens_nothing(scene: FurtherScene) -> None:
    tabs = await made_on_page(scene)
    del scene.fakes["profiles"].person["id"]
    assert b"Test failed" in (await walked(scene, tabs)).body
    assert (await record(scene))["test"] == "untested"
    at = f"{PAGES}/profiles/activate"
    assert at not in PageReader((await tabs.request("GET", f"{PAGES}/profiles")).body).links
    assert at not in {one.action for one in PageReader((await tabs.request("GET", at)).body).forms}
    assert scene.audited("platform.provider.tested")[0]["details"]["succeeded"] is False


async def test_a_test_counts_for_what_was_tested(scene: FurtherScene) -> None:
    """The settings change between the look and the press, and after the test."""
    tabs = await made_on_page(scene)
    await walked(scene, tabs)
    seen = (await record(scene))["digest"]
    moved = await scene.request("PATCH", ONE, {"scopes": ["more"]}, by=scene.root)
    assert (moved.json()["state"], moved.json()["test"]) == ("draft", "before_change")
    assert refused(await scene.request("POST", f"{ONE}/activate", {"digest": seen}, by=scene.root)) == (409, "CONFLICT")
    now = (await record(scene))["digest"]
    assert refused(await scene.request("POST", f"{ONE}/activate", {"digest": now}, by=scene.root)) == (400, "BAD_REQUEST")
    assert not await offered(scene)


async def test_a_change_during_the_test_makes_it_count_for_nothing(scene: FurtherScene) -> None:
    tabs = await made_on_page(scene)
    left = await scene.send(tabs, PageReader((await tabs.request("GET", TEST)).body), TEST)
    back = scene.fakes["profiles"].consent(PageReader(left.body).refresh)
    waits = scene.fakes["profiles"]
    original = waits.about

    def about(path: str, person: Any) -> Any:
        # Another owner changes the settings while the provider answers.
        scene.people.change('update further_providers set settings = settings || \'{"email": "mail"}\'')
        return original(path, person)

    waits.about = about  # type: ignore[method-assign]
    shown = await tabs.request("GET", back)
    assert b"was changed during the test. Test it again" in shown.body
    assert (await record(scene))["test"] == "untested"


async def test_a_change_of_an_active_one_keeps_it_and_says_so(scene: FurtherScene) -> None:
    tabs = await made_on_page(scene)
    await walked(scene, tabs)
    await made_active(scene, tabs)
    changed = await scene.request("PATCH", ONE, {"scopes": ["more"]}, by=scene.root)
    assert (changed.json()["state"], changed.json()["enabled"], changed.json()["test"]) == ("active", True, "before_change")
    shown = PageReader((await tabs.request("GET", f"{PAGES}/profiles")).body).text
    assert "Tested before the last change" in shown
    assert await offered(scene)
    as_before = await scene.request("PATCH", ONE, {"scopes": ["profile"]}, by=scene.root)
    assert as_before.json()["test"] == "passed"
    anew = await scene.request("PATCH", ONE, {"client_secret": scene.fakes["profiles"].client_secret}, by=scene.root)
    assert anew.json()["test"] == "before_change"
    await walked(scene, tabs)
    assert (await record(scene))["test"] == "passed"
    named = await scene.request("PATCH", ONE, {"name": "Forum", "position": 3}, by=scene.root)
    assert named.json()["test"] == "passed"


async def test_a_request_makes_an_active_one_only_by_saying_so(scene: FurtherScene) -> None:
    said = await scene.add({**body(scene), "enabled": True})
    assert said.status == 201, said.body
    assert (said.json()["state"], said.json()["enabled"]) == ("draft", False)
    assert not await offered(scene)
    turned = await scene.request("PATCH", ONE, {"enabled": True}, by=scene.root)
    assert refused(turned) == (400, "BAD_REQUEST")
    assert turned.json()["error"].startswith("enabled: the provider is a draft")
    assert scene.audited("platform.provider.activated") == []
    active = await scene.request("PATCH", ONE, {"active": True}, by=scene.root)
    assert (active.json()["state"], active.json()["enabled"], active.json()["test"]) == ("active", True, "untested")
    (told,) = scene.audited("platform.provider.activated")
    assert (told["details"]["how"], told["details"]["test"]) == ("request", "untested")
    assert await offered(scene)
    off = await scene.request("PATCH", ONE, {"enabled": False}, by=scene.root)
    assert (off.json()["state"], off.json()["enabled"]) == ("active", False)
    back = await scene.request("PATCH", ONE, {"active": False}, by=scene.root)
    assert (back.json()["state"], back.json()["enabled"]) == ("draft", False)
    assert (await scene.browser().request("GET", "/auth/profiles")).status == 404


async def test_whoever_is_on_the_way_when_it_becomes_a_draft_comes_to_nothing(scene: FurtherScene) -> None:
    await made_on_page(scene)
    await scene.request("PATCH", ONE, {"active": True}, by=scene.root)
    tabs, other = scene.browser(), scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "profiles"))
    sent = await scene.send(tabs, page, ADDRESS, email=ADA)
    asks = PageReader((await tabs.request("GET", sent.header("location") or "")).body)
    code = await scene.mailed_code()
    back = scene.fakes["profiles"].consent(await scene.leave(other, word="profiles"))
    await scene.request("PATCH", ONE, {"active": False}, by=scene.root)
    assert (await scene.send(tabs, asks, CODE, code=code)).status == 400
    flow = next(one.fields["flow"] for one in page.forms if "flow" in one.fields)
    for step in (ADDRESS, CODE):
        assert (await tabs.request("GET", f"{step}?flow={flow}")).status == 400
    assert (await other.request("GET", back)).status == 400
    assert scene.people.rows("select from users where email = %s", ADA) == []
    assert scene.identities() == []


@pytest.mark.parametrize("who", ["nobody", "another owner"])
async def test_only_the_browser_that_tests_it_comes_back(scene: FurtherScene, who: str) -> None:
    tabs = await made_on_page(scene)
    left = await scene.send(tabs, PageReader((await tabs.request("GET", TEST)).body), TEST)
    back = scene.fakes["profiles"].consent(PageReader(left.body).refresh)
    other = scene.browser() if who == "nobody" else scene.signed_in(scene.people.add("eve@platform.example", platform_owner=True))
    assert (await other.request("GET", back)).status == 400
    assert (await record(scene))["test"] == "untested"
    assert b"Test passed. The provider identified you" in (await tabs.request("GET", back)).body


async def test_others_may_neither_activate_nor_see_it(scene: FurtherScene) -> None:
    await made_on_page(scene)
    digest = (await record(scene))["digest"]
    boss = scene.resident(scene.acme, "owner")
    assert (await scene.request("POST", f"{ONE}/activate", {"digest": digest}, by=boss)).status == 403
    assert (await scene.request("GET", ONE, by=boss)).status == 403
    scene.people.change("update sessions set proved_at = now() - interval '1 day' where id = %s", scene.root.session)
    stale = await scene.request("POST", f"{ONE}/activate", {"digest": digest}, by=scene.root)
    assert (stale.status, stale.error_code) == (401, "REAUTHENTICATION_REQUIRED")
    assert (await scene.request("POST", f"{PROVIDERS}/nobodys1/activate", {"digest": digest}, by=scene.root)).status in {401, 404}
