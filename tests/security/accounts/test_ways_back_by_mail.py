"""Mailed links that lift rules for risk: what ends one, what uses one up, and what it shows. Whoever reads the mail may be whom the rules
are to keep out.
"""

from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tab, Tabs
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.people import BASE_URL, People
from tests.http.postbox import link_in
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.http.tenancy.risk.test_installation_rules import UPDATED, InstallationRulesScene
from tests.http.tenancy.risk.test_risk_policies import FORBIDDEN, policy
from tests.http.tenancy.risk.test_ways_back import WayBackScene

database_url, postern, people = http.database_url, http.postern, http.people

NEW: Final = "a fresh and lively password"
USED: Final = "This link was already used"
OWNERS: Final = {"roles": ["platform_owner"]}


class LiftedInstallation(InstallationRulesScene):
    """A rule keeps platform owners out. Boss's session is older, and so is one of Root's."""

    async def prepare(self) -> None:
        await super().prepare()
        self.token = (await self.base(self.root)).ok()["access_token"]
        self.rule = policy("refuse", OWNERS, name="No owners")
        await self.let_count(self.rule)

    async def asks(self) -> str:
        """The way back that Root gets."""
        await self.postbox.empty()
        assert refused(await self.base(self.root)) == FORBIDDEN
        return await self.link()

    async def put_back(self, *more: dict[str, Any]) -> None:
        answer = await self.set({**self.rule, "counts": True}, *({**one, "counts": True} for one in more))
        assert answer.status == 200, answer.body

    async def opens(self, link: str) -> Tab:
        return await Tabs(self.client).tab().open(link)

    async def presses(self, link: str) -> Received:
        """The form, without the page before it."""
        return await Tabs(self.client).request("POST", "/ui/lift-rules", {"token": link.partition("token=")[2]})

    async def forgets_password(self) -> None:
        await self.postbox.empty()
        (await self.client.post("/api/auth/forgot-password", {"email": self.root.email})).ok()
        (mail,) = await self.postbox.empty()
        tab = await Tabs(self.client).tab().open(link_in(mail).removeprefix(BASE_URL))
        tab = await tab.send(new_password=NEW, repeated=NEW)
        assert tab.status == 200, tab.page.text

    async def changes_password(self) -> None:
        fields = {"current_password": PASSWORD, "new_password": NEW}
        (await self.client.post("/api/user/change-password", fields, token=self.token)).ok()


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> LiftedInstallation:
    made = LiftedInstallation(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


@pytest.mark.parametrize("way", ["forgotten", "changed"])
async def test_a_new_password_ends_the_link(scene: LiftedInstallation, way: str) -> None:
    """Whoever read the mailbox, or knew the password, is whom the new one is to keep out."""
    link = await scene.asks()
    await (scene.forgets_password() if way == "forgotten" else scene.changes_password())
    assert USED in (await scene.opens(link)).page.text
    answer = await scene.presses(link)
    assert (answer.status, USED.encode() in answer.body) == (400, True)
    assert scene.counting() == ["No owners"]
    # A mail from since then works.
    await scene.postbox.empty()
    assert refused(await Browser(scene.client).login(scene.root, NEW)) == FORBIDDEN
    assert (await scene.presses(await scene.link())).status == 200
    assert scene.counting() == []


async def test_a_rule_that_somebody_has_put_back_is_out_of_the_links_reach(scene: LiftedInstallation) -> None:
    link = await scene.asks()
    assert (await scene.presses(link)).status == 200
    await scene.put_back()
    tab = await scene.opens(link)
    assert USED in tab.page.text
    assert "No owners" not in tab.page.text
    assert (await scene.presses(link)).status == 400
    assert scene.counting() == ["No owners"]
    assert [one["actor_id"] for one in scene.audited(UPDATED)] == [scene.boss.user, scene.boss.user, scene.root.user, scene.boss.user]


async def test_a_rule_that_is_sent_again_or_moved_stays_within_its_reach(scene: LiftedInstallation) -> None:
    """Otherwise whoever sends a document again would take the way back away."""
    link = await scene.asks()
    await scene.put_back()
    other = policy("passkey", {"new_device": True}, name="New devices")
    assert (await scene.set(other, {**scene.rule, "counts": True})).status == 200
    assert "No owners" in (await scene.opens(link)).page.text
    assert (await scene.presses(link)).status == 200
    assert scene.counting() == []


async def test_it_lifts_and_names_only_what_counted_before_the_mail(scene: LiftedInstallation) -> None:
    link = await scene.asks()
    later = policy("refuse", {"networks": ["203.0.113.0/24"]}, name="Not from there")
    assert (await scene.set({**scene.rule, "counts": True}, later)).status == 200
    await scene.put_back(later)
    tab = await scene.opens(link)
    assert "No owners" in tab.page.text
    assert "Not from there" not in tab.page.text
    await tab.send()
    assert scene.counting() == ["Not from there"]
    assert USED in (await scene.opens(link)).page.text


async def test_of_two_presses_at_once_one_lifts(scene: LiftedInstallation) -> None:
    link = await scene.asks()
    answers = await all_at_once(*[lambda: scene.presses(link)] * 2)
    assert sorted(answer.status for answer in answers) == [200, 400]
    assert [one["actor_id"] for one in scene.audited(UPDATED)].count(scene.root.user) == 1


async def test_presses_at_once_with_whoever_puts_the_rule_back_lift_nothing(scene: LiftedInstallation) -> None:
    """All wait for the rules. Whichever comes first, the rule that was put back counts at the end."""
    link = await scene.asks()
    assert (await scene.presses(link)).status == 200

    async def puts_back() -> Received:
        return await scene.set({**scene.rule, "counts": True})

    answers = await all_at_once(puts_back, *[lambda: scene.presses(link)] * 3)
    assert sorted(answer.status for answer in answers) == [200, 400, 400, 400]
    assert scene.counting() == ["No owners"]


@pytest.mark.parametrize("end", ["removed", "deactivated"])
async def test_whoever_has_lost_the_office_reads_no_rule_by_the_link(scene: LiftedInstallation, end: str) -> None:
    link = await scene.asks()
    path = f"/api/platform/owners/{scene.root.user}" if end == "removed" else f"/api/platform/users/{scene.root.user}/deactivate"
    answer = await scene.request("DELETE" if end == "removed" else "POST", path, by=scene.boss)
    assert answer.status in {200, 204}, answer.body
    tab = await scene.opens(link)
    assert tab.status == 403
    assert "No owners" not in tab.page.text
    assert (await scene.presses(link)).status == 403
    assert scene.counting() == ["No owners"]


@pytest.fixture
async def owner(postern: Postern, people: People, log: CapturedLog) -> WayBackScene:
    made = WayBackScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


async def test_a_new_password_ends_an_owners_link(owner: WayBackScene) -> None:
    link = await owner.link()
    (await owner.client.post("/api/auth/forgot-password", {"email": owner.owner.email})).ok()
    tab = await Tabs(owner.client).tab().open((await owner.postbox.link()).removeprefix(BASE_URL))
    tab = await tab.send(new_password=NEW, repeated=NEW)
    assert tab.status == 200, tab.page.text
    again = await Tabs(owner.client).tab().open("/ui/sign-in")
    await again.send(email=owner.owner.email)
    await again.send(password=NEW)
    assert USED in (await again.open(link)).page.text
    assert owner.counting() == ["Not from here", "New devices"]


async def test_an_owners_rule_that_was_put_back_is_out_of_the_links_reach(owner: WayBackScene) -> None:
    link = await owner.link()
    second = owner.tab.tabs.tab()
    await second.open(link)
    await owner.tab.open(link)
    await owner.tab.send(-1)
    assert owner.counting() == ["New devices"]
    rules = (await owner.request("GET", "/api/organizations/acme/risk-policies")).json()["policies"]
    assert (await owner.put(*({**one, "counts": True} for one in rules))).status == 200
    assert USED in (await second.send(-1)).page.text
    assert owner.counting() == ["Not from here", "New devices"]


async def test_a_former_owner_reads_no_rule_by_the_link(owner: WayBackScene) -> None:
    link = await owner.link()
    body = {"new_owner_user_id": str(owner.member.user)}
    answer = await owner.request("POST", "/api/organizations/acme/transfer-ownership", body)
    assert answer.status == 200, answer.body
    tab = await owner.tab.open(link)
    assert tab.status == 403
    assert "Not from here" not in tab.page.text
