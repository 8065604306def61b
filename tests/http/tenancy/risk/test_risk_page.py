"""The console's page of the rules for risk: a rule is written, its people are seen, and it counts, in few acts and without scripts."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.people import People
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenancy.risk.test_risk_policies import RiskScene

PAGE = "/ui/o/acme/sign-in/risk"


class RiskPageScene(RiskScene):
    """The owner is signed in in a browser, and Ada has come to the shop."""

    async def prepare(self) -> None:
        await super().prepare()
        self.people.change(
            "update users set password_hash = (select password_hash from users where id = %s), email_verified_at = now() where id = %s",
            self.ada.user,
            self.owner.user,
        )
        assert (await self.enter()).status == 200
        self.tab = await Tabs(self.client).tab().open("/ui/sign-in")
        await self.tab.send(email=self.owner.email)
        await self.tab.send(password=PASSWORD)

    def form(self, field: str) -> int:
        return next(place for place, one in enumerate(self.tab.page.forms) if field in one.fields or field in one.action)


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> RiskPageScene:
    made = RiskPageScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


async def test_an_owner_writes_a_rule_sees_whom_it_would_have_met_and_lets_it_count(scene: RiskPageScene) -> None:
    await scene.tab.open(PAGE)
    assert "There is no rule yet" in scene.tab.page.text
    page = await scene.tab.send(
        scene.form("except_networks"), name="Only from the office", action="refuse", except_networks="198.51.100.0/24"
    )
    assert "In shadow" in page.page.text
    assert "It would have met one sign-in." in page.page.text
    assert "ada@home.example" in page.page.text
    assert "It would have refused you." in page.page.text
    page = await scene.tab.send(scene.form("policy"), act="count")
    assert "Counts" in page.page.text
    assert (await scene.enter()).status == 403
    # The session of the owner is older than the rule, and the page names the sign-in that it refused.
    assert "What the rules decided last" in (await scene.tab.open(PAGE)).page.text
    await scene.tab.send(scene.form("policy"), act="remove")
    assert "There is no rule yet" in scene.tab.page.text


async def test_a_wrong_rule_is_told_in_words_and_keeps_what_was_typed(scene: RiskPageScene) -> None:
    await scene.tab.open(PAGE)
    page = await scene.tab.send(scene.form("except_networks"), name="Everybody", action="refuse")
    assert "fits everybody" in page.page.text
    await scene.tab.send(scene.form("except_networks"), name="First", action="passkey", networks="192.0.2.0/24")
    await scene.tab.send(scene.form("except_networks"), name="Second", action="second_factor", networks="198.51.100.0/24")
    await scene.tab.send(scene.form("policy") + 1, act="first")
    saved = (await scene.request("GET", "/api/organizations/acme/risk-policies")).json()["policies"]
    assert [one["name"] for one in saved] == ["Second", "First"]


async def test_a_rule_that_the_page_has_not_shown_does_not_count_by_its_press(scene: RiskPageScene) -> None:
    await scene.tab.open(PAGE)
    await scene.tab.send(scene.form("except_networks"), name="Elsewhere", action="refuse", networks="203.0.113.0/24")
    (shown,) = (await scene.request("GET", "/api/organizations/acme/risk-policies")).json()["policies"]
    # Somebody else lets the rule meet everybody here, in shadow, before the press.
    other = {**shown, "when": {"networks": ["192.0.2.0/24"]}}
    assert (await scene.put(other)).status == 200
    page = await scene.tab.send(scene.form("policy"), act="count")
    assert "not those that you have seen" in page.page.text
    assert (await scene.enter()).status == 200
    # The page shows what they are now.
    assert "Counts" in (await scene.tab.send(scene.form("policy"), act="count")).page.text
