"""What a provider tells of a person: the three of the installation fill what is empty, once; an organization's own fills nothing."""

from typing import Any, Final

import pytest

from core.domain.identifiers import UserId
from core.domain.identity.profiles import OwnProfileChange
from core.domain.record.events import SYSTEM
from tests.http.upstream.scene import UpstreamScene

TOLD: Final[dict[str, Any]] = {
    "name": "Ada Lovelace",
    "given_name": "Ada",
    "family_name": "Lovelace",
    "zoneinfo": "Europe/Vienna",
    "picture": "https://p.example/a",
}


def profile(scene: UpstreamScene) -> dict[str, Any]:
    columns = "name, given_name, family_name, zoneinfo, username, picture_id"
    (row,) = scene.people.rows(f"select {columns} from users where email = 'ada@example.org'")
    return row


@pytest.mark.parametrize("word", ["codehost", "websuite", "officesuite"])
async def test_the_first_sign_in_fills_an_empty_profile_and_later_ones_nothing(scene: UpstreamScene, word: str) -> None:
    scene.sits(word=word, **TOLD)
    await scene.go(scene.browser(), word=word)
    filled = profile(scene)
    assert filled["name"] == "Ada Lovelace"
    if word != "codehost":
        assert (filled["given_name"], filled["family_name"], filled["zoneinfo"]) == ("Ada", "Lovelace", "Europe/Vienna")
    assert (filled["username"], filled["picture_id"]) == (None, None)
    (event,) = scene.people.rows("select details from audit_log where action = 'user.profile.updated'")
    assert event["details"]["provider"] == word
    assert "name" in event["details"]["changed"]
    scene.sits(word=word, **{**TOLD, "name": "Eve"})
    scene.people.change("update users set name = null")
    await scene.go(scene.browser(), word=word)
    assert profile(scene)["name"] is None, "the person emptied it since"


async def test_what_stands_stays_when_a_provider_is_connected(scene: UpstreamScene) -> None:
    ada = scene.verified()
    await scene.postern.identity.profiles.change(UserId(ada.user), OwnProfileChange(given_name="Countess"), SYSTEM, username=None)
    scene.sits(**TOLD)
    await scene.go(scene.browser())
    assert {name: value for name, value in profile(scene).items() if value} == {"given_name": "Countess", "zoneinfo": "Europe/Vienna"}


async def test_an_account_that_nobody_had_proved_gets_the_names_of_its_owner(scene: UpstreamScene) -> None:
    squatter = scene.verified()
    await scene.postern.identity.profiles.change(UserId(squatter.user), OwnProfileChange(name="Squatter"), SYSTEM, username=None)
    scene.people.change("update users set email_verified_at = null where id = %s", squatter.user)
    scene.sits(**TOLD)
    await scene.go(scene.browser())
    assert profile(scene)["name"] == "Ada Lovelace"


async def test_an_organizations_own_provider_writes_nothing(scene: UpstreamScene) -> None:
    provider = await scene.own_provider()
    scene.verified()
    scene.sits(word="own", **TOLD)
    await scene.go(scene.browser(), "?org=acme", word=provider)
    assert len(scene.identities()) == 1
    assert set(profile(scene).values()) == {None}


async def test_a_name_that_cannot_be_shown_stops_no_sign_in(scene: UpstreamScene) -> None:
    scene.sits(name="a\u202eb", given_name=7, locale="tlh")
    answer = await scene.go(scene.browser())
    assert (answer.status, answer.header("location")) == (303, "/ui")
    assert set(profile(scene).values()) == {None}
