"""The walk over every route of an organization, as every kind of member and of outsider, with every kind of token, while the organization
is active and while it is not. The routes and their rules come from the declarations; the expected answers are written down once, below.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from core.domain.tenancy.organizations import OrganizationStatus
from core.domain.tenancy.roles import BuiltInRole, Capability
from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import PosternApplication
from entrypoints.http.machinery.answers import EMPTY_OBJECT, EmptyObject
from entrypoints.http.machinery.callers import ANYONE, CallerRule
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.endpoints import Endpoint, Endpoints, parameters
from entrypoints.http.routes import ROUTES
from tests.conftest import CapturedLog
from tests.http.cast import Cast
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.people import People, Person
from tests.http.tenants import Tenant
from tests.http.test_authorization import MEMBER_RULES, STAND_INS

Answer = tuple[int, str]
ADMITTED: Answer = (200, "")
FORBIDDEN, NOT_ACTIVE, NOT_FOUND = (403, "FORBIDDEN"), (403, "ORGANIZATION_NOT_ACTIVE"), (404, "NOT_FOUND")
SOME_ID = "0199d3a0-0000-7000-8000-000000000001"


async def arrive(_call: Call, _postern: Postern) -> EmptyObject:
    return EMPTY_OBJECT


def door(one: Endpoint) -> Endpoint:
    """The endpoint without the work behind its caller rule, so that a caller who is let in changes nothing for later callers."""
    return replace(one, handler=arrive, body_type=None, query_type=None, answer_type=EmptyObject, status=200, limits=(), sends={})


DOORS = [door(one) for one in (*ROUTES, *STAND_INS) if one.caller in MEMBER_RULES]
SERVED_DOORS = Endpoints(DOORS)


@dataclass(frozen=True)
class Standing:
    """A person's relation to one organization."""

    role: str
    capabilities: frozenset[str]


STRANGER = Standing("", frozenset())
VIEWS = frozenset({"org.members.view", "services.view", "end_users.view"})
BUILT_IN: Mapping[str, Standing] = {
    "owner": Standing("owner", frozenset(Capability)),
    "admin": Standing("admin", frozenset(Capability) - {Capability.CONNECTIONS_MANAGE}),
    "member": Standing("member", VIEWS),
}
OWN_ROLES: Mapping[str, Standing] = {
    "none": Standing("none", frozenset()),
    **{capability.value: Standing("own", frozenset({capability.value})) for capability in Capability},
    # A person who manages members has the views of a plain member.
    "org.members.manage": Standing("own", frozenset({"org.members.manage"}) | VIEWS),
}


def refusal(rule: CallerRule, standing: Standing, *, active: bool, impersonated: bool) -> Answer:
    """The refusal for a caller whose token opens the organization, by the name of the caller rule."""
    if not standing.role:
        return FORBIDDEN
    if not active and not rule.name.endswith("_of_inactive"):
        return NOT_ACTIVE
    if impersonated and "_in_person" in rule.name:
        return FORBIDDEN
    if rule.name.startswith("owner"):
        return ADMITTED if standing.role == "owner" else FORBIDDEN
    if rule.name.startswith("member"):
        return ADMITTED
    return ADMITTED if rule.name.removesuffix("_in_person") in standing.capabilities else FORBIDDEN


class EachKindOfMember(Cast):
    """Organizations, and somebody of each kind in them."""

    async def walk(self, token: str, slug: str, expected: Mapping[CallerRule, Answer] | Answer, what: object) -> None:
        for one in DOORS:
            path = one.path
            for name in parameters(one.path):
                path = path.replace(f"{{{name}}}", slug if name == "org_slug" else SOME_ID)
            answer = await self.client.request(one.method, path, token=token)
            came = (answer.status, "" if answer.status == 200 else answer.error_code)
            assert came == (expected if isinstance(expected, tuple) else expected[one.caller]), f"{what} at {one}"

    def own_role(self, tenant: Tenant, name: str) -> Person:
        standing = OWN_ROLES[name]
        slug = name.replace(".", "-").replace("_", "-")
        return self.tenants.member(tenant, self.tenants.role(tenant, slug, [Capability(name)] if standing.capabilities else []))


def by_rule(standing: Standing, *, active: bool = True, impersonated: bool = False) -> Mapping[CallerRule, Answer]:
    return {rule: refusal(rule, standing, active=active, impersonated=impersonated) for rule in MEMBER_RULES}


@pytest.fixture
def town(postern: Postern, people: People, log: CapturedLog) -> EachKindOfMember:
    client = Client(PosternApplication(postern, replace(SETTINGS, rate_limits=False), SERVED_DOORS))
    return EachKindOfMember(postern, people, client, log)


async def test_each_role_opens_what_it_should_in_its_own_organization_and_nothing_in_another(town: EachKindOfMember) -> None:
    acme, globex = town.tenants.add("acme"), town.tenants.add("globex")
    town.tenants.member(globex, "owner")
    kinds: dict[str, tuple[Person, Standing]] = {name: (town.tenants.member(acme, name), standing) for name, standing in BUILT_IN.items()}
    kinds |= {name: (town.own_role(acme, name), standing) for name, standing in OWN_ROLES.items()}
    kinds["stranger"] = (town.people.add(), STRANGER)
    kinds["platform owner"] = (town.people.add(platform_owner=True), STRANGER)
    for name, (person, standing) in kinds.items():
        token = await town.tenants.token(person)
        await town.walk(token, "acme", by_rule(standing), name)
        await town.walk(token, "globex", FORBIDDEN, f"{name} elsewhere")
        await town.walk(token, "nowhere", NOT_FOUND, f"{name} nowhere")


async def test_two_roles_in_two_organizations_are_two_things(town: EachKindOfMember) -> None:
    acme, globex = town.tenants.add("acme"), town.tenants.add("globex")
    person = town.tenants.join(town.tenants.member(acme, "owner"), globex, "member")
    # Nobody has this role, and a role alone gives no right.
    town.tenants.role(globex, "owner-like", list(Capability))
    token = await town.tenants.token(person)
    await town.walk(token, "acme", by_rule(BUILT_IN["owner"]), "owner of acme")
    await town.walk(token, "globex", by_rule(BUILT_IN["member"]), "member of globex")


async def test_a_token_opens_the_organization_that_it_is_for_and_no_other(town: EachKindOfMember) -> None:
    acme, globex = town.tenants.add("acme"), town.tenants.add("globex")
    for name, standing in BUILT_IN.items():
        person = town.tenants.join(town.tenants.member(acme, name), globex, name)
        app = town.tenants.service(acme, f"app-of-{name}")
        await town.walk(await town.tenants.token_in(person, acme), "acme", by_rule(standing), f"{name} in acme")
        await town.walk(await town.tenants.token_in(person, acme), "globex", FORBIDDEN, f"{name} in acme at globex")
        await town.walk(await town.tenants.token_in(person, acme), "nowhere", NOT_FOUND, f"{name} in acme at nowhere")
        # An application that holds its user's token must not administer the organization with it.
        for slug in ("acme", "globex"):
            await town.walk(await town.tenants.token_in(person, app), slug, FORBIDDEN, f"{name} in a service at {slug}")


async def test_an_organization_that_is_not_active_answers_its_members_so_and_strangers_as_ever(town: EachKindOfMember) -> None:
    home = town.tenants.add("home")
    for status in OrganizationStatus:
        if status is OrganizationStatus.ACTIVE:
            continue
        tenant = town.tenants.add(f"is-{status}", status=status)
        for name, standing in BUILT_IN.items():
            person = town.tenants.member(tenant, name)
            expected = by_rule(standing, active=False)
            await town.walk(await town.tenants.token(person), tenant.slug, expected, f"{name} of {status}")
            await town.walk(await town.tenants.token_in(person, tenant), tenant.slug, expected, f"{name} in {status}")
        stranger = town.tenants.member(home, "owner")
        await town.walk(await town.tenants.token(stranger), tenant.slug, FORBIDDEN, f"stranger at {status}")
        # The caller's organization is suspended, the other is active. A token for the one does not open the other.
        member = town.tenants.join(town.tenants.member(tenant, "owner"), home, "owner")
        await town.walk(await town.tenants.token(member), "home", by_rule(BUILT_IN["owner"]), f"owner of {status}, at home")
        await town.walk(await town.tenants.token_in(member, tenant), "home", FORBIDDEN, f"owner in {status}, at home")


async def test_what_is_taken_away_is_gone_with_the_next_request(town: EachKindOfMember) -> None:
    acme = town.tenants.add("acme")
    taken: dict[str, tuple[str, Answer]] = {
        "membership": ("delete from memberships where user_id = %s", FORBIDDEN),
        "relations": ("delete from relations where user_id = %s", FORBIDDEN),
        "session": ("update sessions set revoked_at = now() where user_id = %s", (401, "UNAUTHORIZED")),
        "account": ("update users set deactivated_at = now() where id = %s", (401, "UNAUTHORIZED")),
    }
    for what, (statement, refused) in taken.items():
        person = town.tenants.member(acme, "owner")
        token = await town.tenants.token(person)
        await town.walk(token, "acme", by_rule(BUILT_IN["owner"]), what)
        town.people.change(statement, person.user)
        await town.walk(token, "acme", refused, what)
    person = town.tenants.member(acme, "owner")
    everywhere, here = await town.tenants.token(person), await town.tenants.token_in(person, acme)
    town.people.change("update all_organizations set deleted_at = now() where slug = 'acme'")
    await town.walk(everywhere, "acme", NOT_FOUND, "organization")
    await town.walk(here, "acme", (401, "UNAUTHORIZED"), "organization, in it")


async def test_a_role_that_loses_a_capability_loses_it_at_once(town: EachKindOfMember) -> None:
    acme = town.tenants.add("acme")
    role = town.tenants.role(acme, "clerk", [Capability.MEMBERS_MANAGE, Capability.AUDIT_LOGS_VIEW])
    token = await town.tenants.token(town.tenants.member(acme, role))
    await town.walk(token, "acme", by_rule(Standing("clerk", frozenset({"org.members.manage", "audit_logs.view"}) | VIEWS)), "clerk")
    town.people.change("delete from relations where relation = 'org.members.manage'")
    await town.walk(token, "acme", by_rule(Standing("clerk", frozenset({"audit_logs.view"}))), "clerk with less")


async def test_an_impersonator_may_do_what_the_member_may_here_but_gives_nobody_anything_that_lasts(
    town: EachKindOfMember, postern: Postern
) -> None:
    acme, globex = town.tenants.add("acme"), town.tenants.add("globex")
    owner = town.people.add(platform_owner=True)
    for name, standing in BUILT_IN.items():
        person = town.tenants.session(town.tenants.member(acme, name), acme)
        town.people.change(
            "update sessions set impersonator_id = %s, impersonation_id = %s where id = %s",
            owner.user,
            postern.foundation.ids.new(),
            person.session,
        )
        token = await town.tenants.token(person, acme, token_use="impersonation", impersonator=str(owner.user))
        await town.walk(token, "acme", by_rule(standing, impersonated=True), f"impersonated {name}")
        await town.walk(token, globex.slug, FORBIDDEN, f"impersonated {name} elsewhere")
    # Each of the requests is on record, whether it was let in or not, in the log of the organization that the token is for.
    counted = town.people.rows(
        "select organization_id, count(*) as n from audit_entries where action = 'security.impersonation.request' group by organization_id"
    )
    assert counted == [{"organization_id": acme.id, "n": 2 * len(BUILT_IN) * len(DOORS)}]


async def test_no_other_spelling_is_the_organization(town: EachKindOfMember) -> None:
    """Not even for its own members, whose token has the exact spelling."""
    token = await town.tenants.token(town.tenants.member(town.tenants.add("acme"), "owner"))
    for slug in ("ACME", "acme%00", "acme%20", "%61cme%2F", "acm%C3%A9", "acme'--", "%25", "_cme", "acme%EF%BF%BF"):
        for one in DOORS:
            path = one.path.replace("{org_slug}", slug)
            for name in parameters(one.path):
                path = path.replace(f"{{{name}}}", SOME_ID)
            answer = await town.client.request(one.method, path, token=token)
            assert (answer.status, answer.error_code) == NOT_FOUND, (slug, str(one))


def test_the_built_in_roles_hold_what_the_interface_says() -> None:
    assert {role.value: frozenset(map(str, role.capabilities)) for role in BuiltInRole} == {
        name: standing.capabilities for name, standing in BUILT_IN.items()
    }


def test_nobody_but_members_has_a_door_in_an_organization() -> None:
    # Service providers read the metadata before anything is agreed with them.
    public = ["GET /saml/{org_slug}/{service_slug}/metadata"]
    assert [str(one) for one in ROUTES if "org_slug" in parameters(one.path) and one.caller is ANYONE] == public
    assert {one.caller for one in DOORS} == set(MEMBER_RULES)
