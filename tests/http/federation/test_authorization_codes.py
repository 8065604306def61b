"""Codes: redeemed once, by the client that each was made for."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

import jwt
import pytest
import trio

from core.domain.identity.sessions import TWO_FACTORS
from tests.http.client import Received
from tests.http.federation.relying import CHALLENGE, VERIFIER, Relying, basic, claims_of, oauth
from tests.http.people import BASE_URL


async def test_a_code_becomes_a_session_in_the_service(relying: Relying) -> None:
    code = await relying.code(relying.shop, scopes="openid profile email organization")
    answer = await relying.redeem(relying.shop, code)
    tokens = answer.ok()
    assert set(tokens) == {"access_token", "token_type", "expires_in", "scope", "refresh_token", "id_token"}
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 900, "openid profile email organization")
    assert answer.header("cache-control") == "no-store"
    assert answer.header("pragma") == "no-cache"
    assert jwt.get_unverified_header(tokens["access_token"])["typ"] == "at+jwt"
    claims = claims_of(tokens["access_token"])
    assert (claims["aud"], claims["client_id"], claims["scope"]) == ("service:acme/shop", relying.shop.client_id, tokens["scope"])
    assert (claims["sub"], claims["token_use"], claims["plan"]) == (str(relying.ada.user), "access", "free")
    assert {"iat", "jti", "auth_time", "acr", "amr", "sid"} <= set(claims)
    (kept,) = relying.people.rows("select parent_id, depth, scopes, device_id from sessions where id = %s", claims["sid"])
    assert kept == {"parent_id": relying.ada.session, "depth": 1, "scopes": tokens["scope"].split(), "device_id": None}
    profile = (await relying.client.get("/api/user", token=tokens["access_token"])).ok()
    assert (profile["org"], profile["service"]) == ("acme", "shop")
    (user,) = relying.people.rows("select first_login_at is not null as been from service_users where user_id = %s", relying.ada.user)
    assert user == {"been": True}


async def test_the_sign_in_is_on_record_without_the_address_of_the_applications_server(relying: Relying) -> None:
    await relying.signed_in(relying.shop)
    await relying.signed_in(relying.phone)
    rows = relying.people.rows("select provider, service_id, host(address) as address from login_events order by id")
    assert rows == [
        {"provider": "session", "service_id": relying.shop.service.id, "address": None},
        {"provider": "session", "service_id": relying.phone.service.id, "address": "192.0.2.1"},
    ]
    assert [(one["name"], one["organization_id"]) for one in relying.told()] == [("user.login.success", relying.acme.id)] * 2


async def test_the_webhooks_of_the_organization_and_no_others_are_told_of_the_sign_in(relying: Relying) -> None:
    for organization in (relying.acme, relying.globex):
        relying.people.change(
            "insert into webhooks (id, org_id, name, url, events, sealed_secret, created_at, updated_at)"
            " values (gen_random_uuid(), %s, 'crm', 'https://crm.example/', '{user.login.success}', 'x', now(), now())",
            organization.id,
        )
    await relying.signed_in(relying.shop)
    told = relying.people.rows(
        "select webhooks.org_id, webhook_deliveries.event_name, events.name from webhook_deliveries"
        " join webhooks on webhooks.id = webhook_id join events on events.id = event_id"
    )
    assert told == [{"org_id": relying.acme.id, "event_name": "user.login.success", "name": "user.login.success"}]


async def test_an_organization_that_exports_its_sign_ins_gets_this_one_too(relying: Relying) -> None:
    relying.tenants.export_sign_ins(relying.acme)
    await relying.signed_in(relying.shop)
    assert relying.tenants.exported() == [(relying.acme.id, relying.ada.user, True)]


async def test_what_an_id_token_says(relying: Relying) -> None:
    relying.tenants.join(relying.ada, relying.acme, "admin")
    code = await relying.code(relying.shop, scopes="openid email profile organization", amr=("pwd", "otp", "mfa"))
    tokens = (await relying.redeem(relying.shop, code)).ok()
    header = jwt.get_unverified_header(tokens["id_token"])
    assert (header["alg"], header["typ"]) == ("RS256", "JWT")
    keys = jwt.PyJWKSet.from_dict((await relying.client.get("/.well-known/jwks.json")).json())
    claims = jwt.decode(tokens["id_token"], keys[header["kid"]], ["RS256"], audience=relying.shop.client_id, issuer=BASE_URL)
    access = claims_of(tokens["access_token"])
    assert claims["nonce"] == "n-0S6_WzA2Mj"
    assert (claims["sub"], claims["sid"], claims["auth_time"]) == (access["sub"], access["sid"], access["auth_time"])
    assert (claims["acr"], claims["amr"]) == (TWO_FACTORS, ["pwd", "otp", "mfa"])
    assert (claims["email"], claims["email_verified"], claims["preferred_username"]) == ("ada@example.org", True, "ada@example.org")
    assert claims["organization"] == {"id": str(relying.acme.id), "slug": "acme", "role": "admin"}
    digest = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).compute_hash_digest(tokens["access_token"].encode())
    assert claims["at_hash"] == jwt.utils.base64url_encode(digest[:16]).decode()
    assert "azp" not in claims


async def test_a_service_may_want_another_algorithm(relying: Relying) -> None:
    relying.people.change("update services set id_token_alg = 'ES256' where id = %s", relying.shop.service.id)
    tokens = await relying.signed_in(relying.shop)
    header = jwt.get_unverified_header(tokens["id_token"])
    assert header["alg"] == "ES256"
    assert header["kid"] != jwt.get_unverified_header(tokens["access_token"])["kid"]
    keys = jwt.PyJWKSet.from_dict((await relying.client.get("/.well-known/jwks.json")).json())
    assert jwt.decode(tokens["id_token"], keys[header["kid"]], ["ES256"], audience=relying.shop.client_id)["email"] == "ada@example.org"


async def test_a_service_may_want_access_tokens_with_rs256(relying: Relying) -> None:
    """PyJWKClient and its like are told one algorithm, often without a choice."""
    shop, page = relying.shop, relying.page
    relying.people.change("update services set access_token_alg = 'RS256' where id = any (%s)", [shop.service.id, page.service.id])
    first = await relying.signed_in(shop)
    again = relying.kept((await relying.refresh(shop, first["refresh_token"])).ok())
    own = relying.kept((await relying.ask(fields={"grant_type": "client_credentials", **shop.posted})).ok())
    public = await relying.signed_in(page)
    # The path of the API, where a public client may refresh without naming itself.
    renewed = relying.kept((await relying.client.post("/api/auth/refresh", {"refresh_token": public["refresh_token"]})).ok())
    keys = jwt.PyJWKSet.from_dict((await relying.client.get("/.well-known/jwks.json")).json())
    for tokens in (first, again, own, public, renewed):
        header = jwt.get_unverified_header(tokens["access_token"])
        assert (header["alg"], header["typ"]) == ("RS256", "at+jwt")
        # A key of its own: an ID token must not pass for an access token.
        assert header["kid"] != jwt.get_unverified_header(first["id_token"])["kid"]
        jwt.decode(tokens["access_token"], keys[header["kid"]], ["RS256"], options={"verify_aud": False})
    for tokens in (first, again, public, renewed):
        (await relying.userinfo(tokens["access_token"])).ok()
    assert (await relying.introspect(shop, again["access_token"]))["active"] is True
    assert (await relying.introspect(shop, own["access_token"]))["active"] is True
    # Tokens of others stay as they are, and so do tokens that no application holds.
    relying.people.change("update services set access_token_alg = 'ES256' where id = %s", page.service.id)
    for token in ((await relying.signed_in(page))["access_token"], await relying.people.token(relying.ada)):
        assert jwt.get_unverified_header(token)["alg"] == "ES256"


async def test_without_openid_there_is_no_id_token(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop, scopes="email")
    assert "id_token" not in tokens
    assert "email" not in await id_claims(relying, "openid")
    assert "nonce" not in await id_claims(relying, "openid", nonce=None)


async def id_claims(relying: Relying, scopes: str, nonce: str | None = "n") -> dict[str, object]:
    code = await relying.code(relying.shop, scopes=scopes, nonce=nonce)
    return claims_of((await relying.redeem(relying.shop, code)).ok()["id_token"])


async def test_the_body_may_be_json_and_the_path_another(relying: Relying) -> None:
    code = await relying.code(relying.page)
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": "https://app.example/callback", "code_verifier": VERIFIER}
    answer = await relying.client.post("/oauth/token", {**fields, **relying.page.posted})
    assert answer.ok()["scope"] == "openid email"


async def test_a_client_with_a_credential_may_do_without_pkce(relying: Relying) -> None:
    code = await relying.code(relying.shop, challenge=None)
    (await relying.redeem(relying.shop, code, code_verifier=None)).ok()


REFUSED: Final[Mapping[str, tuple[Mapping[str, str | None], str]]] = {
    "no such code": ({"code": "nothing"}, "invalid_grant"),
    "no code": ({"code": ""}, "invalid_request"),
    "another redirect URI": ({"redirect_uri": "https://app.example/callback/"}, "invalid_grant"),
    "no redirect URI": ({"redirect_uri": None}, "invalid_request"),
    "another verifier": ({"code_verifier": VERIFIER[::-1]}, "invalid_grant"),
    "the challenge as verifier": ({"code_verifier": CHALLENGE}, "invalid_grant"),
    "no verifier": ({"code_verifier": None}, "invalid_request"),
    "an empty verifier": ({"code_verifier": ""}, "invalid_request"),
    "a short verifier": ({"code_verifier": VERIFIER[:42]}, "invalid_request"),
    "no such grant": ({"grant_type": "password"}, "unsupported_grant_type"),
    "no grant type": ({"grant_type": None}, "invalid_request"),
}


async def test_whoever_lacks_something_gets_nothing_and_spoils_nothing(relying: Relying) -> None:
    code = await relying.code(relying.page)
    for case, (changed, word) in REFUSED.items():
        assert oauth(await relying.redeem(relying.page, code, **changed)) == (400, word), case
    assert relying.living() == 0
    (await relying.redeem(relying.page, code)).ok()


async def test_a_code_is_for_one_client(relying: Relying) -> None:
    code = await relying.code(relying.shop)
    for other in (relying.page, relying.phone, relying.theirs):
        assert oauth(await relying.redeem(other, code)) == (400, "invalid_grant")
    (await relying.redeem(relying.shop, code)).ok()


UNTOUCHED: Final = "select from authorization_codes where redeemed_at is null and session_id is null"


async def test_a_code_is_safe_from_whoever_shows_the_wrong_secret(relying: Relying) -> None:
    """One statement looks up the client and redeems the code, so a wrong secret must not use the code up."""
    code, secret = await relying.code(relying.shop), relying.shop.secret or ""
    for wrong in (secret[:-1], relying.theirs.secret or "", "x"):
        assert oauth(await relying.redeem(relying.shop, code, client_secret=wrong)) == (401, "invalid_client")
        # A stranger does not learn what the request asks for.
        assert oauth(await relying.redeem(relying.shop, code, client_secret=wrong, redirect_uri=None)) == (401, "invalid_client")
    # A public client has no secret, so any secret is refused.
    assert oauth(await relying.redeem(relying.page, await relying.code(relying.page), client_secret="x")) == (401, "invalid_client")
    assert (relying.living(), len(relying.people.rows(UNTOUCHED))) == (0, 2)
    assert oauth(await relying.redeem(relying.shop, code, redirect_uri=None)) == (400, "invalid_request")
    (await relying.redeem(relying.shop, code)).ok()
    # A stranger cannot end the session either.
    assert oauth(await relying.redeem(relying.shop, code, client_secret="x")) == (401, "invalid_client")
    assert relying.living() == 1


async def test_a_code_is_not_redeemed_while_the_organization_is_suspended(relying: Relying) -> None:
    code = await relying.code(relying.shop)
    relying.people.change("update organizations set status = 'suspended' where slug = 'acme'")
    assert oauth(await relying.redeem(relying.shop, code)) == (403, "access_denied")
    assert (relying.living(), len(relying.people.rows(UNTOUCHED))) == (0, 1)
    relying.people.change("update organizations set status = 'active' where slug = 'acme'")
    (await relying.redeem(relying.shop, code)).ok()


async def test_a_verifier_without_challenge_and_a_challenge_without_verifier_are_refused(relying: Relying) -> None:
    assert oauth(await relying.redeem(relying.shop, await relying.code(relying.shop, challenge=None))) == (400, "invalid_grant")
    assert oauth(await relying.redeem(relying.shop, await relying.code(relying.shop), code_verifier=None)) == (400, "invalid_grant")


async def test_a_code_lasts_a_minute(relying: Relying) -> None:
    code = await relying.code(relying.shop)
    relying.people.change("update authorization_codes set expires_at = now()")
    assert oauth(await relying.redeem(relying.shop, code)) == (400, "invalid_grant")


ENDED = {
    "the browser's session is revoked": "update sessions set revoked_at = now() where parent_id is null",
    "the browser's session has expired": "update sessions set expires_at = now() where parent_id is null",
    "the browser's session has come to its end": "update sessions set ends_at = now() where parent_id is null",
    "it is not a browser's session": "update sessions set parent_id = id, depth = 1 where parent_id is null",
    "it is somebody else's": "update sessions set user_id = (select id from users where email = 'bob@example.org')",
    "the account is deactivated": "update users set deactivated_at = now()",
    "somebody else acts": "update sessions set impersonator_id = user_id, impersonation_id = id where parent_id is null",
    "only members are let in": "update services set sign_in_policy = 'members'",
    "only people with a role are let in": "update services set sign_in_policy = 'assigned'",
}


@pytest.mark.parametrize("case", ENDED)
async def test_what_ends_between_the_browser_and_the_application_opens_nothing(relying: Relying, case: str) -> None:
    relying.people.add("bob@example.org")
    code = await relying.code(relying.shop)
    relying.people.change(ENDED[case])
    assert oauth(await relying.redeem(relying.shop, code)) == (400, "invalid_grant")
    assert relying.people.rows("select from authorization_codes where redeemed_at is not null") == []


async def test_members_are_let_in_where_only_they_are(relying: Relying) -> None:
    relying.people.change("update services set sign_in_policy = 'members'")
    relying.tenants.join(relying.ada, relying.acme)
    tokens = await relying.signed_in(relying.shop)
    relying.people.change("delete from memberships")
    assert (await relying.client.get("/api/user", token=tokens["access_token"])).status == 403
    assert oauth(await relying.refresh(relying.shop, tokens["refresh_token"])) == (400, "invalid_grant")


async def test_a_code_that_comes_back_ends_what_was_opened_with_it(relying: Relying) -> None:
    code = await relying.code(relying.shop)
    tokens = (await relying.redeem(relying.shop, code)).ok()
    # The sessions of other applications from this browser go on.
    await relying.signed_in(relying.page)
    assert oauth(await relying.redeem(relying.page, code)) == (400, "invalid_grant")
    assert (await relying.client.get("/api/user", token=tokens["access_token"])).status == 401
    assert relying.living() == 1
    (entry,) = relying.audited("security.authorization_code.reused")
    assert (entry["organization_id"], entry["target_id"]) == (relying.acme.id, str(relying.ada.user))
    assert entry["details"] == {"session_id": claims_of(tokens["access_token"])["sid"], "service_id": str(relying.shop.service.id)}
    # A third try finds nothing left to end.
    assert oauth(await relying.redeem(relying.page, code)) == (400, "invalid_grant")
    assert len(relying.audited("security.authorization_code.reused")) == 1


async def test_a_client_that_sends_its_request_twice_keeps_its_session(relying: Relying) -> None:
    for application, challenge, verifier in ((relying.shop, None, None), (relying.page, CHALLENGE, VERIFIER)):
        code = await relying.code(application, challenge=challenge)
        (await relying.redeem(application, code, code_verifier=verifier)).ok()
        assert oauth(await relying.redeem(application, code, code_verifier=verifier)) == (400, "invalid_grant")
        assert relying.living() == 1
        # Later, a repeated request no longer counts as the client's own double request.
        relying.people.change(
            "update authorization_codes set redeemed_at = redeemed_at - interval '11 seconds' where session_id is not null"
        )
        assert oauth(await relying.redeem(application, code, code_verifier=verifier)) == (400, "invalid_grant")
        assert relying.living() == 0


async def test_of_fifty_at_once_one_wins_and_its_session_lives(relying: Relying) -> None:
    for application in (relying.shop, relying.page):
        code = await relying.code(application)
        answers: list[Received] = []

        async def redeem() -> None:
            answers.append(await relying.redeem(application, code))  # noqa: B023 - it runs within this turn

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(redeem)
        assert Counter(answer.status for answer in answers) == {200: 1, 400: 49}
        (winner,) = [answer.json() for answer in answers if answer.status == 200]
        (await relying.client.get("/api/user", token=winner["access_token"])).ok()
        (await relying.refresh(application, winner["refresh_token"])).ok()
    assert relying.living() == 2
    assert relying.audited("security.authorization_code.reused") == []


async def test_when_a_sign_out_meets_redeems_nothing_stays_open(relying: Relying) -> None:
    for turn in range(5):
        browser = relying.people.session_of(relying.ada)
        token = await relying.people.token(browser)
        codes = [await relying.code(relying.shop, browser) for _ in range(6)]
        async with trio.open_nursery() as nursery:
            for number, code in enumerate(codes):
                if number == turn:
                    nursery.start_soon(partial(relying.client.post, "/api/auth/logout", token=token))
                nursery.start_soon(relying.redeem, relying.shop, code)
        assert relying.living() == 0


async def test_when_the_last_role_goes_beside_redeems_nothing_stays_open(relying: Relying) -> None:
    relying.people.change("update services set sign_in_policy = 'assigned' where id = %s", relying.shop.service.id)
    governor = relying.resident(relying.acme, "admin", "governor")
    relying.tenants.uses(relying.ada, relying.shop.service)
    for turn in range(5):
        assignment = relying.tenants.assign(relying.shop.service, user_id=relying.ada.user)
        codes = [await relying.code(relying.shop) for _ in range(6)]
        path = f"/api/organizations/acme/services/{relying.shop.service.slug}/assignments/{assignment}"
        answers: list[Received] = []

        async def redeem(code: str) -> None:
            answers.append(await relying.redeem(relying.shop, code))  # noqa: B023 - it runs within this turn

        async with trio.open_nursery() as nursery:
            for number, code in enumerate(codes):
                if number == turn:
                    nursery.start_soon(partial(relying.request, "DELETE", path, by=governor))
                nursery.start_soon(redeem, code)
        assert relying.living() == 0
        for tokens in [answer.json() for answer in answers if answer.status == 200]:
            relying.kept(tokens)
            assert (await relying.client.get("/api/user", token=tokens["access_token"])).status == 401
            assert oauth(await relying.refresh(relying.shop, tokens["refresh_token"])) == (400, "invalid_grant")


async def test_an_application_signs_out_with_the_browser_unless_it_may_stay(relying: Relying) -> None:
    child, root = await relying.signed_in(relying.shop), await relying.signed_in(relying.page, scopes="openid offline_access")
    relying.people.change("update users set email_verified_at = null")
    token = await relying.people.token(relying.ada)
    (await relying.client.post("/api/auth/logout", token=token)).ok()
    assert (await relying.client.get("/api/user", token=child["access_token"])).status == 401
    assert oauth(await relying.refresh(relying.shop, child["refresh_token"])) == (400, "invalid_grant")
    (await relying.client.get("/api/user", token=root["access_token"])).ok()
    tokens = (await relying.refresh(relying.page, root["refresh_token"])).ok()
    # Deactivation ends it as well.
    relying.people.change("update users set deactivated_at = now()")
    assert (await relying.client.get("/api/user", token=tokens["access_token"])).status == 401
    assert oauth(await relying.refresh(relying.page, tokens["refresh_token"])) == (400, "invalid_grant")


async def test_another_tenants_client_learns_nothing_of_a_code(relying: Relying) -> None:
    code = await relying.code(relying.shop)
    known = await relying.redeem(relying.theirs, code)
    unknown = await relying.redeem(relying.theirs, "unknown")
    assert {**known.json(), "timestamp": ""} == {**unknown.json(), "timestamp": ""}


async def test_a_header_names_the_client_too(relying: Relying) -> None:
    code = await relying.code(relying.shop)
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": "https://app.example/callback", "code_verifier": VERIFIER}
    (await relying.ask(fields=fields, headers=[basic(relying.shop.client_id, relying.shop.secret or "")])).ok()


async def test_an_application_that_asks_for_nothing_learns_who_signed_in_and_opens_nothing_more(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop, scopes="")
    assert {name for name in ("scope", "id_token") if name in tokens} == set()
    access = claims_of(tokens["access_token"])
    assert (access["scope"], access["sub"]) == ("", str(relying.ada.user))
    relying.tenants.join(relying.ada, relying.acme, "owner")
    opened = [
        path
        for path in ("/api/user", "/api/user/devices", "/api/user/mfa/status", "/api/organizations", "/api/organizations/acme")
        if (await relying.client.get(path, token=tokens["access_token"])).status == 200
    ]
    assert opened == ["/api/user"]
    assert (await relying.userinfo(tokens["access_token"])).status == 403
    assert (await relying.introspect(relying.shop, tokens["access_token"]))["active"] is True
    again = relying.kept((await relying.refresh(relying.shop, tokens["refresh_token"])).ok())
    assert claims_of(again["access_token"])["scope"] == ""
    assert oauth(await relying.refresh(relying.shop, again["refresh_token"], scope="openid")) == (400, "invalid_scope")
