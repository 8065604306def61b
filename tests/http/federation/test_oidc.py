"""Userinfo, and the documents from which applications configure themselves."""

import pytest

from core.domain.federation.oauth.resources import SCOPES
from core.domain.identity.sessions import ONE_FACTOR
from core.domain.tenancy.roles import Capability
from tests.http.client import refused
from tests.http.federation.relying import FORM, USERINFO, Relying, claims_of
from tests.http.people import BASE_URL


async def test_userinfo_tells_what_the_scopes_tell(relying: Relying) -> None:
    expected: dict[str, dict[str, object]] = {
        "openid": {},
        "openid email": {"email": "ada@example.org", "email_verified": True},
        "openid profile": {},
        "openid profile email": {"preferred_username": "ada@example.org", "email": "ada@example.org", "email_verified": True},
        "openid roles": {"roles": [], "permissions": []},
        "openid organization": {"organization": {"id": str(relying.acme.id), "slug": "acme", "role": None}},
        "openid groups": {"groups": []},
    }
    for scopes, claims in expected.items():
        tokens = await relying.signed_in(relying.shop, scopes=scopes)
        answer = await relying.userinfo(tokens["access_token"])
        assert answer.ok() == {"sub": str(relying.ada.user), **claims}
        assert answer.header("cache-control") == "no-store"
    relying.people.change("update users set email_verified_at = null")
    tokens = await relying.signed_in(relying.shop)
    assert (await relying.userinfo(tokens["access_token"])).ok()["email_verified"] is False


async def test_groups_are_the_role_in_the_organization_of_the_service(relying: Relying) -> None:
    """The groups are in the ID token, after a refresh and in userinfo, and never those of another organization."""
    relying.tenants.join(relying.ada, relying.globex, "owner")
    relying.tenants.join(relying.ada, relying.acme, "admin")
    role = relying.tenants.role(relying.acme, "notebooks", [Capability.END_USERS_VIEW])
    # Without the scope there are no groups.
    for scopes in ("openid profile email organization", "groups"):
        plain = await relying.signed_in(relying.shop, scopes=scopes)
        assert "groups" not in claims_of(plain.get("id_token", plain["access_token"]))
        assert "groups" not in (await relying.introspect(relying.shop, plain["access_token"]))
    tokens = await relying.signed_in(relying.shop, scopes="openid groups offline_access")
    assert tokens["scope"] == "openid groups offline_access"
    for groups, change in (
        (["acme/admin"], ""),
        (["acme/notebooks"], f"update memberships set role = 'notebooks', role_id = '{role.id}' where org_id = %s"),
        ([], "delete from memberships where org_id = %s"),
    ):
        if change:
            relying.people.change(change, relying.acme.id)
        tokens = relying.kept((await relying.refresh(relying.shop, tokens["refresh_token"])).ok()) if change else tokens
        assert claims_of(tokens["id_token"])["groups"] == groups
        assert (await relying.userinfo(tokens["access_token"])).ok() == {"sub": str(relying.ada.user), "groups": groups}
        assert "groups" not in claims_of(tokens["access_token"])


async def test_by_post_with_the_token_in_the_header_or_the_body(relying: Relying) -> None:
    tokens = await relying.signed_in(relying.shop)
    body = f"access_token={tokens['access_token']}".encode()
    assert (await relying.client.request("POST", USERINFO, body=body, headers=[FORM])).ok()["email"] == "ada@example.org"
    assert (await relying.client.post(USERINFO, token=tokens["access_token"])).ok()["email"] == "ada@example.org"
    assert refused(await relying.client.post(USERINFO)) == (401, "UNAUTHORIZED")
    for token, code in (("x", "JWT_ERROR"), ("%C3%A9", "JWT_ERROR"), (tokens["id_token"], "JWT_ERROR")):
        answer = await relying.client.request("POST", USERINFO, body=f"access_token={token}".encode(), headers=[FORM])
        assert refused(answer) == (401, code)


async def test_only_with_openid(relying: Relying) -> None:
    without = (await relying.signed_in(relying.shop, scopes="email"))["access_token"]
    tokens = [without, await relying.people.token(relying.ada), await relying.tenants.token_in(relying.ada, relying.shop.service)]
    for token in tokens:
        answer = await relying.userinfo(token)
        assert refused(answer) == (403, "FORBIDDEN")
        assert answer.header("www-authenticate") == 'Bearer error="insufficient_scope", scope="openid"'
    answer = await relying.client.request("POST", USERINFO, body=f"access_token={without}".encode(), headers=[FORM])
    assert refused(answer) == (403, "FORBIDDEN")
    assert refused(await relying.client.get(USERINFO)) == (401, "UNAUTHORIZED")


async def test_an_application_opens_no_more_than_what_it_is_for(relying: Relying) -> None:
    relying.tenants.join(relying.ada, relying.acme, "owner")
    token = (await relying.signed_in(relying.shop, scopes="openid profile email offline_access organization"))["access_token"]
    for path in ("/api/user", "/api/subscription", "/api/user/identities", USERINFO):
        assert (await relying.client.get(path, token=token)).status == 200, path
    for path in ("/api/user/devices", "/api/user/mfa/status", "/api/organizations", "/api/invitations", "/api/organizations/acme"):
        assert refused(await relying.client.get(path, token=token)) == (403, "FORBIDDEN"), path


async def test_an_id_token_opens_nothing(relying: Relying) -> None:
    for algorithm in ("RS256", "ES256"):
        relying.people.change("update services set id_token_alg = %s", algorithm)
        token = (await relying.signed_in(relying.shop))["id_token"]
        for path in ("/api/user", "/api/organizations", USERINFO):
            assert refused(await relying.client.get(path, token=token)) == (401, "JWT_ERROR")
        assert await relying.introspect(relying.shop, token) == {"active": False}


DOCUMENTS = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")


@pytest.mark.parametrize("path", DOCUMENTS)
async def test_where_everything_is(relying: Relying, path: str) -> None:
    answer = await relying.client.get(path)
    found = answer.ok()
    assert (answer.header("content-type"), answer.header("cache-control")) == ("application/json", "public, max-age=300")
    assert found["issuer"] == BASE_URL
    assert {name: url.removeprefix(BASE_URL) for name, url in found.items() if name.endswith(("_endpoint", "_uri"))} == {
        "authorization_endpoint": "/oauth/authorize",
        "token_endpoint": "/auth/token",
        "userinfo_endpoint": "/oauth/userinfo",
        "jwks_uri": "/.well-known/jwks.json",
        "revocation_endpoint": "/auth/revoke",
        "introspection_endpoint": "/oauth/introspect",
        "end_session_endpoint": "/oauth/logout",
        "pushed_authorization_request_endpoint": "/oauth/par",
        "device_authorization_endpoint": "/auth/device/code",
        "backchannel_authentication_endpoint": "/oauth/bc-authorize",
    }
    assert (found["backchannel_token_delivery_modes_supported"], found["backchannel_user_code_parameter_supported"]) == (["poll"], False)
    assert "urn:openid:params:grant-type:ciba" in found["grant_types_supported"]
    assert found["token_endpoint_auth_methods_supported"] == ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]
    assert "none" not in found["introspection_endpoint_auth_methods_supported"]
    assert found["id_token_signing_alg_values_supported"] == ["RS256", "ES256"]
    assert {"authorization_code", "refresh_token", "client_credentials"} <= set(found["grant_types_supported"])
    assert ONE_FACTOR in found["acr_values_supported"]
    assert (found["code_challenge_methods_supported"], found["authorization_response_iss_parameter_supported"]) == (["S256"], True)
    assert found["scopes_supported"] == list(SCOPES)
    assert found["ui_locales_supported"] == ["en", "de", "es", "fr", "nl", "it", "pt-BR", "pl", "tr", "uk", "ja", "ko", "zh-Hans", "ar"]
    keys = (await relying.client.get("/.well-known/jwks.json")).json()["keys"]
    assert {key["alg"] for key in keys} == {"RS256", "ES256"}


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("beside", ["{}/", "{}/acme", "{}/mcp", "{}/.", "{}%2Facme", "{}%2F", "/acme{}", "/mcp{}", "//acme{}", "{}.json"])
async def test_no_other_issuer_gets_our_metadata(relying: Relying, document: str, beside: str) -> None:
    """The issuer has no path, so a client that asks for one looks for another issuer (RFC 8414 section 3.1 and 3.3)."""
    answer = await relying.client.get(beside.format(document))
    assert answer.status == 404
    assert b"token_endpoint" not in answer.body
    assert (await relying.client.get(document)).ok()["issuer"] == BASE_URL


@pytest.mark.parametrize("document", DOCUMENTS)
async def test_pages_of_other_origins_ask_for_the_metadata_with_the_version_of_their_protocol(relying: Relying, document: str) -> None:
    asking = [
        *(("origin", "https://inspector.example"), ("access-control-request-method", "GET")),
        ("access-control-request-headers", "mcp-protocol-version"),
    ]
    before = await relying.client.request("OPTIONS", document, headers=asking)
    assert "mcp-protocol-version" in (before.header("access-control-allow-headers") or "").split(", ")
    assert before.header("access-control-allow-origin") == "*"
