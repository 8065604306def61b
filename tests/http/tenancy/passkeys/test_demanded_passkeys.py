"""`all_factor`: an organization asks for a passkey of all of its members, or of those with a role of an application."""

from typing import Any, Final

import pytest

from core.domain.identifiers import UserId
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.client import Client, refused
from tests.http.people import People, Person
from tests.http.tenancy.test_sign_in_rules import ACME, BAD_REQUEST, FORBIDDEN, MFA_REQUIRED, SignInRuleScene

ROLE: Final[dict[str, Any]] = {"all_factor": "role_passkey", "all_factor_role": "shop/approver"}


class DemandScene(SignInRuleScene):
    """The owner has what may be asked for, the member and the admin have nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.equip(self.owner)

    def equip(self, person: Person) -> None:
        self.protect(person)
        self.people.give_passkey(person)

    async def make_role(self, slug: str = "approver", service: str = "shop", **more: Any) -> None:
        (await self.request("POST", f"{ACME}/services/{service}/roles", {"slug": slug, "name": slug, **more})).ok(201)

    async def assign(self, slug: str = "approver", **to: Any) -> str:
        made = await self.request("POST", f"{ACME}/services/shop/assignments", {"role": slug, **to})
        return str(made.ok(201)["id"])


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> DemandScene:
    return DemandScene(postern, people, client, log)


async def test_everybody_needs_a_passkey_and_a_second_factor(scene: DemandScene) -> None:
    answer = (await scene.change(all_factor="passkey", mfa_grace_days=0)).ok()
    assert (answer["all_factor"], answer["all_factor_role"]) == ("passkey", None)
    assert answer["all_required_since"] is not None
    assert scene.audited("organization.sign_in_rules.updated")[-1]["details"] == {
        "old_mfa_grace_days": 7,
        "new_mfa_grace_days": 0,
        "old_all_factor": "optional",
        "new_all_factor": "passkey",
    }
    for person in (scene.admin, scene.member):
        assert refused(await scene.enter(person)) == MFA_REQUIRED
    assert (await scene.enter(scene.owner)).status == 200
    # A factor alone is not enough, nor is a passkey: with that alone, the password would still be a way in.
    scene.protect(scene.admin)
    scene.people.give_passkey(scene.member)
    for person in (scene.admin, scene.member):
        assert refused(await scene.enter(person)) == MFA_REQUIRED
    scene.people.give_passkey(scene.admin)
    scene.people.change("update passkeys set second_factor_since = now() where user_id = %s", scene.member.user)
    for person in (scene.admin, scene.member):
        assert (await scene.enter(person)).status == 200
    (await scene.change(all_factor="optional")).ok()
    scene.people.change("delete from passkeys")
    assert (await scene.enter(scene.member)).status == 200


async def test_people_outside_are_asked_nothing(scene: DemandScene) -> None:
    (await scene.change(all_factor="passkey", mfa_grace_days=0)).ok()
    guest, elsewhere = scene.user(), scene.resident(scene.globex, "member")
    assert (await scene.client.get("/api/user", token=await scene.tenants.token_in(guest, scene.shop))).status == 200
    assert (await scene.request("GET", "/api/organizations/globex", by=elsewhere)).status == 200
    # A member is asked in the organization's services as well, and nowhere else.
    used = scene.tenants.uses(scene.member, scene.shop)
    assert refused(await scene.client.get("/api/user", token=await scene.tenants.token_in(used, scene.shop))) == MFA_REQUIRED
    scene.tenants.join(scene.member, scene.globex)
    assert (await scene.request("GET", "/api/organizations/globex", by=scene.member)).status == 200


@pytest.mark.parametrize("by", ["person", "role", "team", "everybody"])
async def test_those_with_a_role_need_it_however_they_hold_it(scene: DemandScene, by: str) -> None:
    await scene.make_role(given_to_everybody=by == "everybody")
    await scene.make_role("reader")
    answer = (await scene.change(**ROLE, mfa_grace_days=0)).ok()
    assert (answer["all_factor"], answer["all_factor_role"]) == ("role_passkey", "shop/approver")
    if by != "everybody":
        await scene.assign("reader", user_id=str(scene.member.user))
        assert (await scene.enter(scene.member)).status == 200
    if by == "person":
        await scene.assign(user_id=str(scene.member.user))
    elif by == "role":
        await scene.assign(organization_role="member")
    elif by == "team":
        (await scene.request("POST", f"{ACME}/teams", {"slug": "payers", "name": "Payers"})).ok(201)
        assert (await scene.request("PUT", f"{ACME}/teams/payers/members/{scene.member.user}")).status == 204
        await scene.assign(team="payers")
    assert refused(await scene.enter(scene.member)) == MFA_REQUIRED
    assert (await scene.enter(scene.admin)).status == (403 if by == "everybody" else 200)
    scene.equip(scene.member)
    assert (await scene.enter(scene.member)).status == 200


async def test_the_demand_ends_with_the_assignment_and_with_the_role(scene: DemandScene) -> None:
    await scene.make_role()
    (await scene.change(**ROLE, mfa_grace_days=0)).ok()
    assignment = await scene.assign(user_id=str(scene.member.user))
    assert refused(await scene.enter(scene.member)) == MFA_REQUIRED
    assert (await scene.request("DELETE", f"{ACME}/services/shop/assignments/{assignment}")).status == 204
    assert (await scene.enter(scene.member)).status == 200
    await scene.assign(user_id=str(scene.member.user))
    assert refused(await scene.enter(scene.member)) == MFA_REQUIRED
    assert (await scene.request("DELETE", f"{ACME}/services/shop/roles/approver")).status == 204
    assert (await scene.enter(scene.member)).status == 200
    shown = (await scene.show()).ok()
    assert (shown["all_factor"], shown["all_factor_role"]) == ("role_passkey", None)
    # Another rule can be changed meanwhile.
    (await scene.change(device_trust_days=3)).ok()


async def test_a_role_of_another_organization_or_service_reaches_nobody(scene: DemandScene) -> None:
    await scene.make_role("approver", "app")
    scene.people.change(
        "insert into service_roles (id, org_id, service_id, slug, name, created_at, updated_at)"
        " values (gen_random_uuid(), %s, %s, 'chief', 'Chief', now(), now())",
        scene.globex.id,
        scene.theirs.id,
    )
    for role in ("shop/approver", "app/chief", "app", "/", "app/", "nothing/approver", "app/approver/"):
        answer = await scene.change(all_factor="role_passkey", all_factor_role=role)
        assert refused(answer) == BAD_REQUEST
        assert answer.json()["error"].startswith("all_factor_role")
    (await scene.change(all_factor="role_passkey", all_factor_role="app/approver")).ok()


async def test_a_demand_that_is_not_whole_is_refused(scene: DemandScene) -> None:
    await scene.make_role()
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"all_factor": "role_passkey"}, "all_factor_role: specify the role"),
        ({"all_factor_role": "shop/approver"}, "all_factor_role: only with all_factor role_passkey"),
        ({"all_factor": "passkey", "all_factor_role": "shop/approver"}, "all_factor_role: only with all_factor role_passkey"),
        ({"all_factor": "everything"}, "all_factor"),
    )
    for rules, said in cases:
        answer = await scene.change(**rules)
        assert refused(answer) == BAD_REQUEST
        assert said in answer.json()["error"]
    assert (await scene.show()).ok()["all_required_since"] is None


async def test_whoever_asks_has_it_and_nobody_else_may_ask(scene: DemandScene) -> None:
    chief = scene.resident(scene.acme, "owner", "chief")
    assert refused(await scene.change(by=chief, all_factor="passkey")) == MFA_REQUIRED
    scene.protect(chief)
    answer = await scene.change(by=chief, all_factor="passkey")
    assert refused(answer) == MFA_REQUIRED
    assert answer.json()["error"] == "all_factor: add a passkey of your own first"
    assert refused(await scene.change(by=scene.member, all_factor="passkey")) == FORBIDDEN
    scene.people.give_passkey(chief)
    (await scene.change(by=chief, all_factor="passkey")).ok()


async def test_a_demand_that_reaches_others_gives_time_and_a_smaller_one_takes_none(scene: DemandScene) -> None:
    await scene.make_role()
    await scene.make_role("chief")
    for role in ("approver", "chief"):
        await scene.assign(role, user_id=str(scene.member.user))
    scene.joined(scene.member, "1 year")

    def began(ago: str) -> None:
        scene.people.change("update all_organizations set all_required_since = now() - %s::interval", ago)

    (await scene.change(**ROLE)).ok()
    assert (await scene.enter(scene.member)).status == 200
    began("8 days")
    assert refused(await scene.enter(scene.member)) == MFA_REQUIRED
    # Another role, and everybody: the seven days begin anew.
    larger: tuple[dict[str, Any], ...] = ({"all_factor_role": "shop/chief"}, {"all_factor": "passkey"})
    for rules in larger:
        (await scene.change(**rules)).ok()
        assert (await scene.enter(scene.member)).status == 200
        began("8 days")
        assert refused(await scene.enter(scene.member)) == MFA_REQUIRED
    since = (await scene.show()).ok()["all_required_since"]
    assert (await scene.change(**ROLE)).ok()["all_required_since"] == since
    assert refused(await scene.enter(scene.member)) == MFA_REQUIRED
    assert (await scene.change(all_factor="optional")).ok()["all_required_since"] is None


async def test_the_account_page_says_what_is_missing(scene: DemandScene) -> None:
    await scene.make_role()
    (await scene.change(**ROLE)).ok()
    await scene.assign(user_id=str(scene.member.user))
    summaries = scene.postern.identity.account_summaries
    assert [(one.name, one.passkey) for one in (await summaries.of(UserId(scene.member.user))).unmet] == [("Acme", True)]
    assert not (await summaries.of(UserId(scene.admin.user))).unmet
    scene.equip(scene.member)
    assert not (await summaries.of(UserId(scene.member.user))).unmet
