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
    "invitation_domains": [],
    "sign_in_links": True,
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
def house(postern: Postern, people: People, client: Client, log: CapturedLog) -> SignInRuleScene:
    return SignInRuleScene(postern, people, client, log)


async def test_the_rules_are_read_and_changed_one_by_one_and_each_change_is_on_record(house: SignInRuleScene) -> None:
    assert (await house.show()).ok() == DEFAULTS
    house.protect(house.owner)
    answer = (await house.change(mfa_policy="required", session_lifetime_hours=12)).ok()
    since = datetime.fromisoformat(answer["mfa_required_since"])
    assert timedelta() <= datetime.now(UTC) - since < timedelta(minutes=1)
    required = {**DEFAULTS, "mfa_policy": "required", "mfa_required_since": answer["mfa_required_since"], "session_lifetime_hours": 12}
    assert answer == required
    assert (await house.change(mfa_policy="required", mfa_grace_days=14)).ok() == {**required, "mfa_grace_days": 14}
    domains = ["ACME.example ", "xn--strae-oqa.example", "acme.example"]
    last = (await house.change(invitation_domains=domains, session_lifetime_hours=None, device_trust_days=0, mfa_policy="optional")).ok()
    assert last == {
        **DEFAULTS,
        "mfa_grace_days": 14,
        "device_trust_days": 0,
        "invitation_domains": ["acme.example", "xn--strae-oqa.example"],
    }
    assert (await house.show(by=house.admin)).ok() == last
    audited = house.audited("organization.sign_in_rules.updated")
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
        (house.acme.id, house.owner.user, str(house.acme.id))
    }
    assert [event["name"] for event in house.told()] == ["organization.sign_in_rules.updated"] * 3


async def test_what_changes_nothing_is_not_on_record(house: SignInRuleScene) -> None:
    assert (await house.change(mfa_policy="optional", invitation_domains=[])).ok() == DEFAULTS
    assert house.audited() == []


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
        ({"invitation_domains": ["@acme.example"]}, "invitation_domains"),
        ({"invitation_domains": ["no domain"]}, "invitation_domains"),
        ({"invitation_domains": [f"d{number}.example" for number in range(51)]}, "invitation_domains"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused_and_named(house: SignInRuleScene, rules: dict[str, Any], named: str) -> None:
    answer = await house.change(**rules)
    assert refused(answer) == BAD_REQUEST
    assert named in answer.json()["error"]
    assert (await house.show()).ok() == DEFAULTS


async def test_only_who_manages_the_settings_gets_to_the_rules_and_only_with_a_fresh_proof(house: SignInRuleScene) -> None:
    stranger = house.resident(house.globex, "owner")
    keeper = house.resident(house.acme, house.tenants.role(house.acme, "keeper", [Capability.SETTINGS_MANAGE]))
    for person in (house.member, stranger):
        assert refused(await house.show(by=person)) == FORBIDDEN
        assert refused(await house.change(by=person, mfa_grace_days=1)) == FORBIDDEN
    assert (await house.change(by=keeper, mfa_grace_days=1)).ok()["mfa_grace_days"] == 1
    house.signed_in(keeper, "1 hour")
    assert refused(await house.change(by=keeper, mfa_grace_days=2)) == SIGN_IN_AGAIN
    assert refused(await house.request("GET", "/api/organizations/nowhere/sign-in-rules")) == NOT_FOUND


async def test_another_organization_keeps_its_own_rules(house: SignInRuleScene) -> None:
    house.protect(house.owner)
    (await house.change(mfa_policy="required", mfa_grace_days=0, session_lifetime_hours=1, invitation_domains=["acme.example"])).ok()
    theirs = house.resident(house.globex, "owner")
    assert (await house.request("GET", "/api/organizations/globex/sign-in-rules", by=theirs)).ok() == DEFAULTS
    house.signed_in(theirs, "2 hours")
    assert (await house.request("GET", "/api/organizations/globex", by=theirs)).status == 200


async def test_nobody_requires_a_second_factor_who_has_none(house: SignInRuleScene) -> None:
    answer = await house.change(mfa_policy="required", mfa_grace_days=0)
    assert refused(answer) == MFA_REQUIRED
    assert answer.json()["error"].startswith("mfa_policy:")
    assert (await house.show()).ok() == DEFAULTS
    # A set-up that is only begun does not count.
    house.people.change("insert into mfa_secrets (user_id, sealed_secret, created_at) values (%s, '', now())", house.owner.user)
    assert refused(await house.change(mfa_policy="required")) == MFA_REQUIRED


async def test_of_two_changes_at_once_neither_is_lost(house: SignInRuleScene) -> None:
    changes = [partial(house.change, mfa_grace_days=21), partial(house.change, by=house.admin, device_trust_days=7)]
    answers: list[Received] = []
    async with trio.open_nursery() as nursery, house.postern.foundation.unit_of_work() as uow:
        # Both requests have come as far as they can before one of them goes on.
        await uow.organizations.hold(OrganizationId(house.acme.id))
        nursery.start_soon(house.gather, answers, *changes)
        await house.people.all_wait(2)
    assert [answer.status for answer in answers] == [200, 200]
    rules = (await house.show()).ok()
    assert (rules["mfa_grace_days"], rules["device_trust_days"]) == (21, 7)
    assert len(house.audited()) == 2


async def test_who_loses_the_right_meanwhile_changes_nothing(house: SignInRuleScene) -> None:
    admitted = await house.postern.tenancy.callers.resolve_member(await house.tenants.token(house.admin), "acme")
    assert admitted.may(Capability.SETTINGS_MANAGE)
    async with house.postern.foundation.unit_of_work() as uow:
        await uow.organizations.hold(admitted.organization)
        answers: list[Received] = []

        async def change() -> None:
            answers.append(await house.change(by=house.admin, mfa_grace_days=90))

        async def demote() -> None:
            await house.people.somebody_waits()
            await uow.members.remove(admitted.organization, admitted.user)
            await uow.commit()

        await all_at_once(change, demote)
    assert [refused(answer) for answer in answers] == [FORBIDDEN]
    assert (await house.show()).ok() == DEFAULTS


async def test_an_organization_that_goes_meanwhile_has_no_rules_and_takes_none(house: SignInRuleScene) -> None:
    admitted = await house.postern.tenancy.callers.resolve_member(await house.tenants.token(house.owner), "acme")
    house.people.change("update all_organizations set deleted_at = now() where id = %s", house.acme.id)
    with pytest.raises(NotFound):
        await house.postern.tenancy.sign_in_rules.get(admitted)
    with pytest.raises(Forbidden):
        await house.postern.tenancy.sign_in_rules.change(admitted, SignInRulesChange(mfa_grace_days=1), Actor(admitted.user))


async def test_a_member_without_a_second_factor_is_refused_once_the_grace_period_is_over(house: SignInRuleScene) -> None:
    house.protect(house.admin)
    in_acme = house.tenants.session(house.member, house.acme)
    house.require(ago="2 days", grace_days=3)
    house.joined(house.member, "1 year")
    assert (await house.enter(house.member)).status == 200
    house.require(ago="4 days", grace_days=3)
    for person, place in ((house.member, None), (in_acme, house.acme), (house.owner, None)):
        house.joined(person, "1 year")
        token = await house.tenants.token(person, place)
        assert refused(await house.client.get(ACME, token=token)) == MFA_REQUIRED
        assert refused(await house.client.get(f"{ACME}/members", token=token)) == MFA_REQUIRED
        # Their own account stays open to them, and so does the set-up.
        assert (await house.client.get("/api/user", token=token)).status == 200
        assert (await house.client.get("/api/user/mfa/status", token=token)).status == 200
    assert refused(await house.request("POST", f"{ACME}/select", by=house.member)) == MFA_REQUIRED
    assert (await house.request("GET", "/api/organizations", by=house.member)).status == 200
    assert (await house.enter(house.admin)).status == 200
    # The next request after the set-up is let in, and the next after turning it off is not.
    house.protect(house.member)
    assert (await house.enter(house.member)).status == 200
    house.people.change("delete from mfa_secrets where user_id = %s", house.member.user)
    assert refused(await house.enter(house.member)) == MFA_REQUIRED


async def test_who_joins_later_has_the_whole_grace_period(house: SignInRuleScene) -> None:
    house.require(ago="1 year", grace_days=3)
    house.joined(house.member, "2 days")
    assert (await house.enter(house.member)).status == 200
    house.joined(house.member, "4 days")
    assert refused(await house.enter(house.member)) == MFA_REQUIRED


async def test_the_rule_costs_a_request_no_further_round_trip(house: SignInRuleScene) -> None:
    house.protect(house.member)
    token = await house.tenants.token(house.member)

    async def round_trips(path: str) -> list[int]:
        house.log.entries.clear()
        assert (await house.client.get(path, token=token)).status == 200
        return [line["db_round_trips"] for line in house.log.events("request")]

    before = [await round_trips(path) for path in ("/api/user", ACME)]
    house.require()
    house.limit_sessions(1)
    assert [await round_trips(path) for path in ("/api/user", ACME)] == before


async def test_while_impersonating_the_second_factor_of_who_acts_counts(house: SignInRuleScene) -> None:
    house.require()
    governor = house.people.add(platform_owner=True)
    acting = house.tenants.session(house.owner)
    house.people.change(
        "update sessions set impersonator_id = %s, impersonation_id = id, proved_at = null where id = %s", governor.user, acting.session
    )
    claims: dict[str, Any] = {
        "impersonator": str(governor.user),
        "impersonation_session": str(acting.session),
        "token_use": "impersonation",
    }
    token = await house.tenants.token(acting, **claims)
    assert refused(await house.client.get(ACME, token=token)) == MFA_REQUIRED
    house.protect(governor)
    assert (await house.client.get(ACME, token=token)).status == 200
    assert refused(await house.client.request("PATCH", RULES, body={"mfa_policy": "optional"}, token=token)) == FORBIDDEN


async def test_a_service_is_closed_to_such_a_member_and_open_to_others(house: SignInRuleScene) -> None:
    house.require()
    member, guest = house.tenants.uses(house.member, house.shop), house.user()
    token = await house.tenants.token_in(member, house.shop)
    assert refused(await house.client.get("/api/user", token=token)) == MFA_REQUIRED
    assert refused(await house.client.get("/api/subscription", token=token)) == MFA_REQUIRED
    assert (await house.client.get("/api/user", token=await house.tenants.token_in(guest, house.shop))).status == 200
    house.protect(member)
    assert (await house.client.get("/api/user", token=token)).status == 200


async def test_signing_in_stays_open_on_the_platform_and_not_in_the_service(house: SignInRuleScene) -> None:
    visitor = Browser(unlimited(house.postern))
    person = house.tenants.join(await house.people.with_password(PASSWORD), house.acme)
    place = {"org_slug": "acme", "service_slug": "shop"}
    house.require(grace_days=1)
    assert (await visitor.login(person, **place)).status == 200
    house.require()
    assert refused(await visitor.login(person, **place)) == MFA_REQUIRED
    assert (await visitor.login(person)).status == 200
    guest = await house.people.with_password(PASSWORD)
    assert (await visitor.login(guest, **place)).status == 200


async def test_a_refresh_obeys_the_rules_and_the_token_is_not_used_up(house: SignInRuleScene) -> None:
    visitor = Browser(unlimited(house.postern))
    person = house.tenants.join(await house.people.with_password(PASSWORD), house.acme)
    tokens = await visitor.tokens(person)
    in_acme = (await house.client.post(f"{ACME}/select", token=tokens["access_token"])).ok()
    house.require()
    assert refused(await visitor.refresh(in_acme["refresh_token"])) == MFA_REQUIRED
    assert house.people.rows("select from refresh_tokens where rotated_at is not null") == []
    assert (await visitor.refresh(tokens["refresh_token"])).status == 200
    house.protect(person)
    again = (await visitor.refresh(in_acme["refresh_token"])).ok()
    house.limit_sessions(1)
    house.people.change("update sessions set proved_at = now() - interval '61 minutes' where user_id = %s", person.user)
    assert refused(await visitor.refresh(again["refresh_token"])) == ENDED


async def test_a_session_is_over_when_it_has_lasted_as_long_as_the_organization_says(house: SignInRuleScene) -> None:
    in_acme = house.tenants.session(house.member, house.acme)
    in_shop = house.tenants.session(house.user(), house.shop)
    places: list[tuple[Person, Any, Callable[[], str]]] = [
        (in_acme, house.acme, lambda: ACME),
        (in_acme, house.acme, lambda: "/api/user"),
        (in_shop, house.shop, lambda: "/api/user"),
    ]
    for ago, status in (("59 minutes", 200), ("61 minutes", 401)):
        for person, place, path in places:
            house.signed_in(person, ago)
            token = await house.tenants.token(person, place)
            house.limit_sessions(24)
            assert (await house.client.get(path(), token=token)).status == 200
            house.limit_sessions(1)
            answer = await house.client.get(path(), token=token)
            assert answer.status == status
            if status == 401:
                assert refused(answer) == ENDED
    # A session without a recorded proof counts from its beginning.
    house.people.change("update sessions set proved_at = null where id = %s", in_acme.session)
    assert (await house.client.get(ACME, token=await house.tenants.token(in_acme, house.acme))).status == 200


async def test_a_session_elsewhere_goes_on_and_needs_a_new_sign_in_for_this_organization(house: SignInRuleScene) -> None:
    house.limit_sessions(1)
    house.tenants.join(house.member, house.globex)
    house.signed_in(house.member, "61 minutes")
    answer = await house.enter(house.member)
    assert refused(answer) == SIGN_IN_AGAIN
    assert 'max_age="3600"' in (answer.header("www-authenticate") or "")
    assert refused(await house.request("POST", f"{ACME}/select", by=house.member)) == SIGN_IN_AGAIN
    assert (await house.request("GET", "/api/organizations/globex", by=house.member)).status == 200
    # A second factor that was set up since proves nothing, because a thief can set one up.
    house.people.change("update sessions set second_factor_at = now() where id = %s", house.member.session)
    assert refused(await house.enter(house.member)) == SIGN_IN_AGAIN
    house.signed_in(house.member, "1 minute")
    assert (await house.enter(house.member)).status == 200
    assert (await house.request("POST", f"{ACME}/select", by=house.member)).status == 200


async def invite(house: SignInRuleScene, email: str) -> Received:
    return await house.request("POST", f"{ACME}/invitations", {"email": email, "role": "member"})


async def test_invitations_go_to_the_domains_that_the_organization_names(house: SignInRuleScene) -> None:
    early = (await invite(house, "early@elsewhere.example")).ok()
    (await house.change(invitation_domains=["acme.example"])).ok()
    assert (await invite(house, "Ada@ACME.example")).status == 200
    for email in ("ada@elsewhere.example", "ada@sub.acme.example", "ada@acme.example.net"):
        answer = await invite(house, email)
        assert refused(answer) == BAD_REQUEST
        assert answer.json()["error"] == "email: this organization invites only addresses of acme.example"
    # Nobody can accept an invitation that was made before.
    assert refused(await house.client.post("/api/invitations/accept", {"token": early["token"]})) == BAD_REQUEST
    behalf = f"{ACME}/invitations/{early['invitation']['id']}/accept"
    assert refused(await house.request("POST", behalf)) == BAD_REQUEST
    (await house.change(invitation_domains=[])).ok()
    assert (await house.client.post("/api/invitations/accept", {"token": early["token"]})).status == 200
