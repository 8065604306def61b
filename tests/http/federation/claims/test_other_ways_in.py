"""Sessions in a service that come by other ways than a code have the same claims in their access tokens."""

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.claims.telling import Furnishing, Telling
from tests.http.federation.devices import Sets
from tests.http.federation.relying import claims_of
from tests.http.people import People
from tests.http.signing_in import LOGIN, PASSWORD, unlimited


class TellingSets(Furnishing, Sets):
    """Ada's set, with claims."""


@pytest.fixture
def telling(postern: Postern, people: People, log: CapturedLog) -> Telling:
    return Telling(postern, people, unlimited(postern), log)


@pytest.fixture
def sets(postern: Postern, people: People, log: CapturedLog) -> TellingSets:
    return TellingSets(postern, people, unlimited(postern), log)


async def test_a_device_learns_the_same(sets: TellingSets) -> None:
    sets.tenants.join(sets.ada, sets.acme)
    sets.profile(sets.ada, name="Ada")
    sets.assign(sets.role_in(sets.tv, "viewer", ["films.watch"]), sets.team(sets.acme, "family", sets.ada))
    sets.claim(sets.tv, "room", "constant", "kitchen")
    codes = await sets.ask_for_codes(scope="openid profile roles")
    tokens = await sets.let_in(codes)
    id_token, access_token = claims_of(tokens["id_token"]), claims_of(tokens["access_token"])
    assert (id_token["name"], id_token["roles"], id_token["room"]) == ("Ada", ["viewer"], "kitchen")
    assert (access_token["roles"], access_token["groups"], access_token["room"]) == (["viewer"], ["acme/member", "family"], "kitchen")


async def test_a_sign_in_by_the_api_has_the_rights_and_nothing_of_the_person(telling: Telling) -> None:
    """Such a session has no scopes, so it tells no field of the person's own."""
    grace = telling.tenants.join(await telling.people.with_password(PASSWORD, "grace@example.org"), telling.acme)
    telling.assign(telling.role_in(telling.shop, "editor", ["pages.write"]), grace)
    telling.value(None, grace, telling.field(None, "nickname", scope="profile"), "Amazing")
    telling.claim(telling.shop, "nick", "person_field", "nickname")
    telling.claim(telling.shop, "rank", "organization", "role")
    body = {"email": grace.email, "password": PASSWORD, "org_slug": "acme", "service_slug": "shop"}
    tokens = (await telling.client.post(LOGIN, body)).ok()
    telling.log.remember(tokens["access_token"], tokens["refresh_token"])
    claims = claims_of(tokens["access_token"])
    assert (claims["roles"], claims["entitlements"], claims["groups"], claims["rank"]) == (
        *(["editor"], ["pages.write"], ["acme/member"], "member"),
    )
    assert "nick" not in claims


async def test_an_impersonator_has_the_persons_rights_under_their_own_name(telling: Telling) -> None:
    root = telling.people.add("root@example.org")
    telling.people.change("update users set is_platform_owner = true where id = %s", root.user)
    telling.tenants.uses(telling.ada, telling.shop.service)
    telling.assign(telling.role_in(telling.shop, "editor"), telling.ada)
    telling.claim(telling.shop, "impersonator", "constant", "nobody")
    body = {"reason": "Ticket 7: cannot save", "org_slug": "acme", "service_slug": "shop"}
    begun = (await telling.request("POST", f"/api/platform/impersonate/{telling.ada.user}", body, by=root)).ok()
    telling.log.remember(begun["access_token"], begun["refresh_token"])
    claims = claims_of(begun["access_token"])
    assert (claims["sub"], claims["roles"], claims["impersonator"]) == (str(telling.ada.user), ["editor"], str(root.user))


async def test_discovery_names_the_scopes_and_the_claims(telling: Telling) -> None:
    told = (await telling.client.get("/.well-known/openid-configuration")).ok()
    assert {"roles", "groups", "profile"} <= set(told["scopes_supported"])
    assert {"name", "picture", "locale", "updated_at", "roles", "permissions", "groups"} <= set(told["claims_supported"])
