"""An installation without any provider, as `make run` has it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from entrypoints.settings import SettingsError
from tests.http.conftest import NOWHERE, postern_on, with_keys
from tests.http.federation.arriving import is_page
from tests.http.upstream.scene import UpstreamScene


@pytest.fixture
async def postern(database_url: str, tmp_path: Path) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path) as opened:
        await with_keys(opened)
        yield opened


async def test_no_page_offers_any_and_none_can_be_used(scene: UpstreamScene) -> None:
    for place in ("/ui/sign-in", scene.asking()):
        tab = await scene.browser().tab().open(place)
        assert not any(link.startswith("/auth/") for link in tab.page.links)
    is_page(await scene.browser().request("GET", "/auth/codehost"), 400, "is not set up")
    assert scene.people.rows("select from oauth_states") == []


async def test_an_organization_with_a_client_of_its_own_offers_that_one(scene: UpstreamScene) -> None:
    boss = scene.resident(scene.acme, "owner", "boss")
    body = {"client_id": "acmes", "client_secret": "acmes-secret-808"}
    (await scene.request("POST", "/api/organizations/acme/oauth-credentials/codehost", body, by=boss)).ok()
    tab = await scene.browser().tab().open(scene.asking())
    assert [link.partition("?")[0] for link in tab.page.links if link.startswith("/auth/")] == ["/auth/codehost"]
    answer = await scene.browser().request("GET", "/auth/codehost?org=acme")
    assert answer.status == 302
    assert (answer.header("location") or "").startswith("https://github.com/login/oauth/authorize?response_type=code&client_id=acmes&")
    # It is acme's alone.
    is_page(await scene.browser().request("GET", "/auth/codehost"), 400, "is not set up")


@pytest.mark.parametrize("half", ["CLIENT_ID", "CLIENT_SECRET"])
async def test_half_a_client_is_a_mistake(tmp_path: Path, half: str) -> None:
    with pytest.raises(SettingsError, match="belong together"):
        async with postern_on(NOWHERE, tmp_path, {f"POSTERN_WEBSUITE_{half}": "x"}):
            pass
