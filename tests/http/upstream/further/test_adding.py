"""A platform owner adds a further provider on the console's pages: tiles, what this one needs, its test, and then it shows."""

import re
from typing import Final
from urllib.parse import urlencode

import pytest

from ops.browser.page_reader import PageReader
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.people import BASE_URL
from tests.http.upstream.further.preset_providers import APPLE_PEM, KEY_ID, TEAM, FakeApple
from tests.http.upstream.further.scene import PROVIDERS, FurtherScene
from tests.http.upstream.further.test_presets import PRESETS
from tests.http.upstream.scene import ADA

PAGES: Final = "/ui/platform/providers"
NEW: Final = f"{PAGES}/~new"
APPLE: Final = {"team_id": TEAM, "key_id": KEY_ID, "client_secret": APPLE_PEM}


def in_sight(page: bytes) -> set[str]:
    """The fields of the form that is sent, without those that stand folded."""
    form = page.decode().partition(f'<form method="post" action="{NEW}"')[2].partition("</form>")[0]
    seen = form.partition("<details")[0] + form.rpartition("</details>")[2]
    return set(re.findall(r'<(?:input|textarea|select) id="[^"]*" name="([^"]*)"', seen))


async def opened(tabs: Tabs, **told: str) -> Received:
    return await tabs.request("GET", f"{NEW}?{urlencode(told)}" if told else NEW)


async def added(scene: FurtherScene, tabs: Tabs, preset: str) -> str:
    """Adds the provider by its tile, with nothing but what is in sight and the addresses of the provider here. Returns its record."""
    page = await opened(tabs, preset=preset)
    given = {name: value for name, value in scene.of_preset(preset).items() if name != "preset"}
    sent = await scene.send(tabs, PageReader(page.body), NEW, **given)
    assert sent.status == 303, sent.body
    return str(sent.header("location"))


async def test_the_first_page_has_a_tile_for_each_preset_and_no_mark_of_others(scene: FurtherScene) -> None:
    tabs = scene.signed_in(scene.root)
    assert NEW in PageReader((await tabs.request("GET", PAGES)).body).links
    page = await opened(tabs)
    read = PageReader(page.body)
    assert {f"{NEW}?preset={preset}" for preset in PRESETS} <= set(read.links)
    tiles = page.body.decode().partition('<ul class="tiles">')[2].partition("</ul>")[0]
    assert "<img" not in tiles
    assert "<svg" not in tiles
    said = ("Apple", "Discord", "GitLab", "Other provider (OpenID Connect)", "Issuer", "Other provider (OAuth 2.0)")
    assert [one for one in said if one not in read.text] == []


@pytest.mark.parametrize(
    ("told", "asked", "key"),
    [
        ({"preset": "gitlab"}, {"client_id", "client_secret"}, "gitlab"),
        ({"preset": "discord"}, {"client_id", "client_secret"}, "discord"),
        ({"preset": "apple"}, {"client_id", "client_secret", "team_id", "key_id"}, "apple"),
        ({"kind": "openid", "issuer": "https://login.acme.example"}, {"issuer", "client_id", "client_secret"}, "login-acme-example"),
        (
            {"kind": "oauth2", "authorization_url": "https://10.1.2.3/authorize"},
            {"client_id", "client_secret", "authorization_url", "token_url", "profile_url", "subject"},
            "at-10-1-2-3",
        ),
        ({"kind": "openid", "issuer": "https://openid"}, {"issuer", "client_id", "client_secret"}, "at-openid"),
    ],
)
async def test_the_second_page_asks_for_what_this_one_needs(scene: FurtherScene, told: dict[str, str], asked: set[str], key: str) -> None:
    page = await opened(scene.signed_in(scene.root), **told)
    assert page.status == 200
    assert in_sight(page.body) == asked
    assert f"{BASE_URL}/auth/{key}/callback" in page.body.decode()
    form = next(one for one in PageReader(page.body).forms if one.action == NEW)
    assert form.fields["key"] == key


@pytest.mark.parametrize("preset", PRESETS)
async def test_from_the_tile_to_the_sign_in_page(scene: FurtherScene, preset: str) -> None:
    tabs = scene.signed_in(scene.root)
    at = await added(scene, tabs, preset)
    assert at.partition("?")[0] == f"{PAGES}/{preset}"
    record = await tabs.request("GET", at)
    read = PageReader(record.body)
    assert "added as a draft" in read.text
    test = f"/ui/test-provider/{preset}"
    assert f'class="button" href="{test}"' in record.body.decode()
    assert f"{PAGES}/{preset}/activate" not in read.links

    async def is_offered() -> bool:
        page = await scene.browser().tab().open("/ui/sign-in")
        return any(link.startswith(f"/auth/{preset}") for link in page.page.links)

    assert not await is_offered()
    fake = scene.seats(preset)
    left = await scene.send(tabs, PageReader((await tabs.request("GET", test)).body), test)
    back = fake.consent(PageReader(left.body).refresh)
    shown = await tabs.request("GET", await scene.posted(fake, back) if isinstance(fake, FakeApple) else back)
    assert ADA in PageReader(shown.body).text
    assert not await is_offered()
    active = f"{PAGES}/{preset}/activate"
    assert active in PageReader(shown.body).links
    done = await scene.send(tabs, PageReader((await tabs.request("GET", active)).body), active)
    assert done.status == 303, done.body
    assert await is_offered()


async def test_a_second_one_of_a_preset_has_a_short_name_of_its_own(scene: FurtherScene) -> None:
    tabs = scene.signed_in(scene.root)
    early = await opened(tabs, preset="gitlab")
    await added(scene, tabs, "gitlab")
    assert f"{BASE_URL}/auth/gitlab-2/callback" in (await opened(tabs, preset="gitlab")).body.decode()
    # The page was open before the first one was added, or is sent twice.
    given = {name: value for name, value in scene.of_preset("gitlab").items() if name != "preset"}
    again = await scene.send(tabs, PageReader(early.body), NEW, **given)
    assert again.status == 409, again.body
    assert f"{BASE_URL}/auth/gitlab-2/callback" in again.body.decode()
    assert '<a href="#key">' in again.body.decode()
    sent = await scene.send(tabs, PageReader(again.body), NEW, **given)
    assert sent.status == 303, sent.body
    listed = (await scene.request("GET", PROVIDERS, by=scene.root)).json()
    assert {one["key"] for one in listed} == {"gitlab", "gitlab-2"}
    assert {one["state"] for one in listed} == {"draft"}


async def test_any_issuer_and_any_addresses(scene: FurtherScene) -> None:
    tabs = scene.signed_in(scene.root)
    fake = scene.fakes["gitlab"]
    page = await opened(tabs, kind="openid", issuer=fake.issuer)
    client = {"client_id": fake.client_id, "client_secret": fake.client_secret}
    sent = await scene.send(tabs, PageReader(page.body), NEW, **client)
    assert sent.status == 303, sent.body
    profiles = scene.of_preset("profiles")
    page = await opened(tabs, kind="oauth2", authorization_url=profiles["authorization_url"])
    del profiles["preset"]
    sent = await scene.send(tabs, PageReader(page.body), NEW, **profiles)
    assert sent.status == 303, sent.body
    listed = (await scene.request("GET", PROVIDERS, by=scene.root)).json()
    assert {one["kind"] for one in listed} == {"openid", "oauth2"}
    assert [one["subject"] for one in listed if one["kind"] == "oauth2"] == ["id"]


async def test_what_is_missing_or_wrong_stands_at_its_field(scene: FurtherScene) -> None:
    tabs = scene.signed_in(scene.root)
    for told, at in (
        ({"kind": "openid", "issuer": ""}, "issuer"),
        ({"kind": "openid", "issuer": "https://["}, "issuer"),
        ({"kind": "oauth2", "authorization_url": "acme"}, "authorization_url"),
    ):
        page = await opened(tabs, **told)
        assert (page.status, f'<a href="#{at}">' in page.body.decode()) == (400, True), told
    for told, given, faults in (
        ({"preset": "gitlab"}, {}, {"client_id", "client_secret"}),
        ({"preset": "apple"}, {"client_id": "a", "client_secret": APPLE_PEM}, {"team_id", "key_id"}),
        ({"kind": "openid", "issuer": "https://login.example"}, {"issuer": ""}, {"issuer", "client_id", "client_secret"}),
        (
            {"kind": "oauth2", "authorization_url": "https://a.example"},
            {"client_id": "a", "client_secret": "b"},
            {"token_url", "profile_url"},
        ),
    ):
        page = await opened(tabs, **told)
        sent = await scene.send(tabs, PageReader(page.body), NEW, **given)
        assert sent.status == 400, told
        assert {one for one in faults if f'<a href="#{one}">' in sent.body.decode()} == faults, told
    assert (await scene.request("GET", PROVIDERS, by=scene.root)).json() == []


async def test_there_are_no_other_tiles_and_nobody_else_sees_them(scene: FurtherScene) -> None:
    tabs = scene.signed_in(scene.root)
    assert (await opened(tabs, preset="nobody")).status == 404
    form = PageReader((await opened(tabs, preset="gitlab")).body)
    assert (await scene.send(tabs, form, NEW, preset="nobody")).status == 404
    assert (await scene.send(tabs, form, NEW, preset="", kind="saml")).status == 400
    ada = scene.signed_in(scene.people.proved(ADA))
    assert (await opened(ada, preset="gitlab")).status in {403, 404}
    token = next(one for one in form.forms if one.action == NEW).fields
    assert (await ada.request("POST", NEW, {**token, "client_id": "a", "client_secret": "b"})).status in {403, 404}
    assert (await scene.request("GET", PROVIDERS, by=scene.root)).json() == []
