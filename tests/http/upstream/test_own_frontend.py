"""After connecting an identity, a person gets back to the right page in an installation whose frontend is elsewhere."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import settings_of
from tests.http.conftest import postern_on, with_keys
from tests.http.upstream.linking.test_identities import Connecting
from tests.http.upstream.scene import CONNECTIONS, Fakes, UpstreamScene, told_in

FRONTEND = "https://console.example.com"


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, fakes: Fakes) -> AsyncIterator[Postern]:
    more = {**settings_of("websuite", fakes["websuite"]), "POSTERN_FRONTEND_URL": FRONTEND}
    async with postern_on(database_url, tmp_path, more) as opened:
        await with_keys(opened)
        yield opened


async def test_our_own_page_leads_back_to_itself(scene: UpstreamScene) -> None:
    fake = scene.sits()
    ada = scene.people.session_of(scene.verified())
    tabs = scene.signed_in(ada)
    for error in ("", "cancelled"):
        tab = await tabs.tab().open("/ui/settings/connections/websuite/connect")
        tab = await tab.send(len(tab.page.forms) - 1)
        place = fake.consent(tab.page.refresh)
        answer = await tabs.request("GET", fake.back(fake.asked, error="access_denied") if error else place)
        where, told = told_in(answer.header("location"))
        assert (where, told.get("error", "")) == (CONNECTIONS, error)


async def test_the_api_leads_back_to_the_frontend(scene: UpstreamScene) -> None:
    scene.sits()
    ada = scene.people.session_of(scene.verified())
    answer = await Connecting(scene, ada).come_back()
    assert told_in(answer.header("location"))[0] == f"{FRONTEND}/settings/connections"
    scene.people.change("delete from identities")
    scene.tenants.join(ada, scene.acme)
    token = await scene.tenants.token_in(ada, scene.acme)
    scene.people.change("update sessions set proved_at = now()")
    answer = await Connecting(scene, ada).come_back(token=token)
    assert told_in(answer.header("location"))[0] == f"{FRONTEND}/settings/connections"
