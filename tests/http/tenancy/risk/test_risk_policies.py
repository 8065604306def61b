"""Rules for risk over HTTP: who may change them, shadow first, what they do at each way in, and what a tenant's rules cannot do."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import pytest

from core.usecases.tenancy import risk
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops
from tests.http.client import Received, refused
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import PASSWORD, Browser, enable_mfa, unlimited
from tests.http.tenants import Tenant

ACME: Final = "/api/organizations/acme"
POLICIES: Final = f"{ACME}/risk-policies"
BAD_REQUEST, FORBIDDEN = (400, "BAD_REQUEST"), (403, "FORBIDDEN")
HERE: Final = {"networks": ["192.0.2.0/24"]}


def policy(action: str, when: dict[str, Any] | None = None, *, name: str = "A rule") -> dict[str, Any]:
    return {"id": str(uuid4()), "name": name, "when": HERE if when is None else when, "action": action, "counts": False}


class RiskScene(Shops):
    """Acme and Globex with a service each; Ada has a password."""

    async def prepare(self) -> None:
        self.owner, self.member = self.resident(self.acme, "owner"), self.resident(self.acme, "member")
        self.speaker = self.owner
        self.ada = await self.people.with_password(PASSWORD, "ada@home.example")

    async def put(self, *policies: dict[str, Any], by: Person | None = None, exceptions: Any = ()) -> Received:
        return await self.request("PUT", POLICIES, {"policies": list(policies), "exceptions": list(exceptions)}, by=by)

    async def count(self, *policies: dict[str, Any], exceptions: Any = ()) -> None:
        """Saves the rules in shadow, and then lets them count."""
        assert (await self.put(*policies, exceptions=exceptions)).status == 200
        answer = await self.put(*({**one, "counts": True} for one in policies), exceptions=exceptions)
        assert answer.status == 200, answer.body

    async def enter(self, person: Person | None = None, **more: Any) -> Received:
        """Signs in to the shop of Acme."""
        return await Browser(self.client).login(person or self.ada, org_slug="acme", service_slug="shop", **more)

    async def base(self, person: Person | None = None) -> Received:
        return await Browser(self.client).login(person or self.ada)

    async def look(self, signed_in: Received, tenant: Tenant) -> Received:
        """Reads the organization with the session of a sign-in."""
        return await self.client.request("GET", f"/api/organizations/{tenant.slug}", token=signed_in.json()["access_token"])


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> RiskScene:
    made = RiskScene(postern, people, unlimited(postern), log)
    await made.prepare()
    return made


async def test_who_may_manage_sees_and_sets_them(scene: RiskScene) -> None:
    assert (await scene.request("GET", POLICIES)).json() == {"policies": [], "exceptions": [], "count_since": None}
    one = policy("refuse", name="  Not from   here ")
    saved = (await scene.put(one)).json()
    assert saved["policies"][0]["name"] == "Not from here"
    assert (await scene.request("GET", POLICIES)).json() == saved
    assert saved["count_since"] is None
    assert refused(await scene.put(one, by=scene.member)) == FORBIDDEN
    assert refused(await scene.request("GET", POLICIES, by=scene.member)) == FORBIDDEN
    (entry,) = scene.audited("organization.risk_policies.updated")
    assert entry["details"] == {"old_risk_policies": [], "new_risk_policies": ["Not from here: refuse (shadow)"]}
    assert (await scene.put({**one, "name": "Not from here"})).status == 200
    assert len(scene.audited("organization.risk_policies.updated")) == 1


async def test_a_rule_stands_in_shadow_first_and_again_after_a_change(scene: RiskScene) -> None:
    one = policy("refuse")
    assert refused(await scene.put({**one, "counts": True})) == BAD_REQUEST
    await scene.put(one)
    assert (await scene.enter()).status == 200
    assert (await scene.put({**one, "counts": True})).status == 200
    assert refused(await scene.put({**one, "when": {"networks": ["198.51.100.0/24"]}, "counts": True})) == BAD_REQUEST
    assert refused(await scene.enter()) == FORBIDDEN


async def test_a_rule_that_loses_a_milder_one_before_it_goes_through_shadow_again(scene: RiskScene) -> None:
    """Whom the milder rule let in would be refused, and no report has shown them."""
    let_in, refuse = policy("nothing", {"ways": ["password"]}, name="Let in"), policy("refuse", name="Refuse")
    await scene.count(let_in, refuse)
    kept, refusing = {**let_in, "counts": True}, {**refuse, "counts": True}
    for wider in ([refusing], [refusing, kept], [let_in, refusing]):
        answer = await scene.put(*wider)
        assert refused(answer) == BAD_REQUEST
        assert "«Let in» exempts people from this risk policy" in answer.json()["error"]
    assert (await scene.enter()).status == 200
    assert (await scene.put(refuse)).status == 200
    assert (await scene.put(refusing)).status == 200
    assert refused(await scene.enter()) == FORBIDDEN
    # A stricter rule shields nobody from a milder one.
    assert (await scene.put(refusing, let_in)).status == 200
    assert (await scene.put(refusing, kept)).status == 200
    assert (await scene.put(kept)).status == 200


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ([policy("refuse", {})], "applies to everyone"),
        ([policy("refuse", {"countries": ["DE"]})], "cannot determine countries"),
        ([policy("refuse", {"networks": ["10.0.0.0/40"]})], "or a network"),
        ([policy("refuse", {"from_hour": 4, "until_hour": 4})], "never apply"),
        ([policy("refuse", name="First"), policy("passkey", name="Second")], "comes first"),
    ],
)
async def test_bad_rules_get_words(scene: RiskScene, bad: list[dict[str, Any]], says: str) -> None:
    answer = await scene.put(*bad)
    assert refused(answer) == BAD_REQUEST
    assert says in answer.json()["error"]


async def test_an_end_in_the_past_is_refused_and_one_that_passed_stays(scene: RiskScene) -> None:
    ended = {"kind": "network", "value": "192.0.2.1", "ends_at": (datetime.now(UTC) - timedelta(hours=1)).isoformat()}
    assert refused(await scene.put(exceptions=[ended])) == BAD_REQUEST


async def test_a_rule_that_refuses_says_so_and_the_log_names_it(scene: RiskScene) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    one = policy("refuse", name="Not from here")
    await scene.count(one)
    answer = await scene.enter()
    assert refused(answer) == FORBIDDEN
    assert "denied this sign-in" in answer.json()["error"]
    (event,) = (await scene.request("GET", f"{ACME}/risk-events")).json()["risk_events"]
    assert (event["policy_id"], event["policy_name"], event["action"], event["success"]) == (one["id"], "Not from here", "refuse", False)
    (logged,) = (await scene.request("GET", f"{ACME}/sign-ins?success=false")).json()["sign_ins"]
    assert logged["failure"] == "refused_by_rule"
    told = [one for one in scene.told() if one["name"] == "user.login.failed"]
    assert told[-1]["details"]["risk_policy"] == "Not from here"


async def test_a_rule_that_refuses_asks_for_no_second_factor_first(scene: RiskScene) -> None:
    await enable_mfa(scene.client, scene.people, scene.ada)
    await scene.count(policy("refuse", name="Not from here"))
    answer = await scene.enter()
    assert refused(answer) == FORBIDDEN
    assert "denied this sign-in" in answer.json()["error"]


async def test_a_wrong_password_hears_nothing_of_the_rule(scene: RiskScene) -> None:
    await scene.count(policy("refuse"))
    wrong = await Browser(scene.client).login(scene.ada, "wrong password", org_slug="acme", service_slug="shop")
    assert wrong.status == 401


async def test_exceptions_leave_people_and_networks_out_until_their_end(scene: RiskScene) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    one = policy("refuse")
    await scene.count(one, exceptions=[{"kind": "person", "value": str(scene.ada.user), "ends_at": later}])
    assert (await scene.enter()).status == 200
    scene.people.change(
        "update all_organizations set risk_exceptions = jsonb_set(risk_exceptions, '{0,ends_at}', to_jsonb(%s::text)) where slug = 'acme'",
        (datetime.now(UTC) - timedelta(seconds=1)).isoformat(),
    )
    assert refused(await scene.enter()) == FORBIDDEN


async def test_the_first_rule_that_fits_decides(scene: RiskScene) -> None:
    await scene.count(policy("nothing", {"ways": ["password"]}, name="Let in"), policy("refuse"))
    assert (await scene.enter()).status == 200
    (event,) = (await scene.request("GET", f"{ACME}/risk-events")).json()["risk_events"]
    assert (event["policy_name"], event["action"], event["success"]) == ("Let in", "nothing", True)


async def test_a_rule_that_tells_the_person_mails_them(scene: RiskScene, postern: Postern) -> None:
    browser, postbox = Browser(scene.client), Postbox(postern)
    await browser.login(scene.ada, org_slug="acme", service_slug="shop")
    await scene.count(policy("tell_person"))
    await postbox.empty()
    assert (await browser.login(scene.ada, org_slug="acme", service_slug="shop")).status == 200
    (mail,) = await postbox.empty()
    assert mail.to == scene.ada.email
    assert "sign-in" in mail.subject.lower()


async def test_who_has_no_second_factor_learns_that_one_is_asked_for(scene: RiskScene) -> None:
    await scene.count(policy("second_factor"))
    answer = await scene.enter()
    assert refused(answer) == FORBIDDEN
    assert "MFA for this sign-in" in answer.json()["error"]
    assert (await scene.base()).status == 200


async def test_a_trusted_device_gives_the_second_factor_where_a_rule_asks_for_it(scene: RiskScene) -> None:
    totp = await enable_mfa(scene.client, scene.people, scene.ada)
    browser = Browser(scene.client)
    first = (await browser.login(scene.ada)).json()
    scene.people.change("update mfa_secrets set last_step = 0")
    assert (await browser.verify(first["access_token"], totp.now(), trust_device=True)).status == 200
    into = {"org_slug": "acme", "service_slug": "shop"}
    assert "mfa_required" not in (await browser.login(scene.ada, **into)).json()
    await scene.count(policy("second_factor"))
    assert (await browser.login(scene.ada, **into)).json()["mfa_required"] is True
    await scene.count(policy("passkey"))
    awaiting = (await browser.login(scene.ada, **into)).json()
    scene.people.change("update mfa_secrets set last_step = 0")
    answer = await browser.verify(awaiting["access_token"], totp.now())
    assert refused(answer) == FORBIDDEN
    assert "passkey" in answer.json()["error"]


async def test_a_tenants_rule_closes_the_tenant_and_nothing_else(scene: RiskScene) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    scene.tenants.join(scene.ada, scene.globex)
    await scene.count(policy("refuse"))
    signed_in = await scene.base()
    assert signed_in.status == 200
    kept_out = await scene.look(signed_in, scene.acme)
    assert refused(kept_out) == FORBIDDEN
    assert "do not accept this session" in kept_out.json()["error"]
    assert (await scene.look(signed_in, scene.globex)).status == 200
    token = signed_in.json()["access_token"]
    assert refused(await scene.client.request("POST", f"{ACME}/select", token=token)) == FORBIDDEN
    assert (await scene.client.request("POST", "/api/organizations/globex/select", token=token)).status == 200


async def test_a_platform_owner_is_not_refused_at_the_base_address(scene: RiskScene) -> None:
    root = await scene.people.with_password(PASSWORD, "root@platform.example")
    scene.people.change("update users set is_platform_owner = true where id = %s", root.user)
    scene.tenants.join(root, scene.acme)
    await scene.count(policy("refuse"))
    assert (await scene.base(root)).status == 200


async def test_sessions_from_before_the_first_rule_stay(scene: RiskScene) -> None:
    scene.tenants.join(scene.ada, scene.acme)
    before = await scene.base()
    await scene.count(policy("refuse"))
    assert (await scene.look(before, scene.acme)).status == 200
    assert (await scene.request("GET", ACME)).status == 200


async def test_who_joins_after_the_sign_in_signs_in_again(scene: RiskScene) -> None:
    await scene.count(policy("refuse", {"networks": ["198.51.100.0/24"]}))
    signed_in = await scene.base()
    scene.tenants.join(scene.ada, scene.acme)
    assert refused(await scene.look(signed_in, scene.acme)) == FORBIDDEN
    assert (await scene.look(await scene.base(), scene.acme)).status == 200


async def test_a_tenant_that_lists_somebody_judges_by_what_it_has_seen_itself(scene: RiskScene) -> None:
    await scene.count(policy("refuse", {"new_device": False}))
    scene.tenants.join(scene.ada, scene.acme, listed=True)
    browser = Browser(scene.client)
    assert (await browser.login(scene.ada)).status == 200
    known = await browser.login(scene.ada)
    # The device is known, but not to Acme, whose rule so learns nothing of the sign-ins before.
    assert (await scene.look(known, scene.acme)).status == 200
    scene.people.change("update memberships set own_since = now() where user_id = %s", scene.ada.user)
    assert refused(await scene.look(await browser.login(scene.ada), scene.acme)) == FORBIDDEN


async def test_a_tenant_hears_of_no_sign_in_elsewhere(scene: RiskScene) -> None:
    scene.tenants.join(scene.ada, scene.acme, listed=True)
    await scene.count(policy("refuse"))
    assert (await scene.base()).status == 200
    assert refused(await scene.enter()) == FORBIDDEN
    assert (await scene.request("GET", f"{ACME}/risk-events")).json()["risk_events"] == []
    report = (await scene.request("GET", f"{POLICIES}/report")).json()
    assert (report["judged"], report["policies"][0]["met"]) == (0, 0)


async def test_the_report_says_whom_a_rule_in_shadow_would_have_met(scene: RiskScene) -> None:
    one = policy("refuse")
    await scene.put(one)
    assert (await scene.enter()).status == 200
    report = (await scene.request("GET", f"{POLICIES}/report")).json()
    assert report["judged"] == 1
    (told,) = report["policies"]
    assert (told["policy_id"], told["met"], told["people"], told["days"][0]["count"]) == (one["id"], 1, 1, 1)
    assert [(met["email"], met["ip_address"]) for met in told["latest"]] == [("ada@home.example", "192.0.2.1")]
    assert (report["your_policy"], report["your_action"]) == (one["id"], "refuse")
    assert refused(await scene.request("GET", f"{POLICIES}/report", by=scene.member)) == FORBIDDEN


@pytest.mark.parametrize(("most", "judged"), [(5, 3), (2, 2)])
async def test_the_report_reads_in_batches_and_only_so_many(
    scene: RiskScene, most: int, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(risk, "_BATCH", 1)
    monkeypatch.setattr(risk, "_MOST_BATCHES", most)
    await scene.put(policy("refuse"))
    for _ in range(3):
        assert (await scene.enter()).status == 200
    assert (await scene.request("GET", f"{POLICIES}/report")).json()["judged"] == judged
