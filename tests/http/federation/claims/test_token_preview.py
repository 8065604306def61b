"""Previews of tokens: the same claims as the token, each with its source; and the reasons for those that are missing."""

from typing import Any
from uuid import uuid4

import pytest

from core.domain.errors import NotFound
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.cli.access import preview_lines
from tests.conftest import CapturedLog
from tests.http.federation.claims.telling import EVERYTHING, Telling
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

# Claims that a preview cannot know, because each token has its own.
OF_EACH = {"exp", "iat", "jti", "sid", "at_hash", "nonce", "auth_time", "amr", "acr"}


@pytest.fixture
def telling(postern: Postern, people: People, log: CapturedLog) -> Telling:
    return Telling(postern, people, unlimited(postern), log)


def claims_in(place: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one["value"] for one in place["claims"]}


def reasons_in(place: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["reason"] for one in place["missing"]}


def furnish(telling: Telling) -> None:
    telling.profile(telling.ada, name="Ada", username="ada", language="de")
    telling.assign(telling.role_in(telling.shop, "editor", ["pages.write"]), telling.team(telling.acme, "writers", telling.ada))
    telling.value(telling.acme, telling.ada, telling.field(telling.acme, "cost_center"), "CC-7")
    telling.value(None, telling.ada, telling.field(None, "nickname", scope="profile"), "Countess")
    telling.field(telling.acme, "desk")
    telling.field(None, "secret")
    telling.claim(telling.shop, "cc", "organization_field", "cost_center")
    telling.claim(telling.shop, "nick", "person_field", "nickname")
    telling.claim(telling.shop, "desk", "organization_field", "desk")
    telling.claim(telling.shop, "secret", "person_field", "secret")
    telling.claim(telling.shop, "gone", "organization_field", "gone")
    telling.claim(telling.shop, "lost", "person_field", "lost")
    telling.claim(telling.shop, "fixed", "constant", [1, 2])


async def test_a_person_is_named_by_the_address_or_by_the_id(telling: Telling) -> None:
    (ada,) = telling.people.rows("select email from users where id = %s", telling.ada.user)
    stranger = telling.people.add("stranger@example.org")
    at = "/api/organizations/acme/services/shop/token-preview"
    by_id = (await telling.preview(telling.ada)).ok()
    assert (await telling.request("GET", f"{at}?email={ada['email']}", by=telling.admin)).ok() == by_id
    assert (await telling.request("GET", f"{at}?email={ada['email'].upper()}", by=telling.admin)).ok() == by_id
    assert (await telling.request("GET", f"{at}?email=stranger@example.org", by=telling.admin)).status == 404
    assert (await telling.preview(stranger)).status == 404
    for wrong in ("", "?email=nobody", f"?email={ada['email']}&user_id={telling.ada.user}"):
        assert (await telling.request("GET", f"{at}{wrong}", by=telling.admin)).status == 400, wrong
    keeper = telling.tenants.role(telling.acme, "keeper", [Capability.SERVICES_VIEW, Capability.SERVICES_MANAGE])
    by = telling.tenants.join(telling.people.add(), telling.acme, keeper)
    assert (await telling.request("GET", f"{at}?email={ada['email']}", by=by)).status == 403


async def test_the_preview_is_what_the_tokens_say(telling: Telling) -> None:
    furnish(telling)
    for scopes in (EVERYTHING, "openid", "openid profile", "openid email groups"):
        id_token, access_token, userinfo = await telling.learned(telling.shop, scopes=scopes)
        preview = (await telling.preview(telling.ada, scope=scopes)).ok()
        for place, said in (("id_token", id_token), ("access_token", access_token), ("userinfo", userinfo)):
            assert claims_in(preview[place]) == {name: value for name, value in said.items() if name not in OF_EACH}, (scopes, place)
        assert (preview["scopes"], preview["consent"]) == (scopes.split(), "given")
    sign_in = (await telling.preview(telling.ada)).ok()["sign_in"]
    assert sign_in == {
        "may_sign_in": True,
        "rule": "policy_anyone",
        "because": "Anyone with an account can sign in to the service",
        "outside_unknown": False,
    }


async def test_each_claim_has_its_source_and_each_missing_one_its_reason(telling: Telling) -> None:
    furnish(telling)
    await telling.learned(telling.shop)
    preview = (await telling.preview(telling.ada)).ok()
    sources = {one["name"]: (one["source"], one["about"]) for one in preview["userinfo"]["claims"]}
    assert {name: sources[name] for name in ("sub", "name", "cc", "nick", "fixed", "roles", "groups", "organization")} == {
        "sub": ("account", None),
        "name": ("profile", None),
        "cc": ("organization_field", "cost_center"),
        "nick": ("person_field", "nickname"),
        "fixed": ("constant", None),
        "roles": ("roles", None),
        "groups": ("teams", None),
        "organization": ("membership", None),
    }
    missing = reasons_in(preview["userinfo"])
    assert missing["desk"] == "The field desk has no value for this person"
    assert missing["gone"] == "The field gone no longer exists"
    assert missing["lost"] == "The field lost no longer exists"
    assert missing["zoneinfo"] == "The person has not set it"
    assert missing["secret"] == "No scope includes the field secret for applications"
    assert reasons_in(preview["id_token"])["at_hash"] == "Each token has its own"
    assert preview["saml"] is None
    fewer = (await telling.preview(telling.ada, scope="openid")).ok()
    assert reasons_in(fewer["id_token"])["email"] == "The scope email is not granted"
    assert reasons_in(fewer["id_token"])["nick"] == "The scope profile is not granted"


async def test_nobody_learns_what_the_person_has_not_allowed(telling: Telling) -> None:
    """An organization can list anybody. Its preview must not tell it more than the person has told."""
    furnish(telling)
    grace = telling.people.add("grace@else.example")
    telling.tenants.join(grace, telling.acme, "member", listed=True)
    telling.profile(grace, name="Grace Hopper", username="amazing")
    telling.value(None, grace, telling.people.rows("select id from profile_fields where key = 'nickname'")[0]["id"], "Amazing Grace")
    telling.people.change("update users set is_platform_owner = true where id = %s", grace.user)
    telling.people.change("update services set trusted = true")
    preview = (await telling.preview(grace)).ok()
    assert preview["consent"] == "missing"
    for private in ("Hopper", "grace@", "mazing", "is_platform_owner', 'value': True"):
        assert private not in str(preview)
    assert "the person has not allowed the application" in reasons_in(preview["access_token"])["email"]
    # What the organization knows itself is shown.
    assert claims_in(preview["id_token"])["groups"] == ["acme/member"]
    # Neither whether there is a value, nor the state of the account.
    blind = reasons_in(preview["userinfo"])["nick"]
    telling.people.change("delete from profile_values where user_id = %s", grace.user)
    assert reasons_in((await telling.preview(grace)).ok()["userinfo"])["nick"] == blind
    telling.people.change("update services set sign_in_policy = 'members'")
    telling.people.change("update users set deactivated_at = now() where id = %s", grace.user)
    telling.people.change("update all_organizations set mfa_required_since = now() - interval '99 days', mfa_grace_days = 1")
    telling.people.change("update memberships set created_at = now() - interval '99 days' where user_id = %s", grace.user)
    assert (await telling.preview(grace)).ok()["sign_in"]["rule"] == "policy_members"
    telling.people.change("update users set deactivated_at = null")
    assert (await telling.preview(grace)).ok()["sign_in"]["rule"] == "policy_members"
    telling.people.change("update all_organizations set mfa_required_since = null")
    # With a consent for a part, the rest stays hidden.
    await telling.learned(telling.shop, grace, scopes="openid profile")
    preview = (await telling.preview(grace)).ok()
    assert claims_in(preview["id_token"])["preferred_username"] == "amazing"
    assert "grace@" not in str(preview)
    telling.people.change("update users set username = null")
    assert "grace@" not in str((await telling.preview(grace)).ok())
    # An own membership spares the consent at a trusted service.
    telling.people.change("update memberships set own_since = now()")
    preview = (await telling.preview(grace)).ok()
    assert (preview["consent"], claims_in(preview["access_token"])["email"]) == ("spared", "grace@else.example")


async def test_people_without_a_tie_are_nobody(telling: Telling) -> None:
    stranger, elsewhere = telling.people.add(), telling.resident(telling.globex, "member")
    for person in (stranger, elsewhere, Person(uuid4(), uuid4(), "nobody@example.org")):
        assert (await telling.preview(person)).status == 404
    assert (await telling.preview(telling.ada, service="no-such")).status == 404
    telling.tenants.uses(stranger, telling.shop.service)
    assert (await telling.preview(stranger)).status == 200
    # A tie to one service opens no preview of another.
    assert (await telling.preview(stranger, service="page")).status == 404


async def test_who_may_look(telling: Telling) -> None:
    member = telling.resident(telling.acme, "member", "plain")
    only_apps = telling.resident(telling.acme, telling.tenants.role(telling.acme, "apps", [Capability.SERVICES_MANAGE]))
    both = [Capability.SERVICES_MANAGE, Capability.END_USERS_VIEW]
    helpers = telling.resident(telling.acme, telling.tenants.role(telling.acme, "helpers", both))
    theirs = telling.resident(telling.globex, "owner")
    for by, status in ((member, 403), (only_apps, 403), (helpers, 200), (theirs, 403)):
        assert (await telling.preview(telling.ada, by=by)).status == status
    assert (await telling.preview(telling.ada, scope="nonsense")).status == 400


async def test_nothing_of_another_organization_is_previewed(telling: Telling) -> None:
    telling.tenants.join(telling.ada, telling.globex, "owner")
    telling.team(telling.globex, "globex-team", telling.ada)
    telling.assign(telling.role_in(telling.theirs, "globex-role", ["globex-right"]), telling.ada)
    telling.value(telling.globex, telling.ada, telling.field(telling.globex, "desk"), "globex-desk")
    telling.field(telling.acme, "desk")
    telling.claim(telling.theirs, "globex-claim", "teams")
    telling.claim(telling.shop, "desk", "organization_field", "desk")
    telling.claim(telling.shop, "crews", "teams")
    await telling.learned(telling.shop)
    assert "globex" not in str((await telling.preview(telling.ada)).ok())


async def test_the_rule_that_decides(telling: Telling) -> None:
    grace = telling.people.add("grace@else.example")
    telling.tenants.uses(grace, telling.shop.service)
    role = telling.role_in(telling.shop, "editor")

    async def decided(person: Person) -> tuple[bool, str]:
        sign_in = (await telling.preview(person)).ok()["sign_in"]
        return sign_in["may_sign_in"], sign_in["rule"]

    telling.people.change("update services set sign_in_policy = 'members'")
    assert (await decided(telling.ada), await decided(grace)) == ((True, "policy_members"), (False, "policy_members"))
    telling.people.change("update services set sign_in_policy = 'assigned'")
    telling.assign(role, grace)
    assert (await decided(telling.ada), await decided(grace)) == ((False, "policy_assigned"), (True, "policy_assigned"))
    telling.people.change("update services set sign_in_policy = 'anyone'")
    telling.people.change("update all_organizations set mfa_required_since = now() - interval '99 days', mfa_grace_days = 1")
    telling.people.change("update memberships set created_at = now() - interval '99 days' where user_id = %s", telling.ada.user)
    assert (await decided(telling.ada), await decided(grace)) == ((False, "second_factor_required"), (True, "policy_anyone"))
    telling.people.change("update all_organizations set mfa_required_since = null, asks_terms = true")
    telling.people.change(
        "insert into terms (version, address, due_at, set_at) values ('1', 'https://acme.example/', now() - interval '1 hour', now())"
    )
    telling.people.change(
        "insert into terms_acceptances (user_id, terms_id, accepted_at) select users.id, terms.id, now() from users cross join terms"
        " where users.id not in (%s, %s)",
        *(telling.ada.user, grace.user),
    )
    # An organization is not told what people have accepted whom it merely lists.
    assert (await decided(telling.ada), await decided(grace)) == ((False, "terms_required"), (True, "policy_anyone"))
    telling.people.change("update service_users set own_since = now() where user_id = %s", grace.user)
    assert await decided(grace) == (False, "terms_required")
    telling.people.change("update users set deactivated_at = now() where id = %s", grace.user)
    assert await decided(grace) == (False, "account_deactivated")


async def test_the_command_says_the_same(telling: Telling, postern: Postern) -> None:
    furnish(telling)
    await telling.learned(telling.shop)
    email = postern.foundation.email_syntax.parse(telling.ada.email)
    lines = preview_lines(await postern.federation.token_previews.explain(email, "acme", "shop"))
    assert lines[0] == "sign-in       yes: Anyone with an account can sign in to the service"
    assert 'id_token      cc = "CC-7" (organization_field cost_center)' in lines
    assert "userinfo      desk is missing: The field desk has no value for this person" in lines


async def test_the_command_says_that_the_organization_is_not_active(telling: Telling, postern: Postern) -> None:
    telling.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
    email = postern.foundation.email_syntax.parse(telling.ada.email)
    lines = preview_lines(await postern.federation.token_previews.explain(email, "acme", "shop"))
    assert lines[0] == "sign-in       no: The organization is not active"


@pytest.mark.parametrize(
    ("email", "organization", "service"),
    [("ada@example.org", "acme", "no-such"), ("ada@example.org", "no-such", "shop"), ("nobody@else.example", "acme", "shop")],
)
async def test_the_command_finds_nobody_without_a_tie(
    telling: Telling, postern: Postern, email: str, organization: str, service: str
) -> None:
    assert telling.ada.email == "ada@example.org"
    telling.people.add("nobody@else.example")
    parsed = postern.foundation.email_syntax.parse(email)
    with pytest.raises(NotFound, match=f"There is no service {organization}/{service}, or {email} has nothing to do with it"):
        await postern.federation.token_previews.explain(parsed, organization, service)
