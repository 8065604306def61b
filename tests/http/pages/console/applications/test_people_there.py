"""People there, on pages: a connection is drafted, made active, planned and let go on; and each list has its words."""

from collections.abc import Iterator

import pytest

from ops.stand_ins.fake_far_side import FakeFarSide
from tests.http.pages.console.conftest import ConsoleScene


@pytest.fixture
def far() -> Iterator[FakeFarSide]:
    with FakeFarSide() as made:
        yield made


async def drafted(console: ConsoleScene, billing: str, far: FakeFarSide) -> str:
    console.log.remember(far.token)
    at = f"{billing}/people-there"
    await console.at(at)
    await console.submit(f"{at}/change", preset="generic", base_url=far.url, token=far.token)
    return at


async def step(console: ConsoleScene) -> None:
    """What is due now."""
    keeping = console.postern.federation.provisioning_keeping
    console.people.change("update provisioning_connections set leased_until = null")
    for work in await keeping.claim_due(10):
        await keeping.run(work)


async def test_an_owner_connects_and_people_arrive(console: ConsoleScene, billing: str, far: FakeFarSide) -> None:
    assert f"/ui/o/acme{billing}/people-there" in (await console.at(f"{billing}/access")).page.links
    tab = await console.at(f"{billing}/people-there")
    assert "People are sent nowhere" in tab.page.text
    at = await drafted(console, billing, far)
    assert "Draft" in console.tab.page.text
    assert far.token not in console.tab.page.text
    await console.at(f"{at}/activate")
    assert far.url in console.tab.page.text
    tab = await console.submit(f"{at}/activate")
    assert "Active" in tab.page.text
    await step(console)
    (run,) = console.people.rows("select id from provisioning_runs")
    tab = await console.at(f"{at}/runs/{run['id']}")
    assert "Nothing of this is done yet" in tab.page.text
    assert console.ada.email in tab.page.text
    assert far.writes() == []
    await console.at(f"{at}/runs/{run['id']}/go-on")
    await console.submit(f"{at}/runs/{run['id']}/go-on")
    await step(console)
    assert far.active() == {console.ada.email}
    assert console.ada.email in (await console.at(f"{at}/people")).page.text
    assert "POST /Users" in (await console.at(f"{at}/requests")).page.text
