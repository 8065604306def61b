"""The guide of two Posterns, walked by forms as a person walks it: the people of Acme arrive at another installation. The test counts what
is opened, pressed or filled in.
"""

import re
from pathlib import Path
from typing import Final

import pytest
import trio

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.places import ROOT
from tests.remote_systems.other_servers import OtherRemoteSystem, RemotePostern

GUIDE: Final = ROOT / "docs" / "guides" / "directories" / "people-there.md"
MOST_ACTIONS: Final = 12
STEPS: Final = 9
_STEP: Final = re.compile(r"^(\d+)\. ", re.MULTILINE)


@pytest.fixture
def console(postern: Postern, people: People, log: CapturedLog) -> ConsoleScene:
    return ConsoleScene(postern, people, unlimited(postern), log)


@pytest.fixture
def remote_console(remote_postern: RemotePostern, log: CapturedLog) -> ConsoleScene:
    """The owner of Customer in the browser, at the other installation."""
    scene = ConsoleScene(remote_postern.postern, remote_postern.people, remote_postern.client, log)
    scene.tenants.join(scene.ada, remote_postern.tenant, "owner")
    return scene


class WalkOfGuide:
    """Counts what a person does: `opens` an address of the guide, follows a link of the page, or presses a button."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.actions = 0

    async def opens(self, address: str) -> None:
        await self.tab.open(address)
        assert self.tab.status == 200, self.tab.page.text
        self.actions += 1

    async def leads(self, end: str) -> None:
        """Follows the one link of the page that ends so."""
        found = {link for link in self.tab.page.links if link.partition("?")[0].endswith(end)}
        assert len(found) == 1, (end, sorted(self.tab.page.links))
        await self.tab.open(found.pop())
        assert self.tab.status == 200, self.tab.page.text
        self.actions += 1

    async def send(self, end: str, **fields: str) -> None:
        (number,) = [number for number, form in enumerate(self.tab.page.forms) if form.action.endswith(end)]
        await self.tab.send(number, **fields)
        assert self.tab.status == 200, self.tab.page.text
        self.actions += 1


async def due(postern: Postern, people: People) -> None:
    """A minute later."""
    keeping = postern.federation.provisioning_keeping
    people.change("update provisioning_connections set leased_until = null, again_at = null")
    for work in await keeping.claim_due(10):
        await keeping.run(work)


async def test_the_people_of_one_postern_arrive_at_another(
    console: ConsoleScene, remote_console: ConsoleScene, remote_postern: RemotePostern, people: People
) -> None:
    bob = people.proved("bob@acme.example")
    console.tenants.join(bob, console.acme)
    people.change("update users set given_name = 'Bob', family_name = 'Builder', name = 'Bob Builder' where id = %s", bob.user)
    console.tenants.service(console.acme, "billing")
    # At the other Postern: a token.
    there = WalkOfGuide(remote_console.tab)
    await there.opens(f"/ui/o/{remote_postern.tenant.slug}/directories/scim/~new")
    await there.send("/scim/~new", name="Acme")
    (token,) = set(re.findall(r"scim_(?:live_)?\w{8,}", there.tab.shown.body.decode()))
    console.log.remember(token)
    # At the own one.
    here = WalkOfGuide(console.tab)
    await here.opens("/ui/o/acme/applications/billing/people-there")
    await here.send("/people-there/change", preset="postern", base_url=remote_postern.url, token=token)
    assert token not in here.tab.page.text
    await here.leads("/people-there/activate")
    await here.send("/people-there/activate")
    await due(console.postern, people)
    (run,) = people.rows("select id from provisioning_runs")
    await console.at("/applications/billing/people-there")
    await here.leads(f"/runs/{run['id']}")
    assert "bob@acme.example" in here.tab.page.text
    remote_system = OtherRemoteSystem(remote_postern.url, token)
    owners = {remote_postern.owner.email, remote_console.ada.email}
    assert await trio.to_thread.run_sync(remote_system.active) == owners, "a plan sends nothing"
    await here.leads("/go-on")
    await here.send("/go-on")
    await due(console.postern, people)
    assert await trio.to_thread.run_sync(remote_system.active) == {"bob@acme.example", console.ada.email, *owners}
    arrived = await trio.to_thread.run_sync(remote_system.named, "bob@acme.example")
    assert arrived is not None
    assert arrived["name"] == {"givenName": "Bob", "familyName": "Builder"}
    assert there.actions + here.actions == STEPS <= MOST_ACTIONS
    # And whoever leaves is ended there.
    people.change("delete from memberships where user_id = %s", bob.user)
    await due(console.postern, people)
    assert "bob@acme.example" not in await trio.to_thread.run_sync(remote_system.active)


def test_the_guide_names_as_many_steps() -> None:
    text = Path(GUIDE).read_text(encoding="utf-8").partition("## Example: provision users to another Postern")[2].partition("\n## ")[0]
    assert [int(number) for number in _STEP.findall(text)] == list(range(1, STEPS + 1))


async def test_the_page_is_found_and_shows_what_would_be_sent(console: ConsoleScene, people: People) -> None:
    """The same page by its links, and the preview of one member."""
    people.change("update users set given_name = 'Ada', family_name = 'L.', name = 'Ada L.' where id = %s", console.ada.user)
    console.tenants.service(console.acme, "billing")
    walk = WalkOfGuide(console.tab)
    await walk.opens("/ui/o/acme/applications/billing")
    await walk.leads("/billing/access")
    await walk.leads("/people-there")
    await walk.send("/people-there/change", preset="generic", base_url="https://scim.example.org/v2", token="token-of-the-guide")
    await walk.leads("/people-there/preview")
    for person in (console.ada.email, str(console.ada.user)):
        await walk.opens(f"/ui/o/acme/applications/billing/people-there/preview?person={person}")
        assert "Ada L." in walk.tab.page.text
    await walk.tab.open("/ui/o/acme/applications/billing/people-there/preview?person=nobody@acme.example")
    assert walk.tab.status == 404
