"""Each preset, against a provider that answers as its published documents say: registered, signed in, linked, unlinked, refused."""

from typing import Final

import pytest

from adapters.upstream.presets import ShippedPresets
from tests.http.upstream.further.preset_providers import APPLE_KEY, FakeApple
from tests.http.upstream.further.scene import FurtherScene
from tests.http.upstream.scene import ADA

PRESETS: Final = ("apple", "discord", "facebook", "gitlab", "linkedin", "slack")


def test_these_are_all() -> None:
    assert tuple(sorted(one.key for one in ShippedPresets().all())) == PRESETS


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_newcomer_gets_an_account_after_a_code_and_signs_in_again(scene: FurtherScene, preset: str) -> None:
    await scene.has(preset)
    first = scene.browser()
    page = await scene.asked(first, await scene.come(first, preset))
    assert page.inputs["email"]["value"] == ADA
    assert scene.people.rows("select from users where email = %s", ADA) == []
    done = await scene.register(first, page)
    assert done.status == 303, done.body
    (account,) = scene.people.rows("select id, email, email_verified_at, password_hash from users where email = %s", ADA)
    assert account["email_verified_at"] is not None
    assert account["password_hash"] is None
    assert await scene.who(first) == account["id"]
    (identity,) = scene.identities()
    assert (identity["user_id"], identity["provider"], identity["subject"]) == (account["id"], preset, "1815")
    assert scene.people.rows("select from newcomers") == []
    (named,) = scene.people.rows("select name, given_name from users where id = %s", account["id"])
    assert "Ada" in (named["name"] or named["given_name"])

    again = scene.browser()
    came = await scene.come(again, preset)
    assert came.status == 303, came.body
    assert await scene.who(again) == account["id"]
    assert len(scene.identities()) == 1


@pytest.mark.parametrize("preset", PRESETS)
async def test_an_account_that_is_there_is_never_connected_by_its_address(scene: FurtherScene, preset: str) -> None:
    owner = scene.people.proved(ADA)
    await scene.has(preset)
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, preset))
    refused = await scene.register(tabs, page)
    assert refused.status == 400
    assert b"An account with this email address already exists" in refused.body
    assert await scene.who(tabs) is None
    assert scene.identities() == []

    # Its owner signs in first, and connects the provider there.
    signed_in = scene.signed_in(owner)
    left = await signed_in.request("GET", "/ui/settings/connections")
    assert left.status == 200
    address = await scene.link(signed_in, preset)
    assert "status=success" in address
    (identity,) = scene.identities()
    assert identity["user_id"] == owner.user
    other = scene.browser()
    assert (await scene.come(other, preset)).status == 303
    assert await scene.who(other) == owner.user

    last = await scene.request("DELETE", f"/api/user/identities/{preset}", by=owner)
    assert last.status == 400
    scene.people.give_passkey(owner)
    gone = await scene.request("DELETE", f"/api/user/identities/{preset}", by=owner)
    assert gone.status == 204, gone.body
    assert scene.identities() == []


@pytest.mark.parametrize("preset", PRESETS)
async def test_who_says_no_there_is_told_so(scene: FurtherScene, preset: str) -> None:
    fake = await scene.has(preset)
    tabs = scene.browser()
    address = await scene.leave(tabs, word=preset)
    fake.consent(address)
    back = fake.back(fake.asked, error="access_denied")
    refused = await tabs.request("GET", back)
    assert refused.status == 400
    assert b"You did not finish signing in at the provider" in refused.body


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_code_works_once_and_in_its_browser(scene: FurtherScene, preset: str) -> None:
    fake = await scene.has(preset)
    tabs, other = scene.browser(), scene.browser()
    back = fake.consent(await scene.leave(tabs, word=preset))
    if isinstance(fake, FakeApple):
        back = await scene.posted(fake, back)
    stolen = await other.request("GET", back)
    assert stolen.status == 400
    assert (await tabs.request("GET", back)).status == 302
    assert scene.identities() == []


async def test_the_secret_of_apple_is_made_anew_for_each_request(scene: FurtherScene) -> None:
    fake = await scene.has("apple")
    assert isinstance(fake, FakeApple)
    for subject in ("1", "2"):
        tabs = scene.browser()
        await scene.asked(tabs, await scene.come(tabs, "apple", sub=subject, email=f"{subject}@example.org"))
    assert [one["aud"] for one in fake.secrets] == [fake.issuer] * 2
    assert all(form["client_secret"].count(".") == 2 for form in fake.forms)
    assert APPLE_KEY.key_size == 256
    (kept,) = scene.people.rows("select sealed_client_secret, settings from further_providers")
    assert b"PRIVATE KEY" not in bytes(kept["sealed_client_secret"])
    assert "PRIVATE" not in repr(kept["settings"])


async def test_apple_tells_the_name_once_and_the_form_fills_it(scene: FurtherScene) -> None:
    fake = await scene.has("apple")
    assert isinstance(fake, FakeApple)
    tabs = scene.browser()
    await scene.register(tabs, await scene.asked(tabs, await scene.come(tabs, "apple")))
    (told,) = scene.people.rows("select given_name, family_name from users where email = %s", ADA)
    assert (told["given_name"], told["family_name"]) == ("Ada", "Lovelace")
    assert (await scene.come(scene.browser(), "apple")).status == 303
    assert "user" not in fake.posted


async def test_a_posted_answer_waits_once_and_for_its_state(scene: FurtherScene) -> None:
    fake = await scene.has("apple")
    assert isinstance(fake, FakeApple)
    tabs = scene.browser()
    back = fake.consent(await scene.leave(tabs, word="apple"))
    # Without the form, the provider's own code is worth nothing.
    bare = await tabs.request("GET", f"{back}?code={fake.posted['code']}&state={fake.posted['state']}")
    assert bare.status == 502
    fake.posted = {**fake.posted, "state": "somebody-else"}
    location = await scene.posted(fake, back)
    assert "code=" not in location
    assert scene.people.rows("select from posted_answers") == []


async def test_an_unverified_address_of_discord_is_not_suggested(scene: FurtherScene) -> None:
    await scene.has("discord")
    scene.seats("discord", verified=False)
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "discord"))
    assert not page.inputs["email"].get("value")


async def test_somebody_without_an_address_says_one(scene: FurtherScene) -> None:
    await scene.has("facebook")
    scene.seats("facebook", email=None)
    tabs = scene.browser()
    page = await scene.asked(tabs, await scene.come(tabs, "facebook"))
    assert "did not provide a verified email address" in page.text
    assert (await scene.register(tabs, page, "typed@example.org")).status == 303
    (account,) = scene.people.rows("select email from users where email = 'typed@example.org'")
    assert account["email"] == "typed@example.org"
