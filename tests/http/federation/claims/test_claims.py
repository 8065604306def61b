"""What tokens and userinfo tell of people: their profile, fields, teams and roles, and the claims that a service has configured."""

import pytest

from core.domain.claims import LONGEST_ACCESS_TOKEN
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.claims.telling import EVERYTHING, Telling
from tests.http.federation.relying import claims_of
from tests.http.people import BASE_URL, People
from tests.http.signing_in import unlimited


@pytest.fixture
def telling(postern: Postern, people: People, log: CapturedLog) -> Telling:
    return Telling(postern, people, unlimited(postern), log)


async def test_the_scope_profile_tells_what_the_person_has_set(telling: Telling) -> None:
    picture = "9f1c0f4e-4a57-4b41-8b0b-3f2a0f5f9d2e"
    set_ = {"name": "Ada Lovelace", "given_name": "Ada", "family_name": "Lovelace", "username": "ada", "zoneinfo": "Europe/Berlin"}
    telling.profile(telling.ada, **set_, language="de", picture_id=picture)
    # Late in a second: each way of telling the time has to leave the fraction out.
    late = "update users set profile_updated_at = to_timestamp(1795399622.9) where id = %s"
    telling.people.change(late, telling.ada.user)
    expected = {
        "name": "Ada Lovelace",
        "given_name": "Ada",
        "family_name": "Lovelace",
        "preferred_username": "ada",
        "picture": f"{BASE_URL}/pictures/{picture}",
        "zoneinfo": "Europe/Berlin",
        "locale": "de",
        "updated_at": 1795399622,
    }
    id_token, _, userinfo = await telling.learned(telling.shop, scopes="openid profile")
    assert userinfo == {"sub": str(telling.ada.user), **expected}
    assert {name: id_token[name] for name in expected} == expected
    assert "email" not in id_token
    # Without the scope nothing of it is told.
    id_token, _, userinfo = await telling.learned(telling.page, scopes="openid email")
    assert set(userinfo) == {"sub", "email", "email_verified"}
    assert not set(expected) & set(id_token)


async def test_the_address_is_a_user_name_only_for_those_who_may_know_the_address(telling: Telling) -> None:
    _, _, userinfo = await telling.learned(telling.shop, scopes="openid profile")
    assert userinfo == {"sub": str(telling.ada.user)}
    _, _, userinfo = await telling.learned(telling.shop, scopes="openid profile email")
    assert userinfo["preferred_username"] == telling.ada.email


async def test_roles_and_groups_are_told_by_their_scopes_and_in_access_tokens(telling: Telling) -> None:
    editors = telling.role_in(telling.shop, "editor", ["pages.write", "pages.read"])
    telling.role_in(telling.shop, "reader", ["pages.read"], everybody=True)
    telling.role_in(telling.shop, "nobodys", ["everything"])
    telling.assign(editors, telling.team(telling.acme, "writers", telling.ada))
    rights = {"roles": ["editor", "reader"], "permissions": ["pages.read", "pages.write"]}
    groups = ["acme/member", "writers"]
    id_token, access_token, userinfo = await telling.learned(telling.shop)
    assert ({name: id_token[name] for name in rights}, id_token["groups"]) == (rights, groups)
    assert ({name: userinfo[name] for name in rights}, userinfo["groups"]) == (rights, groups)
    # RFC 9068 section 2.2.3.1: in access tokens without any scope.
    id_token, access_token, userinfo = await telling.learned(telling.shop, scopes="openid")
    assert not {*rights, "groups", "entitlements"} & {*id_token, *userinfo}
    assert (access_token["roles"], access_token["entitlements"]) == (rights["roles"], rights["permissions"])
    assert access_token["groups"] == groups
    assert "permissions" not in access_token


async def test_who_has_no_rights_gets_the_token_as_ever(telling: Telling) -> None:
    id_token, access_token, userinfo = await telling.learned(telling.page, scopes="openid roles groups")
    assert (userinfo["roles"], userinfo["permissions"], userinfo["groups"]) == ([], [], ["acme/member"])
    assert id_token["roles"] == []
    assert not {"roles", "groups", "entitlements", "permissions"} & set(access_token)


async def test_a_refresh_sees_rights_that_have_changed(telling: Telling) -> None:
    role = telling.role_in(telling.shop, "editor", ["pages.write"])
    telling.assign(role, telling.ada)
    telling.claim(telling.shop, "is_staff", "constant", True)
    tokens = await telling.signed_in(telling.shop, scopes=EVERYTHING)
    assert claims_of(tokens["access_token"])["roles"] == ["editor"]
    telling.people.change("delete from relations where service_id is not null")
    telling.people.change("update service_claims set argument = 'false'")
    telling.profile(telling.ada, name="Ada")
    assert (await telling.userinfo(tokens["access_token"])).ok()["roles"] == []
    tokens = telling.kept((await telling.refresh(telling.shop, tokens["refresh_token"])).ok())
    id_token, access_token = claims_of(tokens["id_token"]), claims_of(tokens["access_token"])
    assert "roles" not in access_token
    assert (id_token["roles"], id_token["is_staff"], access_token["is_staff"], id_token["name"]) == ([], False, False, "Ada")
    # Fewer scopes tell less.
    tokens = telling.kept((await telling.refresh(telling.shop, tokens["refresh_token"], scope="openid")).ok())
    assert "name" not in claims_of(tokens["id_token"])


async def test_a_service_makes_claims_of_what_is_known(telling: Telling) -> None:
    telling.assign(telling.role_in(telling.shop, "editor", ["pages.write"]), telling.ada)
    telling.team(telling.acme, "writers", telling.ada)
    telling.value(telling.acme, telling.ada, telling.field(telling.acme, "cost_center"), "CC-7")
    telling.value(None, telling.ada, telling.field(None, "nickname", scope="profile", written_by=["person"]), "Countess")
    for name, source, argument in (
        ("cc", "organization_field", "cost_center"),
        ("nick", "person_field", "nickname"),
        ("https://shop.example/roles", "roles", None),
        ("may", "permissions", None),
        ("crews", "teams", None),
        ("tenant", "organization", "slug"),
        ("position", "organization", "role"),
        ("tier", "plan", None),
        ("extras", "features", None),
        ("limits", "constant", {"most": 3, "of": ["a", None]}),
    ):
        telling.claim(telling.shop, name, source, argument)
    expected = {
        "cc": "CC-7",
        "nick": "Countess",
        "https://shop.example/roles": ["editor"],
        "may": ["pages.write"],
        "crews": ["writers"],
        "tenant": "acme",
        "position": "member",
        "tier": "free",
        "extras": [],
        "limits": {"most": 3, "of": ["a", None]},
    }
    for claims in await telling.learned(telling.shop):
        assert {name: claims.get(name) for name in expected} == expected
    # The person's own value needs the scope of its field; the organization's own knowledge needs none.
    for claims in await telling.learned(telling.shop, scopes="openid email"):
        assert {name: claims[name] for name in expected if name in claims} == {k: v for k, v in expected.items() if k != "nick"}


async def test_a_claim_goes_only_where_it_is_meant_to_go(telling: Telling) -> None:
    for place in ("id_token", "userinfo", "access_token", "saml"):
        telling.claim(telling.shop, f"of_{place}", "constant", place, place)
    id_token, access_token, userinfo = await telling.learned(telling.shop)
    for place, claims in (("id_token", id_token), ("access_token", access_token), ("userinfo", userinfo)):
        assert [name for name in claims if name.startswith("of_")] == [f"of_{place}"]


async def test_a_field_never_takes_the_place_of_another_owners(telling: Telling) -> None:
    """The same key at the installation, at acme and at globex are three fields."""
    of_person = telling.field(None, "badge", scope="profile")
    ours, theirs = telling.field(telling.acme, "badge"), telling.field(telling.globex, "badge")
    telling.tenants.join(telling.ada, telling.globex, "member")
    telling.claim(telling.shop, "persons", "person_field", "badge")
    telling.claim(telling.shop, "ours", "organization_field", "badge")
    telling.value(telling.globex, telling.ada, theirs, "globex")
    for claims in await telling.learned(telling.shop):
        assert not {"persons", "ours"} & set(claims)
    telling.value(None, telling.ada, of_person, "person")
    for claims in await telling.learned(telling.shop):
        assert (claims["persons"], claims.get("ours")) == ("person", None)
    telling.value(telling.acme, telling.ada, ours, "acme")
    for claims in await telling.learned(telling.shop):
        assert (claims["persons"], claims["ours"]) == ("person", "acme")
    # Without a scope, no application gets the person's field.
    telling.people.change("update profile_fields set scope = null")
    for claims in await telling.learned(telling.shop):
        assert (claims.get("persons"), claims["ours"]) == (None, "acme")


async def test_a_reserved_name_is_never_told_even_if_it_is_configured(telling: Telling) -> None:
    """A later release may reserve a name that a service uses already."""
    for name in ("sub", "is_platform_owner", "roles", "token_use"):
        telling.claim(telling.shop, name, "constant", "forged")
    assert "forged" not in str(await telling.learned(telling.shop))


async def test_nothing_of_one_organization_is_told_to_another(telling: Telling) -> None:
    telling.tenants.join(telling.ada, telling.globex, "admin")
    telling.team(telling.acme, "acme-secret", telling.ada)
    telling.assign(telling.role_in(telling.shop, "acme-role", ["acme-right"]), telling.ada)
    telling.value(telling.acme, telling.ada, telling.field(telling.acme, "salary"), "acme-salary")
    telling.claim(telling.shop, "acme-claim", "organization_field", "salary")
    # Globex names the same key, and has none of it.
    telling.claim(telling.theirs, "salary", "organization_field", "salary")
    telling.claim(telling.theirs, "teams", "teams")
    telling.people.change('update all_services set metadata = \'{"acme": "metadata"}\' where id = %s', telling.shop.service.id)
    learned = await telling.learned(telling.theirs)
    assert "acme" not in str(learned)
    assert learned[2]["groups"] == ["globex/admin"]
    assert "acme-salary" in str(await telling.learned(telling.shop))


async def test_many_groups_are_cut_in_tokens_alone(telling: Telling) -> None:
    for number in range(205):
        telling.team(telling.acme, f"t{number:03}", telling.ada)
    id_token, access_token, userinfo = await telling.learned(telling.shop, scopes="openid groups")
    assert (len(id_token["groups"]), id_token["groups"][0], id_token["groups_truncated"]) == (200, "acme/member", True)
    assert (len(access_token["groups"]), access_token["groups_truncated"]) == (200, True)
    assert len(userinfo["groups"]) == 206
    assert "groups_truncated" not in userinfo


async def test_a_long_access_token_leaves_out_permissions_first(telling: Telling) -> None:
    many = [f"documents.of.department-{number:03}:write" for number in range(100)]
    telling.assign(telling.role_in(telling.shop, "editor", many), telling.ada)
    telling.team(telling.acme, "writers", telling.ada)
    tokens = await telling.signed_in(telling.shop, scopes="openid email roles")
    claims = claims_of(tokens["access_token"])
    assert len(tokens["access_token"]) <= LONGEST_ACCESS_TOKEN
    assert (claims["roles"], claims["groups"], claims["permissions_truncated"]) == (["editor"], ["acme/member", "writers"], True)
    assert "entitlements" not in claims
    userinfo = (await telling.userinfo(tokens["access_token"])).ok()
    assert userinfo["permissions"] == many
    # A long ID token is told to the operator, by the names of its claims and without their values.
    assert claims_of(tokens["id_token"])["permissions"] == many
    (warning,) = telling.log.events("id_token_is_long")
    assert warning["claims"][0] == "permissions"
    assert "documents.of" not in str(warning)


async def test_a_constant_cannot_lock_a_person_out(telling: Telling) -> None:
    """Fifty of the largest constants: our own endpoints still take the token."""
    for number in range(50):
        telling.claim(telling.shop, f"c{number}", "constant", "x" * 1000)
    tokens = await telling.signed_in(telling.shop)
    assert len(tokens["access_token"]) <= LONGEST_ACCESS_TOKEN
    assert claims_of(tokens["access_token"])["claims_truncated"] is True
    assert len((await telling.userinfo(tokens["access_token"])).ok()) == 53


async def test_a_client_of_its_own_gets_no_claims_of_people(telling: Telling) -> None:
    telling.claim(telling.shop, "anything", "constant", "told")
    telling.role_in(telling.shop, "everybodys", everybody=True)
    answer = (await telling.ask(fields={"grant_type": "client_credentials", **telling.shop.posted})).ok()
    telling.log.remember(answer["access_token"])
    assert not {"anything", "roles", "groups"} & set(claims_of(answer["access_token"]))


async def test_the_deactivated_the_suspended_and_the_deleted_learn_nothing(telling: Telling) -> None:
    telling.claim(telling.shop, "anything", "constant", "told")
    tokens = await telling.signed_in(telling.shop)
    for change, back in (
        ("update users set deactivated_at = now()", "update users set deactivated_at = null"),
        ("update organizations set status = 'suspended'", "update organizations set status = 'active'"),
        ("update all_services set deleted_at = now()", "update all_services set deleted_at = null"),
    ):
        telling.people.change(change)
        assert (await telling.userinfo(tokens["access_token"])).status in {401, 403}
        telling.people.change(back)
    assert (await telling.userinfo(tokens["access_token"])).ok()["anything"] == "told"


async def test_what_nobody_uses_costs_nothing_and_what_somebody_uses_one_round_trip(telling: Telling) -> None:
    await _trips(telling)
    plain = await _trips(telling)
    telling.claim(telling.shop, "anything", "constant", "told")
    assert [told - before for told, before in zip(await _trips(telling), plain, strict=True)] == [1, 1, 1]
    telling.people.change("delete from service_claims")
    telling.profile(telling.ada, name="Ada")
    assert await _trips(telling) == plain
    telling.team(telling.acme, "writers", telling.ada)
    assert [told - before for told, before in zip(await _trips(telling), plain, strict=True)] == [1, 1, 1]


async def _trips(telling: Telling) -> list[int]:
    """Of the exchange of a code, of a refresh, and of userinfo."""
    tokens = await telling.signed_in(telling.shop, scopes=EVERYTHING)
    trips = [_last_trips(telling)]
    tokens = telling.kept((await telling.refresh(telling.shop, tokens["refresh_token"])).ok())
    trips.append(_last_trips(telling))
    await telling.userinfo(tokens["access_token"])
    return [*trips, _last_trips(telling)]


def _last_trips(telling: Telling) -> int:
    return int(telling.log.events("request")[-1]["db_round_trips"])
