"""SECURITY 2: the owner of a suspended organization takes nothing out of sight, by no way: whoever has suspended it decides
what becomes of it. Pending and declined ones, their owner may delete.
"""

from typing import Any, Final

import pytest

from core.domain.identifiers import UserId
from core.domain.record.events import Actor
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab
from tests.http.client import Received, refused
from tests.http.federation.arriving import Arriving
from tests.http.people import People
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people

ACME: Final = "/api/organizations/acme"
DANGER: Final = "/ui/o/acme/settings/danger"
SUSPENDED: Final = (403, "ORGANIZATION_NOT_ACTIVE")


class Suspended(Arriving):
    """The platform has suspended acme."""

    async def begin(self) -> "Suspended":
        self.owner = self.speaker = self.people.session_of(self.resident(self.acme, "owner"))
        self.root = self.people.add("root@platform.example", platform_owner=True)
        self.key = self.tenants.management_key(self.acme, self.owner, sorted(Capability))
        await self.govern("suspend")
        return self

    async def govern(self, act: str) -> None:
        (await self.request("POST", f"/api/platform/organizations/{self.acme.id}/{act}", {}, by=self.root)).ok()

    async def deletes(self) -> Received:
        return await self.request("DELETE", ACME)

    def is_there(self) -> bool:
        return bool(self.people.rows("select from organizations where slug = 'acme'"))

    def trail(self) -> list[dict[str, Any]]:
        return self.people.rows("select action from audit_log where action = 'organization.deleted'")


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> Suspended:
    return await Suspended(postern, people, unlimited(postern), log).begin()


async def test_by_the_api_the_owner_is_refused_until_it_is_active_again(scene: Suspended) -> None:
    answer = await scene.deletes()
    assert refused(answer) == SUSPENDED
    assert "a platform owner" in answer.json()["error"]
    assert (scene.is_there(), scene.trail()) == (True, [])
    await scene.govern("activate")
    assert (await scene.deletes()).status == 204
    assert not scene.is_there()


async def test_by_the_page_the_owner_reads_whom_to_ask(scene: Suspended) -> None:
    tabs = scene.signed_in(scene.owner)
    tab = await tabs.tab().open(DANGER)
    assert tab.status == 200
    assert "Only platform owners can delete it. Contact a platform owner" in tab.page.text
    assert f"{DANGER}/delete" not in tab.page.links
    tab = await tabs.tab().open(f"{DANGER}/delete")
    assert tab.status == 403
    assert "Contact a platform owner" in tab.page.text
    # The question was open before, in another tab.
    await scene.govern("activate")
    tab = await tabs.tab().open(f"{DANGER}/delete")
    await scene.govern("suspend")
    await _types(tab)
    assert tab.status == 403
    assert "Contact a platform owner" in tab.page.text
    assert (scene.is_there(), scene.trail()) == (True, [])


async def _types(tab: Tab) -> None:
    (form,) = [number for number, one in enumerate(tab.page.forms) if one.action == f"{DANGER}/delete"]
    await tab.send(form, typed="acme")


async def test_by_the_end_of_the_own_account_neither(scene: Suspended) -> None:
    answer = await scene.request("DELETE", f"/api/privacy/forget/{scene.owner.user}")
    assert refused(answer) == SUSPENDED
    assert "acme" in answer.json()["error"]
    assert "a platform owner" in answer.json()["error"]
    assert scene.people.rows("select from privacy_requests") == []
    # What else the person owns changes nothing about it.
    scene.tenants.join(scene.owner, scene.tenants.add("globex"), "owner")
    assert refused(await scene.request("DELETE", f"/api/privacy/forget/{scene.owner.user}")) == SUSPENDED


async def test_no_management_key_deletes_it(scene: Suspended) -> None:
    assert (await scene.client.request("DELETE", ACME, token=scene.key)).status in {401, 403}
    assert scene.is_there()


async def test_platform_owners_still_delete_it(scene: Suspended) -> None:
    place = f"/api/platform/organizations/{scene.acme.id}"
    assert refused(await scene.request("DELETE", place, by=scene.owner)) == (403, "FORBIDDEN")
    assert (await scene.request("DELETE", place, by=scene.root)).status == 200
    assert not scene.is_there()


@pytest.mark.parametrize("status", ["pending", "rejected"])
async def test_pending_and_declined_ones_their_owner_deletes(scene: Suspended, status: str) -> None:
    scene.people.change("update all_organizations set status = %s, suspended_at = null where slug = 'acme'", status)
    tab = await scene.signed_in(scene.owner).tab().open(f"{DANGER}/delete")
    await _types(tab)
    assert not scene.is_there()


async def test_who_asked_before_and_arrives_after_the_suspension_is_refused(scene: Suspended) -> None:
    """The request has passed its look-up while the organization was active."""
    await scene.govern("activate")
    member = await scene.postern.tenancy.callers.resolve_member(await scene.people.token(scene.owner), "acme")
    await scene.govern("suspend")
    with pytest.raises(Exception, match="only a platform owner"):
        await scene.postern.tenancy.organizations.delete(member, Actor(UserId(scene.owner.user)))
    assert scene.is_there()
