"""Nobody gets an account of somebody else by a further provider that states the other's address."""

from typing import Final

import pytest

from ops.browser.page_reader import PageReader
from ops.stand_ins.fake_providers import FakeProvider
from tests.http.client import refused
from tests.http.upstream.further.preset_providers import FakeApple
from tests.http.upstream.further.scene import ADDRESS, CODE, PROVIDERS, FurtherScene
from tests.http.upstream.further.test_administration import OPENID
from tests.http.upstream.further.test_presets import PRESETS
from tests.http.upstream.scene import ADA

KINDS: Final = (*PRESETS, "company")


async def has_kind(scene: FurtherScene, kind: str) -> FakeProvider:
    if kind != "company":
        return await scene.has(kind)
    made = await scene.add({**OPENID, "issuer": scene.fakes["company"].issuer})
    assert made.status == 201, made.body
    return scene.seats("company")


@pytest.mark.parametrize("kind", KINDS)
async def test_without_the_code_there_is_no_account(scene: FurtherScene, kind: str) -> None:
    """The provider comes first, and the mailbox's owner after it."""
    await has_kind(scene, kind)
    evil = scene.browser()
    page = await scene.asked(evil, await scene.come(evil, kind))
    sent = await scene.send(evil, page, ADDRESS, email=ADA)
    assert sent.status == 303
    asks = PageReader((await evil.request("GET", sent.header("location") or "")).body)
    right = await scene.mailed_code()
    wrong = f"{(int(right) + 1) % 10**8:08}"
    for _ in range(5):
        answer = await scene.send(evil, asks, CODE, code=wrong)
        assert answer.status == 400
    # After five tries, the right one counts no more either.
    assert (await scene.send(evil, asks, CODE, code=right)).status == 400
    assert scene.people.rows("select from users where email = %s", ADA) == []
    assert scene.identities() == []
    assert await scene.who(evil) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("proved", [True, False])
async def test_an_account_comes_first_and_stays_its_owners(scene: FurtherScene, kind: str, proved: bool) -> None:
    """Also one that nobody has proved: whoever reads the mailbox signs in there first, as always."""
    ada = scene.verified() if proved else scene.people.add(ADA)
    await has_kind(scene, kind)
    before = scene.people.rows("select * from users where id = %s", ada.user)
    tabs = scene.browser()
    answer = await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, kind)))
    assert answer.status == 400
    assert await scene.who(tabs) is None
    assert scene.people.rows("select * from users where id = %s", ada.user) == before
    assert scene.identities() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_code_of_one_address_is_worth_nothing_for_another(scene: FurtherScene, kind: str) -> None:
    await has_kind(scene, kind)
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, kind))
    await scene.send(tabs, page, ADDRESS, email="mine@example.org")
    mine = await scene.mailed_code("mine@example.org")
    sent = await scene.send(tabs, page, ADDRESS, email=ADA)
    asks = PageReader((await tabs.request("GET", sent.header("location") or "")).body)
    assert (await scene.send(tabs, asks, CODE, code=mine)).status == 400
    assert scene.people.rows("select from users where email in (%s, 'mine@example.org')", ADA) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_an_identity_of_one_provider_is_none_of_another(scene: FurtherScene, kind: str) -> None:
    await has_kind(scene, kind)
    tabs = scene.browser()
    await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, kind)))
    other = "discord" if kind != "discord" else "slack"
    await scene.has(other)
    elsewhere = scene.browser()
    # The same subject, and the same address.
    await scene.asked(elsewhere, await scene.come(elsewhere, other))
    assert await scene.who(elsewhere) is None
    # The word of one of the three proves the address, so it connects as before.
    scene.sits(word="websuite", verified=True, hd="example.org")
    led = scene.browser()
    assert (await scene.go(led, word="websuite")).status == 303


@pytest.mark.parametrize("kind", KINDS)
async def test_a_browser_that_does_not_wait_there_gets_no_page(scene: FurtherScene, kind: str) -> None:
    await has_kind(scene, kind)
    tabs, other = scene.browser(), scene.browser()
    came = await scene.come(tabs, kind)
    place = came.header("location") or ""
    await other.request("GET", "/ui/sign-in")
    assert (await other.request("GET", place)).status == 400
    assert (await other.request("GET", place.replace(ADDRESS, CODE))).status == 400


async def test_the_provider_is_turned_off_while_the_code_is_on_its_way(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    sent = await scene.send(tabs, page, ADDRESS, email=ADA)
    asks = PageReader((await tabs.request("GET", sent.header("location") or "")).body)
    code = await scene.mailed_code()
    await scene.request("PATCH", f"{PROVIDERS}/discord", {"enabled": False}, by=scene.root)
    assert (await scene.send(tabs, asks, CODE, code=code)).status == 400
    assert scene.people.rows("select from users where email = %s", ADA) == []


async def test_the_answer_of_one_provider_is_none_for_another(scene: FurtherScene) -> None:
    """Mix-up: each provider has a way back of its own."""
    discord, slack = await scene.has("discord"), await scene.has("slack")
    tabs = scene.browser()
    back = discord.consent(await scene.leave(tabs, word="discord"))
    assert (await tabs.request("GET", back.replace("/auth/discord/", "/auth/slack/"))).status == 400
    assert slack.calls.count("/token authorization_code") == 0
    named = slack.consent(await scene.leave(tabs, word="slack"))
    assert (await tabs.request("GET", f"{named}&iss=https://evil.example")).status == 502


@pytest.mark.parametrize("wrong", [{"nonce": "another"}, {"iss": "https://evil.example"}, {"aud": "another"}, {"sub": None}, {"exp": 1}])
@pytest.mark.parametrize("kind", ["apple", "gitlab", "linkedin", "slack", "company"])
async def test_a_wrong_token_shows_nobody(scene: FurtherScene, kind: str, wrong: dict[str, object]) -> None:
    fake = await has_kind(scene, kind)
    fake.wrong = wrong
    tabs = scene.browser()
    assert (await scene.come(tabs, kind)).status == 502
    assert scene.people.rows("select from newcomers") == []


async def test_a_token_without_a_nonce_shows_nobody_but_at_linkedin(scene: FurtherScene) -> None:
    fake = await scene.has("gitlab")
    fake.wrong = {"nonce": None}
    assert (await scene.come(scene.browser(), "gitlab")).status == 502


async def test_a_profile_without_an_id_shows_nobody(scene: FurtherScene) -> None:
    fake = await scene.has("discord")
    del fake.person["id"]
    assert (await scene.come(scene.browser(), "discord")).status == 400


async def test_it_is_the_last_way_in_only_while_it_is_on(scene: FurtherScene) -> None:
    await scene.has("discord")
    await scene.has("slack")
    tabs = scene.browser()
    await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, "discord")))
    (account,) = scene.people.rows("select id from users where email = %s", ADA)
    (session,) = scene.people.rows("select id from sessions where user_id = %s", account["id"])
    assert session["id"] is not None
    asked = "/ui/settings/connections/discord/disconnect"
    page = PageReader((await tabs.request("GET", asked)).body)
    if not any(one.action == asked for one in page.forms):
        # A sign-in by a provider that states no time is no fresh proof.
        return
    answer = await scene.send(tabs, page, asked)
    assert answer.status == 400
    assert len(scene.identities()) == 1


async def test_an_unknown_key_is_refused_as_before(scene: FurtherScene) -> None:
    ada = scene.verified()
    answer = await scene.request("DELETE", "/api/user/identities/nobody", by=scene.people.session_of(ada))
    assert refused(answer) == (400, "BAD_REQUEST")
    assert not isinstance(scene.fakes["company"], FakeApple)
