"""Choosing an account at the provider that an application's own page leads to counts as consent. Nothing else does."""

from typing import Any

import pytest

from tests.http.federation.arriving import CALLBACK, answer_in
from tests.http.signing_in import PASSWORD
from tests.http.upstream.scene import ADA, UpstreamScene, told_in
from tests.http.upstream.test_awaiting_second_factor import awaiting, connected
from tests.http.upstream.test_led_by_domain import own


def consents(scene: UpstreamScene) -> list[Any]:
    return [one["scopes"] for one in scene.people.rows("select scopes from consents")]


def recorded(scene: UpstreamScene) -> int:
    return [one["name"] for one in scene.told("events")].count("user.consent.given")


@pytest.mark.parametrize("word", ["codehost", "websuite", "officesuite"])
async def test_whoever_chooses_an_account_there_consents(scene: UpstreamScene, word: str) -> None:
    scene.sits(word=word)
    answer = await scene.go(scene.browser(), scene.direct(), word=word)
    assert told_in(answer.header("location"))[0] == CALLBACK
    assert consents(scene) == [["openid", "profile", "email", "provider_token"]]


async def test_so_does_whoever_goes_to_the_organizations_own_by_the_button(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    scene.sits(word="own")
    answer = await scene.go(scene.browser(), scene.direct(), word=provider)
    assert told_in(answer.header("location"))[0] == CALLBACK
    assert len(consents(scene)) == 1


async def test_so_does_whoever_gives_a_second_factor_after_it(scene: UpstreamScene) -> None:
    _, totp = await connected(scene, "websuite")
    tabs, tab = await awaiting(scene, "websuite", scene.direct())
    assert consents(scene) == []
    await tab.send(code=totp.now())
    assert answer_in(tab.page.refresh, CALLBACK)["code"]
    assert len(consents(scene)) == 1
    assert tabs.session is not None


async def test_a_password_in_a_session_that_a_provider_began_is_no_consent(scene: UpstreamScene) -> None:
    await scene.people.with_password(PASSWORD, ADA)
    fake = scene.sits()
    tabs = scene.browser()
    await scene.go(tabs)
    place = fake.consent(await scene.leave(tabs, scene.direct()))
    fake.fails = True
    tab = await tabs.tab().open(place)
    tab = await tab.send(email=ADA)
    tab = await tab.send(password=PASSWORD)
    assert scene.people.rows("select authenticated_by from sessions") == [{"authenticated_by": ["fed", "pwd"]}]
    assert tab.place.startswith("/ui/consent")
    assert consents(scene) == []


async def test_another_of_the_three_is_no_consent(scene: UpstreamScene) -> None:
    scene.verified()
    scene.sits(word="codehost")
    fake = scene.sits()
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs, scene.direct()))
    fake.fails = True
    tab = await tabs.tab().open(place)
    (other,) = [link for link in tab.page.links if link.startswith("/auth/codehost")]
    answer = await tabs.request("GET", other)
    answer = await tabs.request("GET", scene.fakes["codehost"].consent(answer.header("location") or ""))
    assert (answer.status, (answer.header("location") or "").partition("?")[0]) == (303, "/ui/consent")
    assert consents(scene) == []


@pytest.mark.parametrize("kind", ["one of the three", "another organization's own"])
async def test_the_provider_of_ones_own_domain_is_no_consent_to_somebody_elses_application(scene: UpstreamScene, kind: str) -> None:
    """On that way the person chooses nothing, and no page of ours comes before the provider."""
    await own(scene)
    scene.verified()
    evil = scene.tenants.add("evil")
    scene.application(evil, "game", "https://evil.example/callback")
    word = "websuite"
    if kind != "one of the three":
        boss, fake = scene.resident(evil, "owner", "boss"), scene.fakes["own"]
        body = {"name": "Evil login", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
        made = await scene.request("POST", "/api/organizations/evil/upstream-providers", body, by=boss)
        word = made.ok(201)["id"]
    tabs = scene.browser()
    asked = scene.direct("game", org="evil", redirect_uri="https://evil.example/callback", code_challenge="", code_challenge_method="")
    _, left = told_in(await scene.leave(tabs, asked, word=word))
    tab = await tabs.tab().open(f"/auth/{word}/callback?error=server_error&state={left['state']}")
    assert tab.status == 502
    tab = await tab.send(email=ADA)
    answer = await tabs.request("GET", tab.page.refresh)
    answer = await tabs.request("GET", scene.fakes["own"].consent(answer.header("location") or ""))
    assert (answer.status, (answer.header("location") or "").partition("?")[0]) == (303, "/ui/consent")
    assert consents(scene) == []


async def test_a_flow_that_a_process_of_the_release_before_has_signed_somebody_in_to_is_no_consent(scene: UpstreamScene) -> None:
    _, totp = await connected(scene, "websuite")
    _, tab = await awaiting(scene, "websuite", scene.direct())
    scene.people.change("""update flows set request = request || '{"through": "upstream"}'""")
    await tab.send(code=totp.now())
    assert tab.place.startswith("/ui/consent")


async def test_coming_back_twice_is_one_consent(scene: UpstreamScene) -> None:
    fake = scene.sits()
    tabs = scene.browser()
    place = fake.consent(await scene.leave(tabs, scene.direct()))
    for _ in range(2):
        assert told_in((await tabs.request("GET", place)).header("location"))[0] == CALLBACK
    assert len(consents(scene)) == 1
    assert recorded(scene) == 1
