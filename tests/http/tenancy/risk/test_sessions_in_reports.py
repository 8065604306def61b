"""The report of rules for risk and sign-ins that go on from a session: rules judge a session when it begins, and the log of what goes on
from it has no address and no way. So the report judges none of them, and says how many there were.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.arriving import left
from tests.http.federation.relying import CALLBACK, CHALLENGE, Application, Relying
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenancy.risk.test_risk_policies import HERE, POLICIES, policy

NOWHERE_USED: Final = {"except_networks": ["192.0.2.0/24"]}


class GoingOnScene(Relying):
    """Mia begins at acme's shop; Quinn has signed in at the base address, and goes on to the shop."""

    async def prepare(self) -> None:
        self.owner = self.speaker = self.resident(self.acme, "owner")
        self.mia = await self.people.with_password(PASSWORD, "mia@home.example")
        self.quinn = await self.people.with_password(PASSWORD, "quinn@home.example")

    async def signs_in(self, tabs: Tabs, person: Person) -> None:
        tab = await tabs.tab().open("/ui/sign-in")
        await tab.send(email=person.email)
        tab = await tab.send(password=PASSWORD)
        assert tabs.session, tab.page.text

    async def arrives(self, tabs: Tabs, person: Person, application: Application | None = None) -> None:
        """Comes from the application, signs in if the page asks, and gets in."""
        application = application or self.shop
        fields = {"response_type": "code", "client_id": application.client_id, "redirect_uri": CALLBACK, "scope": "openid email"}
        query = urlencode({**fields, "state": "s", "code_challenge": CHALLENGE, "code_challenge_method": "S256"})
        tab = await tabs.tab().open(f"/oauth/authorize?{query}")
        if tab.place.startswith("/ui/sign-in"):
            await tab.send(email=person.email)
            tab = await tab.send(password=PASSWORD)
        if tab.place.startswith("/ui/consent"):
            tab = await tab.send(answer="allow")
        (await self.redeem(application, left(tab, CALLBACK)["code"])).ok()

    async def put(self, *policies: dict[str, Any], exceptions: Any = ()) -> Received:
        answer = await self.request("PUT", POLICIES, {"policies": list(policies), "exceptions": list(exceptions)})
        assert answer.status == 200, answer.body
        return answer

    async def told(self, *policies: dict[str, Any], exceptions: Any = ()) -> list[tuple[int, int, int]]:  # type: ignore[override]
        """Of each rule: the sign-ins that it met, its people, and those that it cannot say anything of."""
        await self.put(*policies, exceptions=exceptions)
        report = (await self.request("GET", f"{POLICIES}/report")).json()
        self.judged = report["judged"]
        return [(one["met"], one["people"], one["by_session"]) for one in report["policies"]]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> GoingOnScene:
    made = GoingOnScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


@pytest.fixture
async def came(scene: GoingOnScene) -> GoingOnScene:
    """Both have come to the shop, Mia twice."""
    quinns, mias = Tabs(scene.client), Tabs(scene.client)
    await scene.signs_in(quinns, scene.quinn)
    await scene.arrives(quinns, scene.quinn)
    scene.tenants.join(scene.mia, scene.acme)
    await scene.arrives(mias, scene.mia)
    return scene


@pytest.mark.parametrize(
    ("when", "met"),
    [(HERE, 1), (NOWHERE_USED, 0), ({"ways": ["password"]}, 1), ({"ways": ["provider"]}, 0), ({"new_device": True}, 1)],
)
async def test_a_rule_meets_none_of_them_and_its_report_says_how_many_there_are(came: GoingOnScene, when: dict[str, Any], met: int) -> None:
    assert await came.told(policy("refuse", when)) == [(met, met, 1)]
    assert came.judged == 1


async def test_a_rule_that_counts_judges_such_a_session_when_it_begins(came: GoingOnScene) -> None:
    """The report cannot say it: where the session began is not in the log of what goes on from it."""
    one = policy("refuse", HERE)
    await came.put(one)
    await came.put({**one, "counts": True})
    later = Tabs(came.client)
    await came.signs_in(later, came.quinn)
    with pytest.raises(AssertionError, match="This sign-in was denied by a risk policy of the organization"):
        await came.arrives(later, came.quinn)


async def test_a_rule_about_a_service_or_a_role_counts_only_those_that_it_may_be_about(came: GoingOnScene) -> None:
    rules = [
        policy("refuse", {**HERE, "services": [str(came.shop.service.id)]}, name="Shop"),
        policy("refuse", {**HERE, "services": [str(came.page.service.id)]}, name="Page"),
        policy("refuse", {**HERE, "roles": ["none"]}, name="Strangers"),
        policy("refuse", {**HERE, "roles": ["admin"]}, name="Administrators"),
    ]
    assert [by_session for _, _, by_session in await came.told(*rules)] == [1, 0, 1, 0]


async def test_a_first_sign_in_that_only_the_application_has_logged_is_not_judged_either(scene: GoingOnScene) -> None:
    """Acme does not know Mia yet, so its log has her way in, and not where she was: its application had no browser at hand."""
    await scene.arrives(Tabs(scene.client), scene.mia)
    (row,) = scene.people.rows("select provider, address from login_events where organization_id = %s", scene.acme.id)
    assert row == {"provider": "password", "address": None}
    assert await scene.told(policy("refuse", NOWHERE_USED), policy("refuse", {"ways": ["password"]})) == [(0, 0, 1)] * 2


async def test_whom_an_exception_leaves_out_is_not_counted(came: GoingOnScene) -> None:
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    person = {"kind": "person", "value": str(came.quinn.user), "ends_at": later}
    assert await came.told(policy("refuse"), exceptions=[person]) == [(1, 1, 0)]
    # Nobody knows where the session began.
    network = {"kind": "network", "value": "192.0.2.0/24", "ends_at": later}
    assert await came.told(policy("refuse"), exceptions=[person, network]) == [(0, 0, 0)]
    assert await came.told(policy("refuse"), exceptions=[network]) == [(0, 0, 1)]


async def test_no_address_is_kept_of_them(came: GoingOnScene) -> None:
    (row,) = came.people.rows("select address, country, spot from login_events where provider = 'session'")
    assert row == {"address": None, "country": None, "spot": None}


async def test_the_report_of_the_installation_counts_them_too(came: GoingOnScene) -> None:
    root = came.people.add("root@platform.example", platform_owner=True)
    path = "/api/platform/risk-policies"
    answer = await came.request("PUT", path, {"policies": [policy("refuse", NOWHERE_USED)]}, by=root)
    assert answer.status == 200, answer.body
    report = (await came.request("GET", f"{path}/report", by=root)).json()
    assert (report["judged"], report["policies"][0]["met"], report["policies"][0]["by_session"]) == (2, 0, 1)


@pytest.mark.parametrize(
    ("language", "says"),
    [
        (
            "en",
            (
                "One more sign-in used an existing session. Policies evaluate a session when it starts, so the report does not count "
                "this sign-in."
            ),
        ),
        ("de", "Eine weitere Anmeldung nutzte eine bestehende Sitzung"),
        ("es", "Otro inicio de sesión usó una sesión existente"),
        ("fr", "Les stratégies évaluent une session à son ouverture"),
    ],
)
async def test_the_page_says_it_beside_the_rule(came: GoingOnScene, language: str, says: str) -> None:
    await came.put(policy("refuse"))
    came.people.change(
        "update users set password_hash = (select password_hash from users where id = %s), email_verified_at = now(), language = %s"
        " where id = %s",
        came.mia.user,
        language,
        came.owner.user,
    )
    tabs = Tabs(came.client)
    await came.signs_in(tabs, came.owner)
    tab = await tabs.tab().open("/ui/o/acme/sign-in/risk")
    assert says in tab.page.text, tab.page.text


async def test_a_sign_in_that_goes_on_hides_no_impossible_travel(scene: GoingOnScene) -> None:
    """Nobody knows where it was, so the one before is what a person has travelled from."""
    tabs = Tabs(scene.client)
    await scene.signs_in(tabs, scene.quinn)
    scene.people.change("update login_events set country = 'DE', spot = '{525,134}' where user_id = %s", scene.quinn.user)
    await scene.arrives(tabs, scene.quinn)
    root = scene.people.add("root@platform.example", platform_owner=True)
    one, path = policy("tell_person"), "/api/platform/risk-policies"
    for counts in (False, True):
        assert (await scene.request("PUT", path, {"policies": [{**one, "counts": counts}]}, by=root)).status == 200
    (row,) = scene.people.rows("select risk_rules_asked(%s, null) as asked", scene.quinn.user)
    (asked,) = row["asked"]
    assert [(seen[1], seen[4]) for seen in asked["seen"]] == [("DE", [525, 134])]
