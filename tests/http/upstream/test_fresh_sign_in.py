"""If a person has to sign in again, the provider is asked for a fresh sign-in, and its time of the sign-in counts."""

from time import time
from typing import Any, Final

import pytest

from tests.http.browsing import Tabs
from tests.http.federation.arriving import is_page
from tests.http.people import Person
from tests.http.upstream.scene import UpstreamScene

AGAIN: Final = {
    "own": ("login", "0"),
    "officesuite": ("login", "0"),
    "websuite": ("select_account", None),
    "codehost": ("select_account", None),
}
NOT_AGAIN: Final = (None, None)
LONG_AGO: Final = 3600.0


async def at_provider(scene: UpstreamScene, word: str, tabs: Tabs, place: str) -> str:
    """Goes to the provider from a page of ours that asks to sign in."""
    provider = await scene.own_provider() if word == "own" else word
    tab = await tabs.tab().open(place)
    flow = tab.place.partition("flow=")[2]
    assert flow, tab.place
    return await scene.leave(tabs, f"?flow={flow}", word=provider)


def signed_in(scene: UpstreamScene, person: Person, *, age: float) -> Tabs:
    scene.people.change("update sessions set revoked_at = now() where id = %s", person.session)
    return scene.signed_in(scene.people.session_of(person), age=age)


@pytest.mark.parametrize("word", AGAIN)
@pytest.mark.parametrize(
    ("asked", "is_here", "again"),
    [
        ({}, False, False),
        ({"prompt": "login"}, False, True),
        ({"prompt": "login"}, True, True),
        ({"prompt": "login consent"}, False, True),
        ({"max_age": "60"}, False, True),
        ({"max_age": "60"}, True, True),
    ],
)
async def test_the_provider_is_asked_for_what_the_application_asks(
    scene: UpstreamScene, word: str, asked: dict[str, str], *, is_here: bool, again: bool
) -> None:
    ada = scene.verified()
    scene.sits(word=word)
    tabs = signed_in(scene, ada, age=600) if is_here else scene.browser()
    scene.fakes[word].consent(await at_provider(scene, word, tabs, scene.asking(**asked)))
    sent = scene.fakes[word].asked
    assert (sent.get("prompt"), sent.get("max_age")) == (AGAIN[word] if again else NOT_AGAIN)


@pytest.mark.parametrize("word", AGAIN)
async def test_the_provider_is_asked_where_a_page_of_ours_needs_a_fresh_proof(scene: UpstreamScene, word: str) -> None:
    ada = scene.verified(password=False)
    scene.sits(word=word)
    tabs = signed_in(scene, ada, age=LONG_AGO)
    scene.fakes[word].consent(await at_provider(scene, word, tabs, "/ui/sign-in?again=yes&to=/ui/settings/connections"))
    sent = scene.fakes[word].asked
    assert (sent.get("prompt"), sent.get("max_age")) == AGAIN[word]


@pytest.mark.parametrize("word", ["own", "officesuite", "websuite"])
@pytest.mark.parametrize(
    ("asked", "auth_time", "counts"),
    [
        ({"prompt": "login"}, LONG_AGO, False),
        ({"prompt": "login"}, 0, True),
        ({"prompt": "login"}, None, True),
        ({"prompt": "login"}, "whenever", False),
        ({"prompt": "login", "max_age": "7200"}, LONG_AGO, False),
        ({"max_age": "60"}, LONG_AGO, False),
        ({"max_age": "7200"}, LONG_AGO, True),
        ({"max_age": "9999999999"}, LONG_AGO, True),
        ({}, LONG_AGO, True),
        ({}, "whenever", True),
    ],
)
async def test_a_sign_in_there_that_was_too_long_ago_does_not_count(
    scene: UpstreamScene, word: str, asked: dict[str, str], auth_time: Any, *, counts: bool
) -> None:
    ada = scene.verified()
    fake = scene.sits(word=word)
    tabs = scene.browser()
    leaving = await at_provider(scene, word, tabs, scene.asking(**asked))
    fake.wrong["auth_time"] = int(time() - auth_time) if isinstance(auth_time, float | int) else auth_time
    answer = await tabs.request("GET", fake.consent(leaving))
    if counts:
        assert await scene.who(tabs) == ada.user
    else:
        is_page(answer, 502, "did not sign you in" if word == "own" else "Signing in at the provider failed")
        assert tabs.session is None
        assert scene.people.rows("select from identities") == []
