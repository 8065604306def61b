"""The console's page of the rules for risk: a rule is written, its people are seen, and it counts, in few acts and without scripts."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.frozen import replace
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.people import People
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenancy.risk.test_risk_policies import RiskScene, policy

PAGE = "/ui/o/acme/sign-in/risk"
RULE = f"{PAGE}/rule"


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
        await self.open_console()

    async def open_console(self) -> None:
        self.tab = await Tabs(self.client).tab().open("/ui/sign-in")
        await self.tab.send(email=self.owner.email)
        await self.tab.send(password=PASSWORD)

    async def write(self, **fields: str | Sequence[str]) -> Tab:
        """A new rule, by the button of the page."""
        await self.tab.open(PAGE)
        assert RULE in self.tab.page.links
        await self.tab.open(RULE)
        return await self.tab.send(self.form("except_networks"), **fields)

    async def open_rule(self, called: str) -> Tab:
        """By the button on its card."""
        await self.tab.open(PAGE)
        (at,) = (one["id"] for one in await self.policies() if one["name"] == called)
        assert f"{RULE}?policy={at}" in self.tab.page.links
        return await self.tab.open(f"{RULE}?policy={at}")

    async def change(self, called: str, /, **fields: str | Sequence[str]) -> Tab:
        await self.open_rule(called)
        return await self.tab.send(self.form("except_networks"), **fields)

    async def policies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.request("GET", "/api/organizations/acme/risk-policies")).json()["policies"]
        return found

    def bars(self) -> list[int]:
        """Their heights, the oldest day first."""
        (path,) = re.findall(r'<path d="(M0 [^"]+)"', self.tab.shown.body.decode())
        return [int(height) for height in re.findall(r"v-(\d+)", path)]

    def form(self, field: str) -> int:
        return next(place for place, one in enumerate(self.tab.page.forms) if field in one.fields or field in one.action)


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> RiskPageScene:
    made = RiskPageScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


async def test_an_owner_writes_a_rule_sees_whom_it_would_have_met_and_lets_it_count(scene: RiskPageScene) -> None:
    await scene.tab.open(PAGE)
    assert "No risk policies yet" in scene.tab.page.text
    page = await scene.write(name="Only from the office", action="refuse", except_networks="198.51.100.0/24")
    assert "Risk policy “Only from the office” created in report-only mode" in page.page.text
    assert "Report-only" in page.page.text
    assert "One sign-in of the last 30 days would have matched." in page.page.text
    assert "ada@home.example" in page.page.text
    assert "This policy would have denied your own sign-in." in page.page.text
    assert scene.bars() == [*[1] * 29, 40]
    assert "Outside networks: 198.51.100.0/24" in page.page.text
    page = await scene.tab.send(scene.form("policy"), act="count")
    assert "Enforced" in page.page.text
    assert "Risk policy “Only from the office” enforced from the next sign-in." in page.page.text
    assert (await scene.enter()).status == 403
    # What the rule refused is what it met.
    assert "2 sign-ins of the last 30 days match. One person affected." in (await scene.tab.open(PAGE)).page.text
    # The session of the owner is older than the rule, and the page names the sign-in that it refused.
    assert "Recent risk decisions" in (await scene.tab.open(PAGE)).page.text
    await scene.tab.send(scene.form("policy"), act="remove")
    assert "No risk policies yet" in scene.tab.page.text
    assert "Risk policy deleted." in scene.tab.page.text


async def test_a_rule_is_changed_and_stands_in_shadow_again_unless_it_meets_the_same(scene: RiskPageScene) -> None:
    await scene.write(name="Office", action="second_factor", except_networks="198.51.100.0/24")
    await scene.tab.open(PAGE)
    await scene.tab.send(scene.form("policy"), act="count")
    kept = await scene.policies()
    page = await scene.change("Office", name="The office")
    assert "Risk policy “The office” updated." in page.page.text
    (named,) = await scene.policies()
    assert named == {**kept[0], "name": "The office"}
    assert named["counts"]
    await scene.change("The office", networks="192.0.2.0/24")
    (changed,) = await scene.policies()
    assert (changed["id"], changed["counts"], changed["when"]["networks"]) == (kept[0]["id"], False, ["192.0.2.0/24"])
    assert changed["when"]["except_networks"] == ["198.51.100.0/24"]
    assert (await scene.tab.open(f"{RULE}?policy=01928c3e-5f1a-7cc1-9d4e-6b0c2a7f1e55")).status == 404


async def test_a_change_shows_all_that_the_rule_asks_and_keeps_its_place(postern: Postern, people: People, log: CapturedLog) -> None:
    placed = replace(postern, tenancy=replace(postern.tenancy, risk_policies=replace(postern.tenancy.risk_policies, knows_countries=True)))
    scene = RiskPageScene(placed, people, unlimited(placed), log)
    await scene.prepare()
    (shop,) = (one["id"] for one in people.rows("select id from services where slug = 'shop'"))
    when = {
        "least_score": 0.4,
        "ways": ["link", "password"],
        "countries": ["CH", "FR"],
        "except_countries": ["DE"],
        "networks": ["192.0.2.0/24"],
        "except_networks": ["192.0.2.7/32"],
        "new_device": False,
        "impossible_travel": True,
        "from_hour": 22,
        "until_hour": 6,
        "services": [str(shop)],
        "roles": ["none", "owner"],
    }
    assert (await scene.put({**policy("passkey"), "name": "All", "when": when}, policy("refuse"))).status == 200
    before = await scene.policies()
    await scene.change("All", action="second_factor")
    after = await scene.policies()
    assert [one["name"] for one in after] == [one["name"] for one in before]
    assert after[0] == {**before[0], "action": "second_factor"}
    # A wrong change is told at its field, and what was typed stays.
    page = await scene.change("All", least_score="2")
    assert page.status == 400
    assert 'id="least_score-error"' in page.shown.body.decode()
    assert await scene.policies() == after


async def test_a_rule_that_somebody_else_has_changed_meanwhile_is_not_changed(scene: RiskPageScene) -> None:
    await scene.write(name="Mine", action="second_factor", networks="198.51.100.0/24")
    await scene.open_rule("Mine")
    (kept,) = await scene.policies()
    theirs = {**kept, "when": {"networks": ["203.0.113.0/24"]}}
    assert (await scene.put(theirs)).status == 200
    page = await scene.tab.send(scene.form("except_networks"), name="Still mine")
    assert page.status == 409
    assert "were changed after you opened them" in page.page.text
    assert page.page.forms[scene.form("except_networks")].fields["name"] == "Still mine"
    (left,) = await scene.policies()
    assert (left["name"], left["when"]["networks"]) == ("Mine", ["203.0.113.0/24"])
    # A rule that is gone meanwhile comes back by no change.
    await scene.open_rule("Mine")
    await scene.request("PUT", "/api/organizations/acme/risk-policies", {"policies": [], "exceptions": []})
    assert (await scene.tab.send(scene.form("except_networks"))).status == 409
    assert await scene.policies() == []


async def test_a_wrong_rule_is_told_in_words_and_keeps_what_was_typed(scene: RiskPageScene) -> None:
    page = await scene.write(name="Everybody", action="refuse")
    assert "matches everyone" in page.page.text
    assert page.page.forms[scene.form("except_networks")].fields["name"] == "Everybody"
    await scene.write(name="First", action="passkey", networks="192.0.2.0/24")
    await scene.write(name="Second", action="second_factor", networks="198.51.100.0/24")
    await scene.tab.send(scene.form("policy") + 1, act="first")
    saved = (await scene.request("GET", "/api/organizations/acme/risk-policies")).json()["policies"]
    assert [one["name"] for one in saved] == ["Second", "First"]


async def test_a_rule_that_the_page_has_not_shown_does_not_count_by_its_press(scene: RiskPageScene) -> None:
    await scene.write(name="Elsewhere", action="refuse", networks="203.0.113.0/24")
    (shown,) = (await scene.request("GET", "/api/organizations/acme/risk-policies")).json()["policies"]
    # Somebody else lets the rule meet everybody here, in shadow, before the press.
    other = {**shown, "when": {"networks": ["192.0.2.0/24"]}}
    assert (await scene.put(other)).status == 200
    page = await scene.tab.send(scene.form("policy"), act="count")
    assert "were changed after you opened them" in page.page.text
    assert (await scene.enter()).status == 200
    # The page shows what they are now.
    assert "Enforced" in (await scene.tab.send(scene.form("policy"), act="count")).page.text


async def test_the_form_takes_every_condition(postern: Postern, people: People, log: CapturedLog) -> None:
    placed = replace(postern, tenancy=replace(postern.tenancy, risk_policies=replace(postern.tenancy.risk_policies, knows_countries=True)))
    scene = RiskPageScene(placed, people, unlimited(placed), log)
    await scene.prepare()
    (shop,) = (one["id"] for one in people.rows("select id from services where slug = 'shop'"))
    page = await scene.write(
        name="Everything",
        action="second_factor",
        least_score="0,4",
        ways=["password", "link"],
        countries="fr, CH",
        networks="192.0.2.0/24 198.51.100.0/24",
        except_networks="192.0.2.7",
        new_device="no",
        impossible_travel="yes",
        from_hour="22",
        until_hour="6",
        services=[str(shop)],
        roles=["owner", "none"],
    )
    (saved,) = (await scene.request("GET", "/api/organizations/acme/risk-policies")).json()["policies"]
    assert saved["when"] == {
        "least_score": 0.4,
        "ways": ["link", "password"],
        "countries": ["CH", "FR"],
        "except_countries": [],
        "networks": ["192.0.2.0/24", "198.51.100.0/24"],
        "except_networks": ["192.0.2.7/32"],
        "new_device": False,
        "impossible_travel": True,
        "from_hour": 22,
        "until_hour": 6,
        "services": [str(shop)],
        "roles": ["none", "owner"],
    }
    device, hours = "Known device", "Between 22:00 and 6:00 (UTC)"
    for said in ("Method: Magic link, Password", "Applications: Shop", "Roles: Not a member, Owner", device, hours):
        assert said in page.page.text


@pytest.mark.parametrize(
    ("field", "typed", "says"),
    [
        ("least_score", "2", "from 0.01 to 1"),
        ("from_hour", "24", "from 0 to 23"),
        ("until_hour", "six", "from 1 to 24"),
        ("networks", "10.0.0.0/40", "not an IP address or network"),
        ("services", ["shop"], "This value is not allowed"),
        ("countries", "Germany", "is not a country code"),
    ],
)
async def test_a_condition_that_does_not_fit_is_told_at_its_field(
    scene: RiskPageScene, field: str, typed: str | Sequence[str], says: str
) -> None:
    page = await scene.write(name="Wrong", action="refuse", **{field: typed})
    assert page.status == 400
    assert f'id="{field}-error"' in page.shown.body.decode()
    assert says in page.page.text
    assert await scene.policies() == []


class ExceptionScene(RiskPageScene):
    async def except_(self, *rows: tuple[str, str, str], **more: str) -> str:
        """Sends the rows of exceptions, as a browser without scripts does."""
        given = [text for kind, value, end in rows for text in (value, kind, end)]
        answer = await self.tab.send(self.form("exceptions"), exceptions=given, **more)
        return answer.page.text

    async def kept(self) -> list[tuple[str, str, str]]:
        saved = (await self.request("GET", "/api/organizations/acme/risk-policies")).json()["exceptions"]
        return [(one["kind"], one["value"], one["ends_at"]) for one in saved]


@pytest.fixture
async def exceptions(postern: Postern, people: People, log: CapturedLog) -> ExceptionScene:
    made = ExceptionScene(postern, people, unlimited(postern), log)
    await made.prepare()
    await made.tab.open(PAGE)
    return made


async def test_exceptions_are_rows_of_people_teams_and_networks(exceptions: ExceptionScene) -> None:
    scene, day = exceptions, (datetime.now(UTC) + timedelta(days=40)).date()
    answer = await scene.request("POST", "/api/organizations/acme/teams", {"slug": "night", "name": "Night shift"})
    assert answer.status == 201, answer.body
    added = await scene.except_(pressed="exceptions add")
    assert "Exception 1" in added
    assert await scene.kept() == []
    said = await scene.except_(
        ("", scene.owner.email, day.isoformat()), ("team", "Night shift", f"{day} 08:30"), ("network", "192.0.2.0/24", str(day))
    )
    until = f"{day + timedelta(days=1)}T00:00:00Z"
    assert await scene.kept() == [
        ("person", str(scene.owner.user), until),
        ("team", answer.json()["id"], f"{day}T08:30:00Z"),
        ("network", "192.0.2.0/24", until),
    ], said
    body = (await scene.tab.open(PAGE)).shown.body.decode()
    assert all(f'value="{one}"' in body for one in (scene.owner.email, "Night shift", day, f"{day} 08:30"))
    # What is shown comes back as it was, and a row that is taken away goes.
    await scene.except_(("team", "Night shift", f"{day} 08:30"))
    assert await scene.kept() == [("team", answer.json()["id"], f"{day}T08:30:00Z")]


async def test_a_row_that_means_nobody_or_never_ends_is_told_at_its_field(exceptions: ExceptionScene) -> None:
    scene = exceptions
    for row, place, says in (
        (("", "nobody@home.example", "2100-01-01"), "exceptions-1-value", "belongs to no member"),
        (("team", "Nobody", "2100-01-01"), "exceptions-1-value", "belongs to no team"),
        (("network", "", "2100-01-01"), "exceptions-1-value", "Enter a network"),
        (("network", "home", "2100-01-01"), "exceptions-1-value", "not an IP address or network"),
        (("network", "192.0.2.0/24", "soon"), "exceptions-1-ends_at", "Enter a date"),
        (("network", "192.0.2.0/24", "2001-01-01"), "exceptions-1-ends_at", "in the past"),
    ):
        assert says in await scene.except_(row)
        assert f'id="{place}-error"' in scene.tab.shown.body.decode()
    assert await scene.kept() == []


async def test_an_exception_names_no_stranger(exceptions: ExceptionScene) -> None:
    """Whoever knows an id learns no address by an exception for it."""
    scene = exceptions
    await scene.except_(("", str(scene.ada.user), "2100-01-01"))
    body = (await scene.tab.open(PAGE)).shown.body.decode()
    assert str(scene.ada.user) in body
    assert scene.ada.email not in body


async def test_exceptions_of_rules_that_have_changed_meanwhile_are_not_kept(exceptions: ExceptionScene) -> None:
    scene = exceptions
    await scene.request("PUT", "/api/organizations/acme/risk-policies", {"policies": [policy("refuse")], "exceptions": []})
    assert "were changed after you opened them" in await scene.except_(("network", "192.0.2.0/24", "2100-01-01"))
    assert await scene.kept() == []


async def test_without_a_database_of_places_a_rule_about_countries_is_kept_and_no_other_is_offered(
    postern: Postern, people: People, log: CapturedLog
) -> None:
    placed = replace(postern, tenancy=replace(postern.tenancy, risk_policies=replace(postern.tenancy.risk_policies, knows_countries=True)))
    scene = RiskPageScene(placed, people, unlimited(placed), log)
    await scene.prepare()
    when = {"except_countries": ["DE"], "impossible_travel": True}
    assert (await scene.put({**policy("refuse"), "name": "Abroad", "when": when})).status == 200
    # The operator takes the database away.
    scene.client = unlimited(postern)
    await scene.open_console()
    await scene.tab.open(RULE)
    assert "this installation has no GeoIP database" in scene.tab.page.text
    offered = set(scene.tab.page.forms[scene.form("except_networks")].fields)
    assert offered.isdisjoint({"countries", "except_countries", "impossible_travel"})
    await scene.change("Abroad", name="Abroad or hurried", action="second_factor")
    (kept,) = await scene.policies()
    assert (kept["name"], kept["action"], kept["when"]["except_countries"], kept["when"]["impossible_travel"]) == (
        "Abroad or hurried",
        "second_factor",
        ["DE"],
        True,
    )
    page = await scene.change("Abroad or hurried", except_countries="DE FR")
    assert page.status == 400
    assert "has no IP location database" in page.page.text
    assert (await scene.put(kept, {**policy("refuse"), "when": {"countries": ["FR"]}})).status == 400
    assert (await scene.put(kept, {**policy("refuse"), "name": "Another"})).status == 200
