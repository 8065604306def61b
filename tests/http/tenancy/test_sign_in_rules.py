"""Sign-in rules over HTTP: the callers who may change them. The rules count from the next request, refresh, sign-in and invitation on."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest
import trio

from core.domain.errors import Forbidden, NotFound
from core.domain.identifiers import OrganizationId
from core.domain.record.events import Actor
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.sign_in_rules import SignInRulesChange
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.cast import Shops, all_at_once
from tests.http.client import Client, Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.http.tenants import Tenant

ACME: Final = "/api/organizations/acme"
RULES: Final = f"{ACME}/sign-in-rules"
BAD_REQUEST, FORBIDDEN, NOT_FOUND = (400, "BAD_REQUEST"), (403, "FORBIDDEN"), (404, "NOT_FOUND")
MFA_REQUIRED, SIGN_IN_AGAIN, ENDED = (403, "MFA_REQUIRED"), (401, "REAUTHENTICATION_REQUIRED"), (401, "UNAUTHORIZED")
DEFAULTS: Final[dict[str, Any]] = {
    "mfa_policy": "optional",
    "mfa_required_since": None,
    "mfa_grace_days": 7,
    "device_trust_days": 30,
    "session_lifetime_hours": None,
    "session_idle_minutes": None,
    "most_sessions": None,
    "invitation_domains": [],
    "sign_in_links": True,
    "admin_factor": "optional",
    "metadata_clients": "off",
    "metadata_hosts": [],
    "registered_clients": "off",
    "agents": "allowed",
    "admin_required_since": None,
    "all_factor": "optional",
    "all_factor_role": None,
    "all_required_since": None,
    "passkey_offers": True,
    "afar_requests": "off",
    "shortest_password": None,
    "breached_at_sign_in": None,
    "registration_policy": "anybody",
    "registration_domains": [],
}


class SignInRuleScene(Shops):
    """Acme with an owner, an admin and a member, none of whom has a second factor, and two services."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner, self.admin, self.member = (self.resident(self.acme, role) for role in ("owner", "admin", "member"))
        self.speaker = self.owner

    async def show(self, *, by: Person | None = None) -> Received:
        return await self.request("GET", RULES, by=by)

    async def change(self, *, by: Person | None = None, **rules: Any) -> Received:
        return await self.request("PATCH", RULES, rules, by=by)

    async def enter(self, person: Person) -> Received:
        """Makes a request that every member may make in the organization."""
        return await self.request("GET", ACME, by=person)

    async def gather(self, answers: list[Received], *asking: Callable[[], Awaitable[Received]]) -> None:
        answers += await all_at_once(*asking)

    def protect(self, person: Person) -> None:
        """Gives the person a second factor, shown in this session."""
        self.people.change(
            "insert into mfa_secrets (user_id, sealed_secret, created_at, enabled_at) values (%s, '', now(), now() - interval '1 day')",
            person.user,
        )
        self.people.change("update sessions set second_factor_at = now() where user_id = %s", person.user)

    def require(self, tenant: Tenant | None = None, *, ago: str = "1 hour", grace_days: int = 0) -> None:
        """Sets the rule, some time ago."""
        self.people.change(
            "update all_organizations set mfa_required_since = now() - %s::interval, mfa_grace_days = %s where id = %s",
            ago,
            grace_days,
            (tenant or self.acme).id,
        )

    def joined(self, person: Person, ago: str) -> None:
        self.people.change("update memberships set created_at = now() - %s::interval where user_id = %s", ago, person.user)

    def limit_sessions(self, hours: int) -> None:
        self.people.change("update all_organizations set session_hours = %s where id = %s", hours, self.acme.id)

    def signed_in(self, person: Person, ago: str) -> None:
        self.people.change("update sessions set proved_at = now() - %s::interval where id = %s", ago, person.session)


@pytest.fixture
def scene(postern: Postern, people: People, client: Client, log: CapturedLog) -> SignInRuleScene:
    return SignInRuleScene(postern, people, client, log)


async def test_the_rules_are_read_and_changed_one_by_one_and_each_change_is_on_record(scene: SignInRuleScene) -> None:
    assert (await scene.show()).ok() == DEFAULTS
    scene.protect(scene.owner)
    answer = (await scene.change(mfa_policy="required", session_lifetime_hours=12)).ok()
    since = datetime.fromisoformat(answer["mfa_required_since"])
    assert timedelta() <= datetime.now(UTC) - since < timedelta(minutes=1)
    required = {**DEFAULTS, "mfa_policy": "required", "mfa_required_since": answer["mfa_required_since"], "session_lifetime_hours": 12}
    assert answer == required
    assert (await scene.change(mfa_policy="required", mfa_grace_days=14)).ok() == {**required, "mfa_grace_days": 14}
    domains = ["ACME.example ", "xn--strae-oqa.example", "acme.example"]
    last = (await scene.change(invitation_domains=domains, session_lifetime_hours=None, device_trust_days=0, mfa_policy="optional")).ok()
    assert last == {
        **DEFAULTS,
        "mfa_grace_days": 14,
        "device_trust_days": 0,
        "invitation_domains": ["acme.example", "xn--strae-oqa.example"],
    }
    assert (await scene.show(by=scene.admin)).ok() == last
    audited = scene.audited("organization.sign_in_rules.updated")
    assert [entry["details"] for entry in audited] == [
        {"old_mfa_policy": "optional", "new_mfa_policy": "required", "old_session_lifetime_hours": None, "new_session_lifetime_hours": 12},
        {"old_mfa_grace_days": 7, "new_mfa_grace_days": 14},
        {
            "old_mfa_policy": "required",
            "new_mfa_policy": "optional",
            "old_device_trust_days": 30,
            "new_device_trust_days": 0,
            "old_session_lifetime_hours": 12,
            "new_session_lifetime_hours": None,
            "old_invitation_domains": [],
            "new_invitation_domains": ["acme.example", "xn--strae-oqa.example"],
        },
    ]
    assert {(entry["organization_id"], entry["actor_id"], entry["target_id"]) for entry in audited} == {
        (scene.acme.id, scene.owner.user, str(scene.acme.id))
    }
    assert [event["name"] for event in scene.told()] == ["organization.sign_in_rules.updated"] * 3


async def test_what_changes_nothing_is_not_on_record(scene: SignInRuleScene) -> None:
    assert (await scene.change(mfa_policy="optional", invitation_domains=[])).ok() == DEFAULTS
    assert scene.audited() == []


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({}, "at least one"),
        ({"mfa_policy": "sometimes"}, "mfa_policy"),
        ({"mfa_grace_days": -1}, "mfa_grace_days"),
        ({"mfa_grace_days": 91}, "mfa_grace_days"),
        ({"device_trust_days": 91}, "device_trust_days"),
        ({"session_lifetime_hours": 0}, "session_lifetime_hours"),
        ({"session_lifetime_hours": 2161}, "session_lifetime_hours"),
        ({"session_idle_minutes": 4}, "session_idle_minutes"),
        ({"session_idle_minutes": 43201}, "session_idle_minutes"),
        ({"most_sessions": 0}, "most_sessions"),
        ({"most_sessions": 101}, "most_sessions"),
        ({"invitation_domains": ["@acme.example"]}, "invitation_domains"),
        ({"invitation_domains": ["no domain"]}, "invitation_domains"),
        ({"invitation_domains": [f"d{number}.example" for number in range(51)]}, "invitation_domains"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused_and_named(scene: SignInRuleScene, rules: dict[str, Any], named: str) -> None:
    answer = await scene.change(**rules)
    assert refused(answer) == BAD_REQUEST
    assert named in answer.json()["error"]
    assert (await scene.show()).ok() == DEFAULTS


async def test_only_who_manages_the_settings_gets_to_the_rules_and_only_with_a_fresh_proof(scene: SignInRuleScene) -> None:
    stranger = scene.resident(scene.globex, "owner")
    keeper = scene.resident(scene.acme, scene.tenants.role(scene.acme, "keeper", [Capability.SETTINGS_MANAGE]))
    for person in (scene.member, stranger):
        assert refused(await scene.show(by=person)) == FORBIDDEN
        assert refused(await scene.change(by=person, mfa_grace_days=1)) == FORBIDDEN
    assert (await scene.change(by=keeper, mfa_grace_days=1)).ok()["mfa_grace_days"] == 1
    scene.signed_in(keeper, "1 hour")
    assert refused(await scene.change(by=keeper, mfa_grace_days=2)) == SIGN_IN_AGAIN
    assert refused(await scene.request("GET", "/api/organizations/nowhere/sign-in-rules")) == NOT_FOUND


async def test_another_organization_keeps_its_own_rules(scene: SignInRuleScene) -> None:
    scene.protect(scene.owner)
    (await scene.change(mfa_policy="required", mfa_grace_days=0, session_lifetime_hours=1, invitation_domains=["acme.example"])).ok()
    theirs = scene.resident(scene.globex, "owner")
    assert (await scene.request("GET", "/api/organizations/globex/sign-in-rules", by=theirs)).ok() == DEFAULTS
    scene.signed_in(theirs, "2 hours")
    assert (await scene.request("GET", "/api/organizations/globex", by=theirs)).status == 200


async def test_nobody_requires_a_second_factor_who_has_none(scene: SignInRuleScene) -> None:
    answer = await scene.change(mfa_policy="required", mfa_grace_days=0)
    assert refused(answer) == MFA_REQUIRED
    assert answer.json()["error"].startswith("mfa_policy:")
    assert (await scene.show()).ok() == DEFAULTS
    # A set-up that is only begun does not count.
    scene.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at) values (%s, '', now())", scene.owner.user)
    assert refused(await scene.change(mfa_policy="required")) == MFA_REQUIRED


async def test_of_two_changes_at_once_neither_is_lost(scene: SignInRuleScene) -> None:
    changes = [partial(scene.change, mfa_grace_days=21), partial(scene.change, by=scene.admin, device_trust_days=7)]
    answers: list[Received] = []
    async with trio.open_nursery() as nursery, scene.postern.foundation.unit_of_work() as uow:
        # Both requests have come as far as they can before one of them goes on.
        await uow.organizations.find_for_update(OrganizationId(scene.acme.id))
        nursery.start_soon(scene.gather, answers, *changes)
        await scene.people.all_wait(2)
    assert [answer.status for answer in answers] == [200, 200]
    rules = (await scene.show()).ok()
    assert (rules["mfa_grace_days"], rules["device_trust_days"]) == (21, 7)
    assert len(scene.audited()) == 2


async def test_who_loses_the_right_meanwhile_changes_nothing(scene: SignInRuleScene) -> None:
    admitted = await scene.postern.tenancy.callers.resolve_member(await scene.tenants.token(scene.admin), "acme")
    assert admitted.may(Capability.SETTINGS_MANAGE)
    async with scene.postern.foundation.unit_of_work() as uow:
        await uow.organizations.find_for_update(admitted.organization)
        answers: list[Received] = []

        async def change() -> None:
            answers.append(await scene.change(by=scene.admin, mfa_grace_days=90))

        async def demote() -> None:
            await scene.people.somebody_waits()
            await uow.members.remove(admitted.organization, admitted.user)
            await uow.commit()

        await all_at_once(change, demote)
    assert [refused(answer) for answer in answers] == [FORBIDDEN]
    assert (await scene.show()).ok() == DEFAULTS


async def test_an_organization_that_goes_meanwhile_has_no_rules_and_takes_none(scene: SignInRuleScene) -> None:
    admitted = await scene.postern.tenancy.callers.resolve_member(await scene.tenants.token(scene.owner), "acme")
    scene.people.change("update all_organizations set deleted_at = now() where id = %s", scene.acme.id)
    with pytest.raises(NotFound):
        await scene.postern.tenancy.sign_in_rules.get(admitted)
    with pytest.raises(Forbidden):
        await scene.postern.tenancy.sign_in_rules.change(admitted, SignInRulesChange(mfa_grace_days=1), Actor(admitted.user))


async def test_a_member_without_a_second_factor_is_refused_once_the_grace_period_is_over(scene: SignInRuleScene) -> None:
    scene.protect(scene.admin)
    in_acme = scene.tenants.session(scene.member, scene.acme)
    scene.require(ago="2 days", grace_days=3)
    scene.joined(scene.member, "1 year")
    assert (await scene.enter(scene.member)).status == 200
    scene.require(ago="4 days", grace_days=3)
    for person, place in ((scene.member, None), (in_acme, scene.acme), (scene.owner, None)):
        scene.joined(person, "1 year")
        token = await scene.tenants.token(person, place)
        assert refused(await scene.client.get(ACME, token=token)) == MFA_REQUIRED
        assert refused(await scene.client.get(f"{ACME}/members", token=token)) == MFA_REQUIRED
        # Their own account stays open to them, and so does the set-up.
        assert (await scene.client.get("/api/user", token=token)).status == 200
        assert (await scene.client.get("/api/user/mfa/status", token=token)).status == 200
    assert refused(await scene.request("POST", f"{ACME}/select", by=scene.member)) == MFA_REQUIRED
    assert (await scene.request("GET", "/api/organizations", by=scene.member)).status == 200
    assert (await scene.enter(scene.admin)).status == 200
    # The next request after the set-up is let in, and the next after turning it off is not.
    scene.protect(scene.member)
    assert (await scene.enter(scene.member)).status == 200
    scene.people.change("delete from mfa_secrets where user_id = %s", scene.member.user)
    assert refused(await scene.enter(scene.member)) == MFA_REQUIRED


async def test_who_joins_later_has_the_whole_grace_period(scene: SignInRuleScene) -> None:
    scene.require(ago="1 year", grace_days=3)
    scene.joined(scene.member, "2 days")
    assert (await scene.enter(scene.member)).status == 200
    scene.joined(scene.member, "4 days")
    assert refused(await scene.enter(scene.member)) == MFA_REQUIRED


async def test_the_rule_costs_a_request_no_further_round_trip(scene: SignInRuleScene) -> None:
    scene.protect(scene.member)
    token = await scene.tenants.token(scene.member)

    async def round_trips(path: str) -> list[int]:
        scene.log.entries.clear()
        assert (await scene.client.get(path, token=token)).status == 200
        return [line["db_round_trips"] for line in scene.log.events("request")]

    before = [await round_trips(path) for path in ("/api/user", ACME)]
    scene.require()
    scene.limit_sessions(1)
    assert [await round_trips(path) for path in ("/api/user", ACME)] == before


async def test_administrators_need_more_than_members(scene: SignInRuleScene) -> None:
    scene.protect(scene.owner)
    answer = (await scene.change(admin_factor="second_factor", mfa_grace_days=0)).ok()
    assert answer == {
        **DEFAULTS,
        "admin_factor": "second_factor",
        "mfa_grace_days": 0,
        "admin_required_since": answer["admin_required_since"],
    }
    assert answer["admin_required_since"] is not None
    assert scene.audited("organization.sign_in_rules.updated")[-1]["details"] == {
        "old_mfa_grace_days": 7,
        "new_mfa_grace_days": 0,
        "old_admin_factor": "optional",
        "new_admin_factor": "second_factor",
    }
    # Members have nothing to set up, administrators have, and so has a member with the role by a team.
    assert (await scene.enter(scene.member)).status == 200
    assert refused(await scene.enter(scene.admin)) == MFA_REQUIRED
    assert refused(await scene.client.get("/api/user", token=await scene.tenants.token(scene.admin, scene.acme))) != MFA_REQUIRED
    (await scene.request("POST", f"{ACME}/teams", {"slug": "chiefs", "name": "Chiefs", "role": "admin"})).ok(201)
    assert (await scene.request("PUT", f"{ACME}/teams/chiefs/members/{scene.member.user}")).status == 204
    assert refused(await scene.enter(scene.member)) == MFA_REQUIRED
    for person in (scene.admin, scene.member):
        scene.protect(person)
        assert (await scene.enter(person)).status == 200
    (await scene.change(admin_factor="optional")).ok()
    scene.people.change("delete from mfa_secrets")
    assert (await scene.enter(scene.admin)).status == 200


async def test_administrators_who_need_a_passkey_need_a_second_factor_too(scene: SignInRuleScene) -> None:
    assert refused(await scene.change(admin_factor="passkey")) == MFA_REQUIRED
    scene.protect(scene.owner)
    answer = await scene.change(admin_factor="passkey")
    assert refused(answer) == MFA_REQUIRED
    assert answer.json()["error"] == "admin_factor: add a passkey of your own first"
    scene.people.give_passkey(scene.owner)
    (await scene.change(admin_factor="passkey", mfa_grace_days=0)).ok()
    assert (await scene.enter(scene.owner)).status == 200
    scene.protect(scene.admin)
    assert refused(await scene.enter(scene.admin)) == MFA_REQUIRED
    scene.people.give_passkey(scene.admin)
    assert (await scene.enter(scene.admin)).status == 200
    # A passkey alone leaves the password as a way in.
    scene.people.change("delete from mfa_secrets where user_id = %s", scene.admin.user)
    assert refused(await scene.enter(scene.admin)) == MFA_REQUIRED
    assert (await scene.enter(scene.member)).status == 200


async def test_a_stricter_demand_gives_time_and_a_milder_one_takes_none(scene: SignInRuleScene) -> None:
    scene.protect(scene.owner)
    scene.people.give_passkey(scene.owner)
    (await scene.change(admin_factor="second_factor")).ok()
    scene.people.change("update all_organizations set admin_required_since = now() - interval '8 days'")
    scene.joined(scene.admin, "1 year")
    assert refused(await scene.enter(scene.admin)) == MFA_REQUIRED
    (await scene.change(admin_factor="passkey")).ok()
    # The seven days begin anew, for what was not asked before.
    assert (await scene.enter(scene.admin)).status == 200
    since = (await scene.change(admin_factor="second_factor")).ok()["admin_required_since"]
    assert since == (await scene.show()).ok()["admin_required_since"]


async def test_another_organizations_demand_on_administrators_is_nothing_here(scene: SignInRuleScene) -> None:
    scene.people.change(
        "update all_organizations set admin_factor = 'passkey', admin_required_since = now() - interval '1 year' where id = %s",
        scene.globex.id,
    )
    scene.joined(scene.admin, "1 year")
    assert (await scene.enter(scene.admin)).status == 200
    scene.tenants.join(scene.admin, scene.globex, "member")
    assert (await scene.request("GET", "/api/organizations/globex", by=scene.admin)).status == 200


async def test_while_impersonating_the_second_factor_of_who_acts_counts(scene: SignInRuleScene) -> None:
    scene.require()
    governor = scene.people.add(platform_owner=True)
    acting = scene.tenants.session(scene.owner)
    scene.people.change(
        "update sessions set impersonator_id = %s, impersonation_id = id, proved_at = null where id = %s", governor.user, acting.session
    )
    claims: dict[str, Any] = {
        "impersonator": str(governor.user),
        "impersonation_session": str(acting.session),
        "token_use": "impersonation",
    }
    token = await scene.tenants.token(acting, **claims)
    assert refused(await scene.client.get(ACME, token=token)) == MFA_REQUIRED
    scene.protect(governor)
    assert (await scene.client.get(ACME, token=token)).status == 200
    assert refused(await scene.client.request("PATCH", RULES, body={"mfa_policy": "optional"}, token=token)) == FORBIDDEN


async def test_a_service_is_closed_to_such_a_member_and_open_to_others(scene: SignInRuleScene) -> None:
    scene.require()
    member, guest = scene.tenants.uses(scene.member, scene.shop), scene.user()
    token = await scene.tenants.token_in(member, scene.shop)
    assert refused(await scene.client.get("/api/user", token=token)) == MFA_REQUIRED
    assert refused(await scene.client.get("/api/subscription", token=token)) == MFA_REQUIRED
    assert (await scene.client.get("/api/user", token=await scene.tenants.token_in(guest, scene.shop))).status == 200
    scene.protect(member)
    assert (await scene.client.get("/api/user", token=token)).status == 200


async def test_signing_in_stays_open_on_the_platform_and_not_in_the_service(scene: SignInRuleScene) -> None:
    visitor = Browser(unlimited(scene.postern))
    person = scene.tenants.join(await scene.people.with_password(PASSWORD), scene.acme)
    place = {"org_slug": "acme", "service_slug": "shop"}
    scene.require(grace_days=1)
    assert (await visitor.login(person, **place)).status == 200
    scene.require()
    assert refused(await visitor.login(person, **place)) == MFA_REQUIRED
    assert (await visitor.login(person)).status == 200
    guest = await scene.people.with_password(PASSWORD)
    assert (await visitor.login(guest, **place)).status == 200


async def test_a_refresh_obeys_the_rules_and_the_token_is_not_used_up(scene: SignInRuleScene) -> None:
    visitor = Browser(unlimited(scene.postern))
    person = scene.tenants.join(await scene.people.with_password(PASSWORD), scene.acme)
    tokens = await visitor.tokens(person)
    in_acme = (await scene.client.post(f"{ACME}/select", token=tokens["access_token"])).ok()
    scene.require()
    assert refused(await visitor.refresh(in_acme["refresh_token"])) == MFA_REQUIRED
    assert scene.people.rows("select from refresh_tokens where rotated_at is not null") == []
    assert (await visitor.refresh(tokens["refresh_token"])).status == 200
    scene.protect(person)
    again = (await visitor.refresh(in_acme["refresh_token"])).ok()
    scene.limit_sessions(1)
    scene.people.change("update sessions set proved_at = now() - interval '61 minutes' where user_id = %s", person.user)
    assert refused(await visitor.refresh(again["refresh_token"])) == ENDED


async def test_a_session_is_over_when_it_has_lasted_as_long_as_the_organization_says(scene: SignInRuleScene) -> None:
    in_acme = scene.tenants.session(scene.member, scene.acme)
    in_shop = scene.tenants.session(scene.user(), scene.shop)
    places: list[tuple[Person, Any, Callable[[], str]]] = [
        (in_acme, scene.acme, lambda: ACME),
        (in_acme, scene.acme, lambda: "/api/user"),
        (in_shop, scene.shop, lambda: "/api/user"),
    ]
    for ago, status in (("59 minutes", 200), ("61 minutes", 401)):
        for person, place, path in places:
            scene.signed_in(person, ago)
            token = await scene.tenants.token(person, place)
            scene.limit_sessions(24)
            assert (await scene.client.get(path(), token=token)).status == 200
            scene.limit_sessions(1)
            answer = await scene.client.get(path(), token=token)
            assert answer.status == status
            if status == 401:
                assert refused(answer) == ENDED
    # A session without a recorded proof counts from its beginning.
    scene.people.change("update sessions set proved_at = null where id = %s", in_acme.session)
    assert (await scene.client.get(ACME, token=await scene.tenants.token(in_acme, scene.acme))).status == 200


async def test_a_session_elsewhere_goes_on_and_needs_a_new_sign_in_for_this_organization(scene: SignInRuleScene) -> None:
    scene.limit_sessions(1)
    scene.tenants.join(scene.member, scene.globex)
    scene.signed_in(scene.member, "61 minutes")
    answer = await scene.enter(scene.member)
    assert refused(answer) == SIGN_IN_AGAIN
    assert 'max_age="3600"' in (answer.header("www-authenticate") or "")
    assert refused(await scene.request("POST", f"{ACME}/select", by=scene.member)) == SIGN_IN_AGAIN
    assert (await scene.request("GET", "/api/organizations/globex", by=scene.member)).status == 200
    # A second factor that was set up since proves nothing, because a thief can set one up.
    scene.people.change("update sessions set second_factor_at = now() where id = %s", scene.member.session)
    assert refused(await scene.enter(scene.member)) == SIGN_IN_AGAIN
    scene.signed_in(scene.member, "1 minute")
    assert (await scene.enter(scene.member)).status == 200
    assert (await scene.request("POST", f"{ACME}/select", by=scene.member)).status == 200


async def invite(scene: SignInRuleScene, email: str) -> Received:
    return await scene.request("POST", f"{ACME}/invitations", {"email": email, "role": "member"})


async def test_invitations_go_to_the_domains_that_the_organization_names(scene: SignInRuleScene) -> None:
    early = (await invite(scene, "early@elsewhere.example")).ok()
    (await scene.change(invitation_domains=["acme.example"])).ok()
    assert (await invite(scene, "Ada@ACME.example")).status == 200
    for email in ("ada@elsewhere.example", "ada@sub.acme.example", "ada@acme.example.net"):
        answer = await invite(scene, email)
        assert refused(answer) == BAD_REQUEST
        assert answer.json()["error"] == "email: this organization invites only email addresses of acme.example"
    # Nobody can accept an invitation that was made before.
    assert refused(await scene.client.post("/api/invitations/accept", {"token": early["token"]})) == BAD_REQUEST
    behalf = f"{ACME}/invitations/{early['invitation']['id']}/accept"
    assert refused(await scene.request("POST", behalf)) == BAD_REQUEST
    (await scene.change(invitation_domains=[])).ok()
    assert (await scene.client.post("/api/invitations/accept", {"token": early["token"]})).status == 200
