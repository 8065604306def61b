"""Whoever has an account at a provider makes no failures of ours: what their profile says is their own matter."""

from typing import Any, Final

import pytest

from tests.http.upstream.further.scene import PROVIDERS, FurtherScene
from tests.http.upstream.further.test_administration import PROFILE
from tests.http.upstream.scene import ADA

ODD: Final[dict[str, Any]] = {
    "true": True,
    "null": None,
    "a fraction": 1.5,
    "a list": ["1815"],
    "empty": "",
    "long": "x" * 300,
    "an object": {"id": 1},
    "a surrogate": "\ud800",
    "a number without end": 10**400,
}
WHOLE: Final[dict[str, Any]] = {"an array": [1815], "a text": "1815", "very many values": {"id": "1", "badges": [0] * 4000}}


async def _came(scene: FurtherScene, profile: Any) -> Any:
    body = {**PROFILE, "scopes": ["profile"], **scene.of_preset("profiles")}
    del body["preset"]
    assert (await scene.add(body)).status == 201
    fake = scene.seats("profiles")
    fake.about = lambda path, person: profile  # type: ignore[method-assign]  # noqa: ARG005 - as the fake calls it
    tabs = scene.browser()
    came = await scene.come(tabs, "profiles")
    assert await scene.who(tabs) is None
    return came


@pytest.mark.parametrize("odd", [*ODD, *WHOLE])
async def test_an_odd_profile_is_a_page_and_no_failure(scene: FurtherScene, odd: str) -> None:
    came = await _came(scene, {"id": ODD[odd], "email": ADA} if odd in ODD else WHOLE[odd])
    assert came.status == 400, came.body
    assert b"did not send the information needed to identify you" in came.body
    assert scene.people.rows("select from newcomers") == []
    told = scene.postern.foundation.metrics.render().decode()
    assert 'sso_upstream_odd_profiles_total{provider="profiles"} 1.0' in told
    assert 'outcome="failed",provider="profiles"' not in told


async def test_a_provider_that_fails_is_a_failure_all_the_same(scene: FurtherScene) -> None:
    await scene.has("discord")
    scene.fakes["discord"].fails = True
    assert (await scene.come(scene.browser(), "discord")).status in {502, 503}
    assert "sso_upstream_odd_profiles_total{" not in scene.postern.foundation.metrics.render().decode()


async def test_whoever_connects_it_reads_why(scene: FurtherScene) -> None:
    await scene.has("discord")
    tabs = scene.signed_in(scene.people.session_of(scene.verified()))
    del scene.fakes["discord"].person["id"]
    assert "error=odd_profile" in await scene.link(tabs, "discord")
    assert (await scene.request("GET", f"{PROVIDERS}/discord", by=scene.root)).json()["people"] == 0
