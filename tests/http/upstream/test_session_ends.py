"""An organization's own provider of OpenID Connect says when the sessions that it opens shall end (`session_expiry`)."""

from time import time
from typing import Any, Final

import pytest

from tests.http.browsing import Tabs
from tests.http.signing_in import PASSWORD, enable_mfa
from tests.http.upstream.scene import ADA, UpstreamScene

HERS: Final = f"user_id = (select id from users where email = '{ADA}')"


async def arrived(scene: UpstreamScene, tabs: Tabs, expiry: Any, word: str = "") -> None:
    """Ada comes by the provider, whose ID token has this `session_expiry`."""
    fake = word or "own"
    scene.sits(word=fake)
    scene.fakes[fake].wrong["session_expiry"] = expiry
    await scene.go(tabs, word=word or await own(scene))


async def own(scene: UpstreamScene) -> str:
    rows = scene.people.rows("select id from upstream_providers")
    return str(rows[0]["id"]) if rows else await scene.own_provider()


def in_minutes(minutes: int) -> int:
    return int(time()) + 60 * minutes


def ends(scene: UpstreamScene) -> list[int]:
    """In minutes from now, one more than the provider said."""
    rows = scene.people.rows(
        f"select round(extract(epoch from ends_at - now()) / 60)::int as left, expires_at <= ends_at as whole from sessions where {HERS}"
    )
    assert all(row["whole"] for row in rows)
    return [row["left"] for row in rows]


async def test_the_browsers_session_ends_then_and_a_later_end_makes_none_longer(scene: UpstreamScene) -> None:
    tabs = scene.browser()
    await arrived(scene, tabs, in_minutes(120))
    assert ends(scene) == [121]
    await arrived(scene, tabs, in_minutes(30))
    assert ends(scene) == [31]
    await arrived(scene, tabs, in_minutes(600))
    assert ends(scene) == [31]
    scene.people.change(
        "update sessions set ends_at = ends_at - interval '32 minutes', expires_at = least(expires_at, ends_at - interval '32 minutes')"
    )
    assert await scene.who(tabs) is None
    # Nothing is kept by which a sign-out by SAML could name the session.
    assert scene.people.rows("select 1 from directory_sessions") == []


async def test_without_it_the_session_lasts_as_long_as_the_installation_lets_it(scene: UpstreamScene) -> None:
    for said in (None, in_minutes(60 * 24 * 3650)):
        tabs = scene.browser()
        await arrived(scene, tabs, said)
        assert tabs.session is not None
    assert min(ends(scene)) > 60 * 24


@pytest.mark.parametrize("said", [0, 1, "tomorrow", "1900000000", True, -5, 2**40, 1.5e300, [], {}], ids=str)
async def test_a_session_that_has_ended_there_and_a_value_that_is_no_moment_open_none(scene: UpstreamScene, said: Any) -> None:
    tabs = scene.browser()
    await arrived(scene, tabs, said)
    assert tabs.session is None
    assert ends(scene) == []


async def test_a_minute_is_left_to_the_clocks(scene: UpstreamScene) -> None:
    tabs = scene.browser()
    await arrived(scene, tabs, int(time()) - 30)
    assert tabs.session is not None
    assert ends(scene) in ([0], [1])


async def test_whoever_owes_the_second_factor_gets_a_session_with_that_end(scene: UpstreamScene) -> None:
    ada = await scene.people.with_password(PASSWORD, ADA)
    totp = await enable_mfa(scene.unlimited, scene.people, ada)
    scene.people.change("delete from sessions")
    tabs = scene.browser()
    scene.sits(word="own")
    scene.fakes["own"].wrong["session_expiry"] = in_minutes(30)
    answer = await scene.go(tabs, word=await own(scene))
    tab = await tabs.tab().open(answer.header("location") or "")
    assert tab.place.startswith("/ui/sign-in/second-factor")
    await tab.send(code=totp.now())
    assert tabs.session is not None
    assert ends(scene) == [31]


async def test_a_provider_of_the_installation_bounds_nothing(scene: UpstreamScene) -> None:
    tabs = scene.browser()
    await arrived(scene, tabs, in_minutes(30), word="websuite")
    assert tabs.session is not None
    assert min(ends(scene)) > 60 * 24
