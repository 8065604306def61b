"""Choosing an account at the provider that an application's own page leads to counts as consent. Nothing else does."""

from typing import Any

import pytest

from tests.http.federation.arriving import CALLBACK, answer_in
from tests.http.signing_in import PASSWORD
from tests.http.upstream.scene import ADA, UpstreamScene, told_in
from tests.http.upstream.test_awaiting_second_factor import awaiting, connected
from tests.http.upstream.test_led_by_domain import own


def consents(house: UpstreamScene) -> list[Any]:
    return [one["scopes"] for one in house.people.rows("select scopes from consents")]


def recorded(house: UpstreamScene) -> int:
    return [one["name"] for one in house.told("events")].count("user.consent.given")


@pytest.mark.parametrize("word", ["codehost", "websuite", "officesuite"])
async def test_whoever_chooses_an_account_there_consents(house: UpstreamScene, word: str) -> None:
    house.sits(word=word)
    answer = await house.go(house.browser(), house.direct(), word=word)
    assert told_in(answer.header("location"))[0] == CALLBACK
    assert consents(house) == [["openid", "profile", "email"]]


async def test_so_does_whoever_goes_to_the_organizations_own_by_the_button(house: UpstreamScene) -> None:
    provider = await house.own_provider()
    house.sits(word="own")
    answer = await house.go(house.browser(), house.direct(), word=provider)
    assert told_in(answer.header("location"))[0] == CALLBACK
    assert len(consents(house)) == 1


async def test_so_does_whoever_gives_a_second_factor_after_it(house: UpstreamScene) -> None:
    _, totp = await connected(house, "websuite")
    tabs, tab = await awaiting(house, "websuite", house.direct())
    assert consents(house) == []
    await tab.send(code=totp.now())
    assert answer_in(tab.page.refresh, CALLBACK)["code"]
    assert len(consents(house)) == 1
    assert tabs.session is not None


async def test_a_password_in_a_session_that_a_provider_began_is_no_consent(house: UpstreamScene) -> None:
    await house.people.with_password(PASSWORD, ADA)
    fake = house.sits()
    tabs = house.browser()
    await house.go(tabs)
    place = fake.consent(await house.leave(tabs, house.direct()))
    fake.fails = True
    tab = await tabs.tab().open(place)
    tab = await tab.send(email=ADA)
    tab = await tab.send(password=PASSWORD)
    assert house.people.rows("select authenticated_by from sessions") == [{"authenticated_by": ["fed", "pwd"]}]
    assert tab.place.startswith("/ui/consent")
    assert consents(house) == []


async def test_another_of_the_three_is_no_consent(house: UpstreamScene) -> None:
    house.verified()
    house.sits(word="codehost")
    fake = house.sits()
    tabs = house.browser()
    place = fake.consent(await house.leave(tabs, house.direct()))
    fake.fails = True
    tab = await tabs.tab().open(place)
    (other,) = [link for link in tab.page.links if link.startswith("/auth/codehost")]
    answer = await tabs.request("GET", other)
    answer = await tabs.request("GET", house.fakes["codehost"].consent(answer.header("location") or ""))
    assert (answer.status, (answer.header("location") or "").partition("?")[0]) == (303, "/ui/consent")
    assert consents(house) == []


@pytest.mark.parametrize("kind", ["one of the three", "another organization's own"])
async def test_the_provider_of_ones_own_domain_is_no_consent_to_somebody_elses_application(house: UpstreamScene, kind: str) -> None:
    """On that way the person chooses nothing, and no page of ours comes before the provider."""
    await own(house)
    house.verified()
    evil = house.tenants.add("evil")
    house.application(evil, "game", "https://evil.example/callback")
    word = "websuite"
    if kind != "one of the three":
        boss, fake = house.resident(evil, "owner", "boss"), house.fakes["own"]
        body = {"name": "Evil login", "issuer": fake.issuer, "client_id": fake.client_id, "client_secret": fake.client_secret}
        made = await house.request("POST", "/api/organizations/evil/upstream-providers", body, by=boss)
        word = made.ok(201)["id"]
    tabs = house.browser()
    asked = house.direct("game", org="evil", redirect_uri="https://evil.example/callback", code_challenge="", code_challenge_method="")
    _, left = told_in(await house.leave(tabs, asked, word=word))
    tab = await tabs.tab().open(f"/auth/{word}/callback?error=server_error&state={left['state']}")
    assert tab.status == 502
    tab = await tab.send(email=ADA)
    answer = await tabs.request("GET", tab.page.refresh)
    answer = await tabs.request("GET", house.fakes["own"].consent(answer.header("location") or ""))
    assert (answer.status, (answer.header("location") or "").partition("?")[0]) == (303, "/ui/consent")
    assert consents(house) == []


async def test_a_flow_that_a_process_of_the_release_before_has_signed_somebody_in_to_is_no_consent(house: UpstreamScene) -> None:
    _, totp = await connected(house, "websuite")
    _, tab = await awaiting(house, "websuite", house.direct())
    house.people.change("""update flows set request = request || '{"through": "upstream"}'""")
    await tab.send(code=totp.now())
    assert tab.place.startswith("/ui/consent")


async def test_coming_back_twice_is_one_consent(house: UpstreamScene) -> None:
    fake = house.sits()
    tabs = house.browser()
    place = fake.consent(await house.leave(tabs, house.direct()))
    for _ in range(2):
        assert told_in((await tabs.request("GET", place)).header("location"))[0] == CALLBACK
    assert len(consents(house)) == 1
    assert recorded(house) == 1
