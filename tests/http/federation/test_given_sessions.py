"""Introspection and revocation: the tokens that each client may ask about, and may end."""

import pytest

from core.usecases.federation import given_sessions
from tests.http.client import refused
from tests.http.federation.relying import INTROSPECT, REVOKE, Relying, claims_of, oauth


async def test_a_service_of_the_organization_learns_what_a_token_says(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.page, scopes="openid email")
    claims = claims_of(tokens["access_token"])
    told = await relying.introspect(relying.shop, tokens["access_token"])
    assert told == {
        "active": True,
        "token_type": "Bearer",
        "username": "ada@example.org",
        **{name: claims[name] for name in ("iss", "sub", "aud", "exp", "iat", "jti", "sid", "client_id", "scope", "org", "service")},
        "org_id": str(relying.acme.id),
        "service_id": str(relying.page.service.id),
        **{name: claims[name] for name in ("amr", "acr", "auth_time", "token_use")},
    }
    told = await relying.introspect(relying.shop, tokens["refresh_token"])
    assert told["active"]
    assert {name: told[name] for name in ("client_id", "scope", "sub", "sid", "token_use", "username")} == {
        "client_id": relying.page.client_id,
        "scope": "openid email",
        "sub": claims["sub"],
        "sid": claims["sid"],
        "token_use": "refresh",
        "username": "ada@example.org",
    }


async def test_each_of_more_tokens_than_are_remembered_says_its_own(relying: Relying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_sessions, "_MOST_TOKENS", 2)
    tokens = [(await relying.signed_in(relying.page))["access_token"] for _ in range(3)]
    for token in (*tokens, *reversed(tokens), tokens[0]):
        told = await relying.introspect(relying.shop, token)
        assert (told["active"], told["jti"], told["sid"]) == (True, claims_of(token)["jti"], claims_of(token)["sid"])


async def test_an_applications_own_token_is_good_among_its_siblings(relying: Relying) -> None:
    own = (await relying.ask(fields={"grant_type": "client_credentials"}, headers=relying.shop.basic)).ok()["access_token"]
    sibling = relying.application(relying.acme, "sibling", secret=True)
    told = await relying.introspect(sibling, own)
    assert (told["active"], told["token_use"], told["sub"], told["aud"]) == (True, "client", relying.shop.client_id, "services:acme")
    assert "username" not in told
    assert await relying.introspect(relying.theirs, own) == {"active": False}


async def test_everything_else_is_not_active(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop)
    theirs = await relying.signed_in(relying.theirs)
    in_acme = relying.tenants.member(relying.acme)
    inactive = {
        "of another organization": theirs["access_token"],
        "a refresh token of another organization": theirs["refresh_token"],
        "an ID token": tokens["id_token"],
        "of the platform": await relying.people.token(relying.ada),
        "of the organization": await relying.tenants.token_in(in_acme, relying.acme),
        "with another session": await relying.people.token(relying.ada, sid=str(relying.ada.user)),
        "nothing": "nothing",
        "empty": " ",
        "very long": "x" * 5000,
        "not ASCII": "é",
    }
    for case, token in inactive.items():
        assert await relying.introspect(relying.shop, token) == {"active": False}, case


async def test_revocation_is_seen_at_once(relying: Relying) -> None:
    for ended in ("session", "account", "member"):
        tokens = await relying.signed_in(relying.shop)
        assert (await relying.introspect(relying.shop, tokens["access_token"]))["active"]
        match ended:
            case "session":
                relying.people.change("update sessions set revoked_at = now() where scopes is not null")
            case "account":
                relying.people.change("update users set deactivated_at = now()")
            case _:
                relying.people.change("update services set sign_in_policy = 'members'")
        assert await relying.introspect(relying.shop, tokens["access_token"]) == {"active": False}
        assert await relying.introspect(relying.shop, tokens["refresh_token"]) == {"active": False}
        relying.people.change("update users set deactivated_at = null")


async def test_a_used_refresh_token_is_not_active(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop)
    second = (await relying.refresh(relying.shop, tokens["refresh_token"])).ok()
    assert await relying.introspect(relying.shop, tokens["refresh_token"]) == {"active": False}
    assert (await relying.introspect(relying.shop, second["refresh_token"]))["active"]


async def test_an_impersonators_token_says_so(relying: Relying) -> None:
    governor = relying.people.add(platform_owner=True)
    session = relying.tenants.session(relying.ada, relying.shop.service)
    relying.people.change("update sessions set impersonator_id = %s, impersonation_id = id where id = %s", governor.user, session.session)
    token = await relying.tenants.token(
        session, relying.shop.service, token_use="impersonation", impersonator=str(governor.user), act={"sub": str(governor.user)}
    )
    told = await relying.introspect(relying.shop, token)
    assert (told["active"], told["token_use"], told["act"]) == (True, "impersonation", {"sub": str(governor.user)})
    # The revocation by the application does not end the person's session.
    (await relying.ask(REVOKE, {"token": token}, relying.shop.basic)).ok()
    assert (await relying.introspect(relying.shop, token))["active"]


@pytest.mark.parametrize("path", [INTROSPECT, REVOKE])
async def test_a_token_without_a_value_is_left_out(relying: Relying, path: str) -> None:
    assert oauth(await relying.ask(path, {"token": ""}, relying.shop.basic)) == (400, "invalid_request")
    assert oauth(await relying.ask(path, {}, relying.shop.basic)) == (400, "invalid_request")


async def test_only_who_authenticates_may_ask(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.page)
    for token in (tokens["access_token"], tokens["refresh_token"], "nothing"):
        for application in (relying.page, relying.phone):
            answer = await relying.ask(INTROSPECT, {"token": token, **application.posted})
            assert oauth(answer) == (401, "invalid_client")
        answer = await relying.ask(INTROSPECT, {"token": token, "client_id": relying.shop.client_id})
        assert oauth(answer) == (401, "invalid_client")
    assert oauth(await relying.ask(INTROSPECT, headers=relying.shop.basic)) == (400, "invalid_request")


@pytest.mark.parametrize("path", [INTROSPECT, REVOKE, "/oauth/revoke"])
async def test_who_says_nothing_has_not_authenticated(relying: Relying, path: str) -> None:
    token = {"token": (await relying.signed_in(relying.shop))["access_token"]}
    for headers in ([], [("authorization", f"Bearer {token['token']}")]):
        answer = await relying.ask(path, token, headers)
        assert oauth(answer) == (401, "invalid_client")
        assert answer.header("www-authenticate") == 'Basic realm="clients", charset="UTF-8"'
    answer = await relying.ask(path, {**token, "client_id": "", "client_secret": ""})
    assert oauth(answer) == (401, "invalid_client")
    assert (await relying.introspect(relying.shop, token["token"]))["active"]


async def test_by_an_assertion(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop)
    relying.keyed(relying.shop)
    fields = {
        "token": tokens["access_token"],
        "client_assertion": relying.assertion(relying.shop),
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }
    assert (await relying.ask(INTROSPECT, fields)).ok()["active"]
    assert oauth(await relying.ask(INTROSPECT, fields)) == (401, "invalid_client")


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
@pytest.mark.parametrize("path", ["/auth/revoke", "/oauth/revoke"])
async def test_giving_a_token_back_ends_its_session(relying: Relying, which: str, path: str) -> None:
    for application in (relying.shop, relying.page):
        tokens = await relying.signed_in(application)
        fields = {"token": tokens[which], "token_type_hint": "access_token", **application.posted}
        assert (await relying.ask(path, fields)).ok() == {}
        assert refused(await relying.client.get("/api/user", token=tokens["access_token"])) == (401, "UNAUTHORIZED")
        assert oauth(await relying.refresh(application, tokens["refresh_token"])) == (400, "invalid_grant")
        # A repeated revocation is no error, and changes nothing.
        (await relying.ask(path, fields)).ok()
    assert len(relying.audited("user.logout")) == 2
    # The browser's session does not belong to the application.
    (await relying.client.get("/api/user", token=await relying.people.token(relying.ada))).ok()


async def test_nobody_ends_what_is_not_theirs(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop)
    own = (await relying.ask(fields={"grant_type": "client_credentials"}, headers=relying.shop.basic)).ok()["access_token"]
    platform = await relying.people.token(relying.ada)
    for token in (tokens["access_token"], tokens["refresh_token"], platform, tokens["id_token"], own, "nothing", "x" * 5000):
        for other in (relying.page, relying.theirs):
            assert (await relying.ask(REVOKE, {"token": token, **other.posted})).ok() == {}
    for token in (platform, tokens["id_token"], own):
        (await relying.ask(REVOKE, {"token": token}, relying.shop.basic)).ok()
    assert (await relying.introspect(relying.shop, tokens["access_token"]))["active"]
    (await relying.client.get("/api/user", token=platform)).ok()
    assert oauth(await relying.ask(REVOKE, {"token": "x", "client_id": relying.shop.client_id})) == (401, "invalid_client")


@pytest.mark.parametrize(("scopes", "is_told"), [("openid email", False), ("openid profile", True)])
async def test_an_application_sees_what_its_scopes_tell(relying: Relying, scopes: str, is_told: bool) -> None:
    columns = "name = 'Ada Lovelace', given_name = 'Ada', username = 'ada.lovelace', language = 'de', picture_id = id"
    relying.people.change(f"update users set {columns}, profile_updated_at = now()")
    tokens = await relying.signed_in(relying.page, scopes=scopes)
    told = (await relying.client.get("/api/user", token=tokens["access_token"])).ok()
    fields = ("name", "given_name", "username", "language", "picture_url", "updated_at")
    assert [told[field] is not None for field in fields] == [is_told] * len(fields)
    refusal = await relying.client.request("PATCH", "/api/user", body={"name": "Eve"}, token=tokens["access_token"])
    assert refused(refusal) == (403, "FORBIDDEN")
