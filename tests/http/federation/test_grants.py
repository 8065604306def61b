"""The other grants of the token endpoint: refresh tokens, and a client's own credentials."""

from collections import Counter
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Final

import jwt
import pytest

from core.domain.errors import BadRequest
from core.domain.identity.sessions import ONE_FACTOR
from tests.conftest import CapturedLog
from tests.http.cast import all_at_once
from tests.http.client import Received, refused
from tests.http.federation.relying import JWT_BEARER, Application, Relying, claims_of, oauth
from tests.http.identity.test_sign_in import last_trips

OWN: Final = {"grant_type": "client_credentials"}


async def test_a_session_goes_on(relying: Relying) -> None:
    first = await relying.signed_in(relying.shop, scopes="openid email organization")
    second = (await relying.refresh(relying.shop, first["refresh_token"])).ok()
    assert second["refresh_token"] != first["refresh_token"]
    assert second["scope"] == "openid email organization"
    before, after = claims_of(first["id_token"]), claims_of(second["id_token"])
    for name in ("sub", "sid", "aud", "auth_time", "acr", "amr", "email", "email_verified", "organization"):
        assert after[name] == before[name]
    assert after["acr"] == ONE_FACTOR
    assert "nonce" not in after
    assert after["at_hash"] != before["at_hash"]
    assert claims_of(second["access_token"])["auth_time"] == claims_of(first["access_token"])["auth_time"]
    (await relying.userinfo(second["access_token"])).ok()


async def test_fewer_scopes_for_one_token(relying: Relying) -> None:
    first = await relying.signed_in(relying.shop, scopes="openid email offline_access")
    second = (await relying.refresh(relying.shop, first["refresh_token"], scope="email")).ok()
    assert (second["scope"], "id_token" in second) == ("email", False)
    assert refused_scope(await relying.userinfo(second["access_token"]))
    third = (await relying.refresh(relying.shop, second["refresh_token"])).ok()
    assert third["scope"] == "openid email offline_access"
    # Scopes that were not granted, and texts that are no scopes.
    for scope in ("openid profile", "profile", "anything", " "):
        assert oauth(await relying.refresh(relying.shop, third["refresh_token"], scope=scope)) == (400, "invalid_scope"), scope
    (await relying.refresh(relying.shop, third["refresh_token"], scope="")).ok()


def refused_scope(answer: object) -> bool:
    return refused(answer) == (403, "FORBIDDEN")  # type: ignore[arg-type]


async def test_a_refresh_token_is_for_its_client(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop)
    for other in (relying.page, relying.theirs):
        assert oauth(await relying.refresh(other, tokens["refresh_token"])) == (400, "invalid_grant")
    # Without a client id the token is refused as invalid.
    answer = await relying.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert refused(answer) == (401, "UNAUTHORIZED")
    (await relying.refresh(relying.shop, tokens["refresh_token"])).ok()


async def test_an_application_that_cannot_show_who_it_is_may_refresh_where_nobody_is_asked(relying: Relying) -> None:
    """Such a token is bound only to a client id, which anybody may send."""
    tokens = await relying.signed_in(relying.page, scopes="openid email")
    for _ in range(2):
        refreshed = (await relying.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})).ok()
        assert refreshed["refresh_token"] != tokens["refresh_token"]
        before, after = claims_of(tokens["access_token"]), claims_of(refreshed["access_token"])
        # The new token is still the application's, with the same scopes.
        for name in ("aud", "client_id", "scope", "sid", "sub"):
            assert after[name] == before[name]
        assert refused(await relying.client.get("/api/user/devices", token=refreshed["access_token"])) == (403, "FORBIDDEN")
        tokens = refreshed
    # The application gets a secret or keys, and must authenticate from now on.
    relying.keyed(relying.page)
    answer = await relying.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert refused(answer) == (401, "UNAUTHORIZED")
    relying.people.change("update services set jwks = null")
    relying.secret_of(relying.page.service)
    answer = await relying.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
    assert refused(answer) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize("credential", ["secret", "keys"])
async def test_what_was_given_to_an_application_that_showed_who_it_is_goes_to_nobody_else(relying: Relying, credential: str) -> None:
    """The credential is removed, and with it the difference between the client and anybody who knows its client id."""
    if credential == "keys":
        shown = {"client_assertion_type": JWT_BEARER, "client_assertion": relying.assertion(relying.keyed(relying.page))}
    else:
        shown = {"client_secret": relying.secret_of(relying.page.service)}
    tokens = (await relying.redeem(relying.page, await relying.code(relying.page), **shown)).ok()
    await _without_credentials(relying, relying.page)
    for _ in range(2):
        assert oauth(await relying.refresh(relying.page, tokens["refresh_token"])) == (400, "invalid_grant")
        answer = await relying.client.post("/api/auth/refresh", {"refresh_token": tokens["refresh_token"]})
        assert refused(answer) == (401, "UNAUTHORIZED")
    asks = relying.application(relying.acme, "asks", secret=True)
    assert await relying.introspect(asks, tokens["refresh_token"]) == {"active": False}
    assert (await relying.introspect(asks, tokens["access_token"]))["active"]
    # Nobody can end a session by such tries. Tokens given to the application as a public client go on.
    assert relying.living() == 1
    relying.people.change("update services set credential_removed_at = credential_removed_at - interval '1 minute'")
    later = await relying.signed_in(relying.page)
    (await relying.refresh(relying.page, later["refresh_token"])).ok()
    # With a new credential the application can refresh both.
    secret = relying.secret_of(relying.page.service)
    assert (await relying.introspect(asks, tokens["refresh_token"]))["active"]
    (await relying.refresh(relying.page, tokens["refresh_token"], client_secret=secret)).ok()


async def test_a_code_from_before_without_a_challenge_is_worth_nothing_either(relying: Relying) -> None:
    code = await relying.code(relying.shop, challenge=None)
    await _without_credentials(relying, relying.shop)
    public = replace(relying.shop, secret=None)
    assert oauth(await relying.redeem(public, code, code_verifier=None)) == (400, "invalid_request")
    assert oauth(await relying.redeem(public, code)) == (400, "invalid_grant")


async def _without_credentials(relying: Relying, application: Application) -> None:
    service = f"/api/organizations/acme/services/{application.service.slug}"
    owner = relying.resident(relying.acme, "owner")
    for secret in (await relying.request("GET", f"{service}/client-secrets", by=owner)).json():
        assert (await relying.request("DELETE", f"{service}/client-secrets/{secret['id']}", by=owner)).status == 204
    (await relying.request("PATCH", service, {"jwks": None}, by=owner)).ok()


async def test_a_session_that_no_application_was_given_is_none_of_theirs(relying: Relying) -> None:
    session = relying.tenants.session(relying.ada, relying.shop.service)
    token = relying.postern.foundation.secrets.token()
    relying.people.change(
        "insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())", token.digest(), session.session
    )
    assert oauth(await relying.refresh(relying.shop, token.reveal())) == (400, "invalid_grant")
    assert await relying.introspect(relying.shop, token.reveal()) == {"active": False}
    (await relying.client.post("/api/auth/refresh", {"refresh_token": token.reveal()})).ok()


async def test_a_refresh_token_that_returns_ends_the_session(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop)
    (await relying.refresh(relying.shop, tokens["refresh_token"])).ok()
    relying.people.change("update refresh_tokens set rotated_at = rotated_at - interval '11 seconds' where rotated_at is not null")
    assert oauth(await relying.refresh(relying.shop, tokens["refresh_token"])) == (400, "invalid_grant")
    assert relying.living() == 0
    assert len(relying.audited("security.refresh_token.reused")) == 1


async def test_it_ends_nothing_that_belongs_to_the_person_or_to_another_application(relying: Relying) -> None:
    """Any organization's application could otherwise sign people out everywhere."""
    device = relying.postern.foundation.ids.new()
    ours, theirs = await relying.signed_in(relying.shop), await relying.signed_in(relying.theirs)
    relying.people.change(
        "insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)"
        " values (%s, %s, 'x', 'browser', now(), now(), now())",
        device,
        relying.ada.user,
    )
    relying.people.change("update sessions set device_id = %s", device)
    (await relying.refresh(relying.theirs, theirs["refresh_token"])).ok()
    relying.people.change("update refresh_tokens set rotated_at = rotated_at - interval '11 seconds' where rotated_at is not null")
    assert oauth(await relying.refresh(relying.theirs, theirs["refresh_token"])) == (400, "invalid_grant")
    assert relying.living() == 1
    (await relying.userinfo(ours["access_token"])).ok()
    assert relying.people.rows("select count(*) as n from sessions where scopes is null and revoked_at is not null") == [{"n": 0}]


async def test_of_many_refreshes_at_once_all_get_the_same_successor(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop)
    answers = await all_at_once(*[lambda: relying.refresh(relying.shop, tokens["refresh_token"])] * 20)
    assert Counter(answer.status for answer in answers) == {200: 20}
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    assert relying.living() == 1


async def test_a_refresh_lacks_something(relying: Relying) -> None:
    assert oauth(await relying.refresh(relying.shop, "")) == (400, "invalid_request")
    assert oauth(await relying.refresh(relying.shop, "x" * 1001)) == (400, "invalid_request")
    assert oauth(await relying.refresh(relying.shop, "unknown")) == (400, "invalid_grant")


async def test_an_application_of_its_own(relying: Relying) -> None:
    answer = (await relying.ask(fields=OWN, headers=relying.shop.basic)).ok()
    assert set(answer) == {"access_token", "token_type", "expires_in"}
    assert jwt.get_unverified_header(answer["access_token"])["typ"] == "at+jwt"
    claims = claims_of(answer["access_token"])
    assert {name: claims[name] for name in ("sub", "client_id", "aud", "token_use", "org", "service", "org_id", "service_id")} == {
        "sub": relying.shop.client_id,
        "client_id": relying.shop.client_id,
        "aud": "services:acme",
        "token_use": "client",
        "org": "acme",
        "service": "shop",
        "org_id": str(relying.acme.id),
        "service_id": str(relying.shop.service.id),
    }
    assert "sid" not in claims
    told = await relying.introspect(relying.shop, answer["access_token"])
    assert (told["org_id"], told["service_id"]) == (claims["org_id"], claims["service_id"])
    assert relying.people.rows("select from sessions where service_id is not null") == []
    for path in ("/api/user", "/oauth/userinfo"):
        assert refused(await relying.client.get(path, token=answer["access_token"])) == (401, "JWT_ERROR")


async def test_an_application_that_checks_offline_can_tell_who_has_its_slugs_now(relying: Relying) -> None:
    """Acme is deleted, and another person founds acme and its shop again: everything but the ids is the same."""
    places = [relying.shop]
    relying.tenants.join(relying.ada, relying.acme)
    told: list[list[dict[str, Any]]] = []
    for _ in range(2):
        shop = places[-1]
        ids = (str(shop.service.tenant.id), str(shop.service.id))
        tokens = await relying.signed_in(shop, scopes="openid")
        again = (await relying.refresh(shop, tokens["refresh_token"])).ok()
        own = (await relying.ask(fields=OWN, headers=shop.basic)).ok()
        selected = await relying.request("POST", "/api/organizations/acme/select")
        said = [claims_of(one["access_token"]) for one in (tokens, again, own, selected.json())]
        assert [(one["org_id"], one.get("service_id")) for one in said] == [ids] * 3 + [(ids[0], None)]
        told.append([{name: one.get(name) for name in ("aud", "org", "service")} for one in said])
        relying.people.change("update all_organizations set deleted_at = now() where id = %s", shop.service.tenant.id)
        acme = relying.tenants.add("acme")
        relying.tenants.join(relying.ada, acme)
        places.append(relying.application(acme, "shop", secret=True))
    assert told[0] == told[1]


async def test_public_clients_have_nothing_of_their_own(relying: Relying) -> None:
    for application in (relying.page, relying.phone):
        assert oauth(await relying.ask(fields={**OWN, **application.posted})) == (400, "unauthorized_client")
    assert oauth(await relying.ask(fields={**OWN, "scope": "openid"}, headers=relying.shop.basic)) == (400, "invalid_scope")
    assert (await relying.ask(fields={**OWN, "scope": ""}, headers=relying.shop.basic)).status == 200


async def test_a_device_code_alone_says_what_it_is(relying: Relying) -> None:
    answer = await relying.ask(fields={"device_code": "x", **relying.phone.posted})
    assert (answer.status, answer.json()["error"]) != (400, "invalid_request")


@pytest.mark.parametrize("body", [b"", b"grant_type", b"\xff", b"a=1&" * 30])
async def test_a_body_that_is_nothing_is_refused(relying: Relying, body: bytes) -> None:
    answer = await relying.client.request("POST", "/auth/token", body=body, headers=[("content-type", "application/x-www-form-urlencoded")])
    assert oauth(answer) == (400, "invalid_request")
    assert answer.json()["error_code"] == BadRequest.code
    answer = await relying.client.request("POST", "/auth/token", body=b"<xml/>", headers=[("content-type", "text/xml")])
    assert answer.json()["error_code"] == "UNSUPPORTED_MEDIA_TYPE"


async def test_how_often_the_database_is_asked(relying: Relying, log: CapturedLog) -> None:
    # The first refresh of a process reads the key for successor tokens.
    tokens = (await relying.refresh(relying.shop, (await relying.signed_in(relying.shop))["refresh_token"])).ok()
    code = await relying.code(relying.shop)

    async def trips(asked: Awaitable[Received]) -> int:
        assert (await asked).status == 200
        return last_trips(log)

    # A client with a secret is authenticated in the round trip that exchanges its code. A public client takes a round trip before that.
    assert await trips(relying.ask(fields=OWN, headers=relying.shop.basic)) == 1
    assert await trips(relying.redeem(relying.shop, code)) == 1
    assert await trips(relying.redeem(relying.page, await relying.code(relying.page))) == 2
    assert await trips(relying.refresh(relying.shop, tokens["refresh_token"])) == 2
    # A client, its secret and the session that it asks about.
    assert await trips(relying.ask("/oauth/introspect", {"token": tokens["access_token"]}, relying.shop.basic)) == 1
    assert await trips(relying.userinfo(tokens["access_token"])) == 1
