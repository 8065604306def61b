"""Password rules of organizations: they bind own memberships alone, the strictest counts, and the page says it before the typing."""

from typing import Final

import pytest

from core.domain.identity.account_mails import AccountMail
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.cast import Neighbours
from tests.http.client import Received
from tests.http.inviting import Inviting
from tests.http.people import People
from tests.http.postbox import Postbox
from tests.http.signing_in import Browser, unlimited

OLD: Final = "an old and tired password"
SHORT, LONG = "twelve chars", "a password of twenty-four"
COMMON: Final = "sunshine2026"
CHANGE: Final = "/api/user/change-password"
RULES: Final = "/api/organizations/acme/sign-in-rules"


class PasswordRuleScene(Neighbours):
    """Ada has a password, and belongs to nobody yet."""

    async def prepare(self) -> None:
        self.ada = self.people.session_of(await self.people.with_password(OLD, "ada@home.example"))
        self.speaker = self.ada

    def rule(self, organization: str, shortest: int | None = None, breached: str | None = None) -> None:
        self.people.change(
            "update all_organizations set shortest_password = %s, breached_at_sign_in = %s where slug = %s",
            shortest,
            breached,
            organization,
        )

    async def choose(self, new: str) -> Received:
        return await self.request("POST", CHANGE, {"current_password": OLD, "new_password": new})


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> PasswordRuleScene:
    made = PasswordRuleScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


def too_short(answer: Received, least: int) -> bool:
    return (answer.status, answer.json().get("error")) == (400, f"The password must have at least {least} characters")


async def test_the_strictest_own_membership_counts(scene: PasswordRuleScene) -> None:
    for tenant, least in ((scene.acme, 14), (scene.globex, 20)):
        scene.tenants.join(scene.ada, tenant)
        scene.rule(tenant.slug, least)
    assert too_short(await scene.choose(SHORT), 20)
    scene.people.change("update all_organizations set status = 'suspended' where slug = 'globex'")
    assert too_short(await scene.choose(SHORT), 14)
    assert (await scene.choose(LONG)).status == 200


async def test_a_tenant_that_lists_somebody_rules_over_nothing_of_theirs(scene: PasswordRuleScene, postern: Postern) -> None:
    scene.tenants.join(scene.ada, scene.globex, listed=True)
    scene.rule("globex", 64, "change")
    page = await Tabs(scene.client).tab().open("/ui/sign-in")
    await page.send(email=scene.ada.email)
    await page.send(password=OLD)
    await page.open("/ui/password")
    assert "At least 8 characters" in page.page.text
    # Neither their length, nor their name among the words that count as the person's own.
    assert (await scene.choose("globex-1234")).status == 200
    scene.people.change("update users set password_hash = %s", await postern.identity.passwords.hash(Password(COMMON)))
    assert (await Browser(scene.client).login(scene.ada, COMMON)).status == 200


async def test_own_names_count_and_those_of_others_do_not(scene: PasswordRuleScene) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    shop = scene.tenants.service(scene.globex, "shopfloor")
    scene.people.change(
        "update users set given_name = 'Augusta', family_name = 'Byron', profile_updated_at = now() where id = %s", scene.ada.user
    )
    scene.people.change("update all_organizations set name = 'Acmeworks' where slug = 'acme'")
    refusals = [await scene.choose(f"{word}-1234") for word in ("augustaByron99", "acmeworks", "home-example")]
    assert [one.status for one in refusals] == [400] * 3
    assert "Without your name, your email address" in refusals[0].json()["error"]
    scene.people.change(
        "insert into service_users (service_id, user_id, org_id, created_at, own_since) values (%s, %s, %s, now(), now())",
        shop.id,
        scene.ada.user,
        scene.globex.id,
    )
    assert (await scene.choose("shopfloor-1")).status == 400
    scene.people.change("update service_users set own_since = null")
    assert (await scene.choose("shopfloor-1")).status == 200


async def test_a_password_that_stands_is_left_alone(scene: PasswordRuleScene) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    scene.rule("acme", 64)
    assert (await Browser(scene.client).login(scene.ada, OLD)).status == 200


async def test_the_pages_say_the_rule_before_the_typing(scene: PasswordRuleScene, postern: Postern) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    scene.rule("acme", 30)
    postbox = Postbox(postern)
    await postern.identity.accounts.ask_for_mail(AccountMail.RESET, postern.foundation.email_syntax.parse(scene.ada.email), "")
    tab = await Tabs(scene.client).tab().open(f"/ui/reset-password?token={await postbox.token()}")
    assert "At least 30 characters" in tab.page.text
    assert tab.page.inputs["new_password"]["minlength"] == "30"
    await tab.send(new_password=LONG, repeated=LONG)
    assert (tab.status, "must have at least 30 characters" in tab.page.text) == (400, True)
    await tab.send(new_password=LONG * 2, repeated=LONG * 2)
    assert tab.status == 200
    # Whoever registers is nobody's member yet, and learns nothing of anybody's rule.
    tab = await Tabs(scene.client).tab().open("/ui/register")
    assert "At least 8 characters" in tab.page.text


async def test_the_page_of_ones_own_account_says_it_too(scene: PasswordRuleScene) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    scene.rule("acme", 30)
    tab = await Tabs(scene.client).tab().open("/ui/sign-in")
    await tab.send(email=scene.ada.email)
    await tab.send(password=OLD)
    await tab.open("/ui/password")
    assert "At least 30 characters" in tab.page.text
    (number,) = [number for number, form in enumerate(tab.page.forms) if form.action == "/ui/password"]
    await tab.send(number, current=OLD, new_password=LONG, repeated=LONG)
    assert (tab.status, "must have at least 30 characters" in tab.page.text) == (400, True)


async def test_an_invitation_brings_the_rule_with_it(postern: Postern, people: People, log: CapturedLog) -> None:
    inviting = Inviting(postern, people, unlimited(postern), log)
    people.change("update all_organizations set shortest_password = 30")
    await inviting.invite("eve@example.org")
    ((_, mailed),) = await inviting.mailed()
    tab = await Tabs(inviting.client).tab().open(f"/ui/invitations/accept?token={mailed}")
    assert "At least 30 characters" in tab.page.text
    await tab.send(password=LONG)
    assert (tab.status, "must have at least 30 characters" in tab.page.text) == (400, True)
    await tab.send(password=LONG * 2)
    assert tab.status == 200


async def test_a_registration_counts_the_names_of_where_it_leads(scene: PasswordRuleScene) -> None:
    scene.tenants.service(scene.acme, "webshop")
    body = {"email": "bob@example.org", "org_slug": "acme", "service_slug": "webshop"}
    answer = await scene.client.post("/api/auth/register", {**body, "password": "webshop-123"})
    assert (answer.status, "Without your name" in answer.json()["error"]) == (400, True)
    assert (await scene.client.post("/api/auth/register", {**body, "password": LONG})).status == 200


@pytest.mark.parametrize(
    ("one", "other", "status"), [("tell", None, 200), ("tell", "change", 401), (None, "change", 401), (None, None, 200)]
)
async def test_the_strictest_own_rule_decides_about_a_sign_in(
    scene: PasswordRuleScene, postern: Postern, one: str | None, other: str | None, status: int
) -> None:
    for tenant, rule in ((scene.acme, one), (scene.globex, other)):
        scene.tenants.join(scene.ada, tenant)
        scene.rule(tenant.slug, breached=rule)
    scene.people.change("update users set password_hash = %s", await postern.identity.passwords.hash(Password(COMMON)))
    assert (await Browser(scene.client).login(scene.ada, COMMON)).status == status
    mails = [mail.subject for mail in await Postbox(postern).empty()]
    assert len(mails) == (0 if one is other is None else 1)


async def test_no_organization_shuts_a_platform_owner_out(scene: PasswordRuleScene, postern: Postern) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    scene.rule("acme", breached="change")
    scene.people.change("update users set is_platform_owner = true")
    scene.people.change("update users set password_hash = %s", await postern.identity.passwords.hash(Password(COMMON)))
    assert (await Browser(scene.client).login(scene.ada, COMMON)).status == 200


async def test_an_owner_sets_the_rules_and_each_change_is_on_record(scene: PasswordRuleScene) -> None:
    owner = scene.resident(scene.acme, "owner")
    changed = (await scene.request("PATCH", RULES, {"shortest_password": 12, "breached_at_sign_in": "tell"}, by=owner)).ok()
    assert (changed["shortest_password"], changed["breached_at_sign_in"]) == (12, "tell")
    assert (await scene.request("PATCH", RULES, {"shortest_password": None, "breached_at_sign_in": None}, by=owner)).ok()[
        "shortest_password"
    ] is None
    first, second = [entry["details"] for entry in scene.audited("organization.sign_in_rules.updated")]
    assert first == {
        "old_shortest_password": None,
        "new_shortest_password": 12,
        "old_breached_at_sign_in": None,
        "new_breached_at_sign_in": "tell",
    }
    assert second["new_breached_at_sign_in"] is None


@pytest.mark.parametrize("wrong", [{"shortest_password": 7}, {"shortest_password": 65}, {"breached_at_sign_in": "off"}])
async def test_what_cannot_be_a_rule_is_refused_at_its_field(scene: PasswordRuleScene, wrong: dict[str, object]) -> None:
    owner = scene.resident(scene.acme, "owner")
    answer = await scene.request("PATCH", RULES, wrong, by=owner)
    assert (answer.status, next(iter(wrong)) in answer.json()["error"]) == (400, True)


async def test_neither_a_member_nor_another_tenant_sets_them(scene: PasswordRuleScene) -> None:
    for person in (scene.resident(scene.acme, "member"), scene.resident(scene.globex, "owner"), scene.ada):
        answer = await scene.request("PATCH", RULES, {"shortest_password": 12}, by=person)
        assert answer.status in {403, 404}
    assert not scene.people.rows("select from organizations where shortest_password is not null")
