"""Rules for risk of the installation: asked at every sign-in and before those of organizations; who writes them; and the way back."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from adapters.postgres.identity.proofs.login_events import asked_rules
from core.domain.errors import Forbidden
from core.domain.identity.account_mails import LinkRefused, LinkUnknown
from core.domain.identity.risk_policies import owner_mails
from core.domain.identity.risk_policies.owner_mails import OWNER_NOTICE_JOB
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import replace
from core.usecases.tenancy import risk
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.client import Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, enable_mfa, unlimited
from tests.http.tenancy.risk.test_owner_notices import NoticeScene
from tests.http.tenancy.risk.test_risk_policies import ACME, BAD_REQUEST, FORBIDDEN, HERE, RiskScene, policy

RULES: Final = "/api/platform/risk-policies"
UPDATED: Final = "platform.risk_policies.updated"


class InstallationRulesScene(NoticeScene):
    """Root is a platform owner."""

    async def prepare(self) -> None:
        await super().prepare()
        self.root = await self.people.with_password(PASSWORD, "root@platform.example")
        self.people.change("update users set is_platform_owner = true where id = %s", self.root.user)
        self.boss = self.people.add("boss@platform.example", platform_owner=True)
        await self.postbox.empty()

    async def set(self, *policies: dict[str, Any], exceptions: Any = (), by: Person | None = None) -> Received:
        return await self.request("PUT", RULES, {"policies": list(policies), "exceptions": list(exceptions)}, by=by or self.boss)

    async def let_count(self, *policies: dict[str, Any], exceptions: Any = ()) -> None:
        assert (await self.set(*policies, exceptions=exceptions)).status == 200
        answer = await self.set(*({**one, "counts": True} for one in policies), exceptions=exceptions)
        assert answer.status == 200, answer.body

    async def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.request("GET", "/api/platform/risk-events", by=self.boss)).json()["risk_events"]
        return found

    async def link(self) -> str:
        """The way back in the only mail, which has a link that locks the account, too."""
        (mail,) = await self.postbox.empty()
        (link,) = [one for one in mail.text.split() if "/ui/lift-rules" in one]
        address = urlsplit(link)
        return f"{address.path}?{address.query}"

    def counting(self) -> list[str]:
        (row,) = self.people.rows("select policies from installation_risk_policies")
        return [one["name"] for one in row["policies"] if one["counts"]]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> InstallationRulesScene:
    made = InstallationRulesScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


async def test_platform_owners_write_them_and_nobody_else(scene: InstallationRulesScene) -> None:
    assert (await scene.request("GET", RULES, by=scene.boss)).json() == {"policies": [], "exceptions": [], "count_since": None}
    one = policy("refuse", name="Not from here")
    assert refused(await scene.set({**one, "counts": True})) == BAD_REQUEST
    assert (await scene.set(one)).status == 200
    assert refused(await scene.set(one, by=scene.owner)) == FORBIDDEN
    for path in (RULES, f"{RULES}/report", "/api/platform/risk-events"):
        assert refused(await scene.request("GET", path, by=scene.owner)) == FORBIDDEN
    (entry,) = scene.audited(UPDATED)
    assert entry["details"] == {"old_risk_policies": [], "new_risk_policies": ["Not from here: refuse (shadow)"]}
    assert (await scene.set(one)).status == 200
    assert len(scene.audited(UPDATED)) == 1


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ({"services": ["01928c3e-5f1a-7cc1-9d4e-6b0c2a7f1e55"]}, "name no application"),
        ({"roles": ["admin"]}, "support only the roles platform_owner and none"),
    ],
)
async def test_what_the_installation_does_not_know_gets_words(scene: InstallationRulesScene, when: dict[str, Any], says: str) -> None:
    answer = await scene.set(policy("refuse", when))
    assert refused(answer) == BAD_REQUEST
    assert says in answer.json()["error"]
    team = {"kind": "team", "value": "01928c3e-5f1a-7cc1-9d4e-6b0c2a7f1e55", "ends_at": "2100-01-01T00:00:00Z"}
    assert "no teams" in (await scene.set(exceptions=[team])).json()["error"]


async def test_one_that_refuses_does_so_everywhere_and_the_platform_reads_which(scene: InstallationRulesScene) -> None:
    one = policy("refuse", name="Not from here")
    await scene.set(one)
    assert (await scene.base()).status == 200
    await scene.set({**one, "counts": True})
    for answer in (await scene.base(), await scene.enter()):
        assert refused(answer) == FORBIDDEN
        assert "A risk policy of this installation denied" in answer.json()["error"]
    assert [(event["policy_name"], event["action"], event["success"]) for event in await scene.events()] == [
        ("Not from here", "refuse", False)
    ] * 2
    # The organization reads that a rule refused, and not which rule of the installation it was.
    assert (await scene.request("GET", f"{ACME}/risk-events")).json()["risk_events"] == []
    assert all("risk_policy" not in one["details"] for one in scene.told() if one["name"] == "user.login.failed")


async def test_both_are_asked_and_the_stricter_wins(scene: InstallationRulesScene) -> None:
    await scene.let_count(policy("tell_person", name="Here"))
    await scene.count(policy("refuse", name="There"))
    answer = await scene.enter()
    assert "A risk policy of this organization denied" in answer.json()["error"]
    assert (await scene.base()).status == 200
    assert [event["policy_name"] for event in await scene.events()] == ["Here", "Here"]
    await scene.let_count(policy("second_factor", name="Here"))
    assert "requires MFA" in (await scene.base()).json()["error"]
    assert "A risk policy of this organization denied" in (await scene.enter()).json()["error"]
    await scene.let_count(policy("passkey", name="Here"))
    assert "A risk policy of this installation requires a passkey" in (await scene.base()).json()["error"]


async def test_a_trusted_device_gives_the_second_factor(scene: InstallationRulesScene) -> None:
    totp = await enable_mfa(scene.client, scene.people, scene.ada)
    browser = Browser(scene.client)
    first = (await browser.login(scene.ada)).json()
    scene.people.change("update mfa_secrets set last_step = 0")
    assert (await browser.verify(first["access_token"], totp.now(), trust_device=True)).status == 200
    assert "mfa_required" not in (await browser.login(scene.ada)).json()
    await scene.let_count(policy("second_factor"))
    awaiting = (await browser.login(scene.ada)).json()
    assert awaiting["mfa_required"] is True
    scene.people.change("update mfa_secrets set last_step = 0")
    assert (await browser.verify(awaiting["access_token"], totp.now())).status == 200


async def test_roles_and_exceptions_tell_platform_owners_from_others(scene: InstallationRulesScene) -> None:
    await scene.let_count(policy("refuse", {"roles": ["none"], **HERE}))
    assert refused(await scene.base()) == FORBIDDEN
    assert (await scene.base(scene.root)).status == 200
    exception = {"kind": "person", "value": str(scene.ada.user), "ends_at": "2100-01-01T00:00:00Z"}
    await scene.let_count(policy("refuse", HERE), exceptions=[exception])
    assert (await scene.base()).status == 200
    assert refused(await scene.base(scene.root)) == FORBIDDEN


async def test_the_report_judges_all_sign_ins(scene: InstallationRulesScene) -> None:
    one = policy("refuse")
    await scene.set(one)
    assert (await scene.enter()).status == 200
    assert (await scene.base()).status == 200
    report = (await scene.request("GET", f"{RULES}/report", by=scene.boss)).json()
    assert report["judged"] == 2
    (judged,) = report["policies"]
    assert (judged["met"], judged["people"]) == (2, 1)
    assert (report["your_policy"], report["your_action"]) == (one["id"], "refuse")


async def test_platform_owners_hear_of_a_sign_in(scene: InstallationRulesScene) -> None:
    await scene.let_count(policy("tell_owners", name="From here"))
    assert (await scene.base()).status == 200
    await scene.work()
    (mail,) = [one for one in await scene.postbox.empty() if one.to == scene.root.email]
    assert "ada@home.example signed in." in mail.text
    assert "you are a platform owner" in mail.text
    (entry,) = scene.audited("platform.risk_policies.notified")
    assert (entry["organization_id"], entry["details"]["name"]) == (None, "From here")
    assert await scene.postern.foundation.jobs.claim([OWNER_NOTICE_JOB], 1, timedelta(minutes=1)) == []


async def test_a_platform_owner_who_is_refused_gets_a_way_back_by_mail(scene: InstallationRulesScene) -> None:
    await scene.let_count(policy("refuse", name="Not from here"), policy("passkey", {"new_device": True}, name="New devices"))
    assert refused(await scene.base(scene.root)) == FORBIDDEN
    link = await scene.link()
    tab = await Tabs(scene.client).tab().open(link)
    assert "Not from here" in tab.page.text
    assert "New devices" not in tab.page.text
    await tab.send()
    assert "No risk policy for all organizations denies sign-ins" in tab.page.text
    assert scene.counting() == ["New devices"]
    entry = scene.audited(UPDATED)[-1]
    assert entry["actor_id"] == scene.root.user
    again = await Tabs(scene.client).tab().open(link)
    assert "This link was already used" in again.page.text
    assert "get another link by email" in again.page.text


async def test_it_asks_for_every_factor_first_and_mails_nobody_else(scene: InstallationRulesScene) -> None:
    totp = await enable_mfa(scene.client, scene.people, scene.root)
    await scene.let_count(policy("refuse", name="Not from here"))
    await scene.postbox.empty()
    assert refused(await scene.base()) == FORBIDDEN
    browser = Browser(scene.client)
    awaiting = (await browser.login(scene.root)).json()
    assert awaiting["mfa_required"] is True
    assert await scene.postbox.empty() == []
    scene.people.change("update mfa_secrets set last_step = 0")
    assert refused(await browser.verify(awaiting["access_token"], totp.now())) == FORBIDDEN
    assert len(await scene.postbox.empty()) == 1
    for _ in range(4):
        scene.people.change("update mfa_secrets set last_step = 0")
        await browser.verify((await browser.login(scene.root)).json()["access_token"], totp.now())
    assert len(await scene.postbox.empty()) == 2


async def test_who_is_no_platform_owner_any_more_lifts_nothing(scene: InstallationRulesScene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.let_count(policy("refuse", name="Not from here"))
    await scene.base(scene.root)
    token = Token((await scene.link()).partition("token=")[2])
    way_back = scene.postern.identity.installation_way_back
    scene.people.change("update users set is_platform_owner = false where id = %s", scene.root.user)
    with pytest.raises(Forbidden):
        await way_back.lift(token, Actor())
    with pytest.raises(Forbidden):
        await way_back.look(token)
    with pytest.raises(LinkUnknown):
        await way_back.look(Token("A" * 40))
    monkeypatch.setattr(owner_mails, "WAY_BACK_LIFETIME", timedelta(0))
    with pytest.raises(LinkRefused):
        await way_back.look(token)
    assert scene.counting() == ["Not from here"]
    page = await Tabs(scene.client).tab().open(f"/ui/lift-rules?token={token.reveal()}")
    assert "expired" in page.page.text


@pytest.mark.parametrize("end", ["locked", "moved"])
async def test_the_link_ends_with_a_lock_and_with_the_address(scene: InstallationRulesScene, end: str) -> None:
    """Whoever reads that mailbox, or knew the password, may be somebody else. A new password opens the account, and not the old link."""
    await scene.let_count(policy("refuse", name="Not from here"))
    await scene.base(scene.root)
    token = Token((await scene.link()).partition("token=")[2])
    if end == "locked":
        scene.people.change("update users set locked_at = now() where id = %s", scene.root.user)
    else:
        scene.people.change("update users set email = 'r@p.example', email_key = 'r@p.example' where id = %s", scene.root.user)
    with pytest.raises(LinkRefused):
        await scene.postern.identity.installation_way_back.lift(token, Actor())
    assert scene.counting() == ["Not from here"]
    # A mail from since then counts.
    assert refused(await scene.base(replace(scene.root, email="r@p.example") if end == "moved" else scene.root)) == FORBIDDEN
    if end == "moved":
        token = Token((await scene.link()).partition("token=")[2])
        assert [one.name for one in await scene.postern.identity.installation_way_back.lift(token, Actor())] == ["Not from here"]


@pytest.mark.parametrize("text", ["AAAA", "ümlaut", "\ud800", "A" * 10_000])
async def test_what_was_never_a_link_is_refused(scene: InstallationRulesScene, text: str) -> None:
    with pytest.raises(LinkUnknown):
        await scene.postern.identity.installation_way_back.look(Token(text))


async def test_a_link_of_an_organization_opens_nothing_here(scene: InstallationRulesScene) -> None:
    page = await Tabs(scene.client).tab().open("/ui/lift-rules?token=AAAA")
    assert "not valid" in page.page.text


async def test_the_report_takes_the_newest_where_there_are_more(scene: RiskScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(risk, "_BATCH", 1)
    monkeypatch.setattr(risk, "_MOST_BATCHES", 2)
    await scene.put(policy("refuse"))
    grace = await scene.people.with_password(PASSWORD, "grace@home.example")
    assert (await scene.enter(grace)).status == 200
    for _ in range(2):
        assert (await scene.enter()).status == 200
    report = (await scene.request("GET", f"{ACME}/risk-policies/report")).json()
    assert report["judged"] == 2
    assert [one["email"] for one in report["policies"][0]["latest"]] == ["ada@home.example"]


async def test_the_command_puts_them_in_shadow(scene: InstallationRulesScene) -> None:
    await scene.let_count(policy("refuse", name="Not from here"), policy("passkey", {"new_device": True}, name="New devices"))
    rules = scene.postern.tenancy.risk_policies
    assert [one.name for one in await rules.put_in_shadow(Actor(operator="ada"), factors=False)] == ["Not from here"]
    assert scene.counting() == ["New devices"]
    assert [one.name for one in await rules.put_in_shadow(Actor(operator="ada"), factors=True)] == ["New devices"]
    assert await rules.put_in_shadow(Actor(operator="ada"), factors=True) == []
    assert (await scene.base()).status == 200


async def test_an_exception_ends_early_only_while_no_strict_rule_counts(scene: InstallationRulesScene) -> None:
    """Whom the exception let past would be met, and no report has shown them."""
    one = policy("refuse", name="Not from here")
    exception = {"kind": "person", "value": str(scene.ada.user), "ends_at": "2100-01-02T00:00:00Z"}
    sooner, later = {**exception, "ends_at": "2100-01-01T00:00:00Z"}, {**exception, "ends_at": "2100-01-03T00:00:00Z"}
    for put in (scene.set, scene.put):
        assert (await put(one, exceptions=[exception])).status == 200
        counting = {**one, "counts": True}
        assert (await put(counting, exceptions=[exception])).status == 200
        for less in ([], [sooner]):
            answer = await put(counting, exceptions=less)
            assert refused(answer) == BAD_REQUEST
            assert "removing an exception early" in answer.json()["error"]
        assert (await put(counting, exceptions=[later])).status == 200
        assert (await put(one, exceptions=[])).status == 200
        assert (await put(counting, exceptions=[])).status == 200


async def test_the_distance_to_the_sign_in_before_comes_along(scene: InstallationRulesScene) -> None:
    await scene.let_count(policy("tell_person"))
    assert (await scene.base()).status == 200
    scene.people.change("update login_events set spot = '{507,71}' where user_id = %s", scene.ada.user)
    (row,) = scene.people.rows("select risk_rules_asked(%s, null) as asked", scene.ada.user)
    (asked,) = asked_rules(row["asked"])
    assert (asked.organization, [one.spot for one in asked.seen]) == (None, [(507, 71)])
    (judged,) = await scene.postern.foundation.stores.risk_policies.sign_ins(None, datetime(2020, 1, 1, tzinfo=UTC), None, 10)
    assert judged.spot == (507, 71)


async def test_twenty_rules_of_both_cost_a_sign_in_no_further_round_trip(scene: InstallationRulesScene) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    browser = Browser(scene.client)
    into = {"org_slug": "acme", "service_slug": "shop"}
    for _ in range(2):
        assert (await browser.login(scene.ada, **into)).status == 200
    without = scene.log.events("request")[-1]["db_round_trips"]
    rules = [policy("refuse", {"networks": [f"10.{number}.0.0/16"]}, name=f"Rule {number}") for number in range(20)]
    await scene.let_count(*rules)
    await scene.count(*rules)
    assert (await browser.login(scene.ada, **into)).status == 200
    assert scene.log.events("request")[-1]["db_round_trips"] == without


async def test_a_trusted_device_does_not_do_for_a_way_back(scene: InstallationRulesScene) -> None:
    """A thief of the password, in the owner's browser, gets no mail sent."""
    totp = await enable_mfa(scene.client, scene.people, scene.root)
    browser = Browser(scene.client)
    first = (await browser.login(scene.root)).json()
    scene.people.change("update mfa_secrets set last_step = 0")
    assert (await browser.verify(first["access_token"], totp.now(), trust_device=True)).status == 200
    await scene.postbox.empty()
    await scene.let_count(policy("refuse", name="Not from here"))
    assert (await browser.login(scene.root)).json()["mfa_required"] is True
    assert await scene.postbox.empty() == []
