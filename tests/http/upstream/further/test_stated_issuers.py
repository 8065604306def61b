"""Providers of OAuth 2.0 whose issuer is stated, or is not: to whom people's ids belong, and which answers count."""

from ops.stand_ins.fake_providers import FakeProvider
from tests.http.upstream.further.preset_providers import FakeFacebook
from tests.http.upstream.further.scene import PROVIDERS, FurtherScene
from tests.http.upstream.further.test_administration import PROFILE
from tests.http.upstream.scene import ADA


async def test_another_version_of_facebook_disconnects_nobody(scene: FurtherScene) -> None:
    fake = await scene.has("facebook")
    assert isinstance(fake, FakeFacebook)
    tabs = scene.browser()
    await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, "facebook")))
    (identity,) = scene.identities()
    assert identity["issuer"] == "https://www.facebook.com"
    fake.at = "/v22.0/me"
    moved = await scene.request("PATCH", f"{PROVIDERS}/facebook", {"profile_url": f"{fake.url}{fake.at}"}, by=scene.root)
    assert moved.status == 200, moved.body
    again = scene.browser()
    assert (await scene.come(again, "facebook")).status == 303
    assert await scene.who(again) == identity["user_id"]


async def _profiles(scene: FurtherScene, **more: str) -> FakeProvider:
    body = {**PROFILE, **scene.of_preset("profiles"), "scopes": ["profile"], **more}
    del body["preset"]
    assert (await scene.add(body)).status == 201
    return scene.seats("profiles")


async def test_an_answer_that_names_another_issuer_than_the_stated_one_is_refused(scene: FurtherScene) -> None:
    fake = await _profiles(scene, issuer="https://a.example")
    tabs = scene.browser()
    back = fake.consent(await scene.leave(tabs, word="profiles"))
    assert (await tabs.request("GET", f"{back}&iss=https://evil.example")).status == 502
    assert scene.people.rows("select from newcomers") == []
    back = fake.consent(await scene.leave(tabs, word="profiles"))
    await scene.asked(tabs, await tabs.request("GET", f"{back}&iss=https://a.example"))


async def test_where_none_is_stated_the_state_and_the_way_back_say_whose_an_answer_is(scene: FurtherScene) -> None:
    fake, discord = await _profiles(scene), await scene.has("discord")
    tabs = scene.browser()
    back = discord.consent(await scene.leave(tabs, word="discord"))
    mixed = await tabs.request("GET", f"{back.replace('/auth/discord/', '/auth/profiles/')}&iss=https://a.example")
    assert mixed.status == 400
    assert scene.people.rows("select from newcomers") == []
    back = fake.consent(await scene.leave(tabs, word="profiles"))
    page = await scene.asked(tabs, await tabs.request("GET", f"{back}&iss=https://a.example"))
    await scene.register(tabs, page, ADA)
    (identity,) = scene.identities()
    assert identity["issuer"] == scene.of_preset("profiles")["profile_url"]
