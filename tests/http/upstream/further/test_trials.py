"""A platform owner tests a further provider: it shows what came and what would happen, signs nobody in, and connects nothing."""

import pytest

from ops.browser.page_reader import PageReader
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.upstream.further.preset_providers import FakeApple
from tests.http.upstream.further.scene import PROVIDERS, FurtherScene
from tests.http.upstream.further.test_presets import PRESETS
from tests.http.upstream.scene import ADA


async def _walked(scene: FurtherScene, tabs: Tabs, preset: str) -> Received:
    at = f"/ui/test-provider/{preset}"
    asked = PageReader((await tabs.request("GET", at)).body)
    left = await scene.send(tabs, asked, at)
    fake = scene.fakes[preset]
    back = fake.consent(PageReader(left.body).refresh)
    return await tabs.request("GET", await scene.posted(fake, back) if isinstance(fake, FakeApple) else back)


@pytest.mark.parametrize("preset", PRESETS)
async def test_it_shows_what_came_and_does_nothing(scene: FurtherScene, preset: str) -> None:
    await scene.has(preset, enabled=False)
    tabs = scene.signed_in(scene.root)
    before = scene.people.rows("select id, user_id from sessions order by id")
    shown = await _walked(scene, tabs, preset)
    assert shown.status == 200, shown.body
    said = PageReader(shown.body).text
    assert "Test passed. The provider identified you." in said
    assert "1815" in said
    assert ADA in said
    assert "must enter an email address" in said
    assert scene.identities() == []
    assert scene.people.rows("select from newcomers") == []
    assert scene.people.rows("select id, user_id from sessions order by id") == before
    assert await scene.who(tabs) == scene.root.user


async def test_it_says_what_would_become_of_each(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.signed_in(scene.root)
    ada = scene.verified()
    assert b"must sign in to it first" in (await _walked(scene, tabs, "discord")).body
    (kept,) = scene.people.rows(
        "select coalesce(nullif(settings ->> 'issuer', ''), settings ->> 'profile_url') as url from further_providers"
    )
    scene.people.connect(ada, "discord", kept["url"], "1815")
    signs_in = await _walked(scene, tabs, "discord")
    assert b"is signed in to this account" in signs_in.body
    assert ADA in PageReader(signs_in.body).text
    scene.people.change("update users set deactivated_at = now() where id = %s", ada.user)
    assert b"is deactivated" in (await _walked(scene, tabs, "discord")).body


async def test_a_failure_says_why(scene: FurtherScene) -> None:
    fake = await scene.has("slack")
    fake.wrong = {"nonce": "another"}
    shown = await _walked(scene, scene.signed_in(scene.root), "slack")
    assert shown.status == 200
    assert b"another nonce" in shown.body


async def test_nobody_else_tests_or_sees_it(scene: FurtherScene) -> None:
    await scene.has("discord")
    ada = scene.people.proved(ADA)
    tabs = scene.signed_in(ada)
    for method in ("GET", "POST"):
        assert (await tabs.request(method, "/ui/test-provider/discord", {} if method == "POST" else None)).status in {403, 404}
    owner = scene.signed_in(scene.root)
    assert (await owner.request("GET", "/ui/test-provider/nobody")).status == 404
    at = "/ui/test-provider/discord"
    left = await scene.send(owner, PageReader((await owner.request("GET", at)).body), at)
    back = scene.fakes["discord"].consent(PageReader(left.body).refresh)
    # The right has gone meanwhile.
    scene.people.change("update users set is_platform_owner = false where id = %s", scene.root.user)
    gone = await owner.request("GET", back)
    assert gone.status == 400
    again = await owner.request("GET", back)
    assert again.header("location") == "/ui/platform/providers/discord"


async def test_one_of_the_three_has_no_test(scene: FurtherScene) -> None:
    owner = scene.signed_in(scene.root)
    assert (await owner.request("GET", "/ui/test-provider/codehost")).status == 404
    assert (await scene.request("GET", f"{PROVIDERS}/codehost", by=scene.root)).status == 404
