"""Errors of OAuth and OpenID Connect as libraries print them. Each text is the library's own, with values of ours in it."""

from time import process_time
from typing import Final

import pytest

from core.domain.federation.explained_errors import EXPLAINED, LONGEST_ERROR, MOST_EXPLAINED, explained_in, fits
from core.domain.federation.oauth.refusals import RefusalReason, reason_in_words

# The library, what it prints, and the error.
PRINTED: Final = (
    (
        "Authlib",
        "MismatchingStateError: mismatching_state: CSRF Warning! State not equal in request and response.",
        "state",
    ),
    ("Authlib", "authlib.integrations.base_client.errors.OAuthError: invalid_client: The client secret is wrong", "invalid_client"),
    ("Authlib", "authlib.jose.errors.InvalidClaimError: invalid_claim: Invalid claim 'iss'", "issuer"),
    ("Authlib", "authlib.jose.errors.InvalidClaimError: invalid_claim: Invalid claim 'nonce'", "nonce"),
    ("Authlib", "authlib.jose.errors.ExpiredTokenError: expired_token: The token is expired", "clock"),
    (
        "oauthlib",
        "oauthlib.oauth2.rfc6749.errors.MismatchingStateError: (mismatching_state) CSRF Warning! State not equal in request and response.",
        "state",
    ),
    ("oauthlib", "oauthlib.oauth2.rfc6749.errors.InvalidGrantError: (invalid_grant) The code or token is not valid", "invalid_grant"),
    (
        "oauthlib",
        "oauthlib.oauth2.rfc6749.errors.InvalidScopeError: (invalid_scope) The requested scope is invalid, unknown, or malformed.",
        "invalid_scope",
    ),
    ("oauthlib", "oauthlib.oauth2.rfc6749.errors.MismatchingRedirectURIError: (invalid_request) Mismatching redirect URI.", "redirect_uri"),
    ("PyJWT", "jwt.exceptions.InvalidAudienceError: Audience doesn't match", "audience"),
    ("PyJWT", "jwt.exceptions.InvalidIssuerError: Invalid issuer", "issuer"),
    ("PyJWT", "jwt.exceptions.ExpiredSignatureError: Signature has expired", "clock"),
    ("PyJWT", "jwt.exceptions.ImmatureSignatureError: The token is not yet valid (iat)", "clock"),
    ("PyJWT", "jwt.exceptions.InvalidSignatureError: Signature verification failed", "signature"),
    ("mozilla-django-oidc", "django.core.exceptions.SuspiciousOperation: OIDC callback state not found in session `oidc_states`!", "state"),
    ("mozilla-django-oidc", "django.core.exceptions.SuspiciousOperation: JWT Nonce verification failed.", "nonce"),
    ("mozilla-django-oidc", "django.core.exceptions.SuspiciousOperation: JWS token verification failed.", "signature"),
    ("mozilla-django-oidc", "django.core.exceptions.SuspiciousOperation: Could not find a valid JWKS.", "signature"),
    ("openid-client", 'ClientError: unexpected "state" response parameter value { code: "OAUTH_INVALID_RESPONSE" }', "state"),
    ("openid-client", 'OperationProcessingError: unexpected JWT "aud" (audience) claim value', "audience"),
    ("openid-client", 'OperationProcessingError: unexpected ID Token "nonce" claim value', "nonce"),
    ("openid-client", 'OperationProcessingError: unexpected "iss" (issuer) response parameter value', "issuer"),
    ("openid-client", "OperationProcessingError: error when selecting a JWT verification key, no applicable keys found", "signature"),
    (
        "openid-client",
        "ResponseBodyError: server responded with an error in the response body { error: 'invalid_grant', status: 400 }",
        "invalid_grant",
    ),
    ("oidc-client-ts", "Error: No matching state found in storage", "state"),
    ("oidc-client-ts", "Error: nonce in id_token does not match nonce in client storage", "nonce"),
    ("oidc-client-ts", "ErrorResponse: login_required", "login_required"),
    ("passport-oauth2", '{"message":"Unable to verify authorization request state."}', "state"),
    ("passport-oauth2", "TokenError: invalid_grant", "invalid_grant"),
    ("passport-oauth2", "AuthorizationError: access_denied", "access_denied"),
    (
        "passport-oauth2",
        'InternalOAuthError: Failed to obtain access token {"statusCode":401,"data":"{\\"error\\":\\"invalid_client\\"}"}',
        "invalid_client",
    ),
    (
        "Auth.js",
        "[auth][error] InvalidCheck: pkceCodeVerifier value could not be parsed. Read more at https://errors.authjs.dev#invalidcheck",
        "pkce",
    ),
    ("Auth.js", "[auth][error] InvalidCheck: state cookie was missing. Read more at https://errors.authjs.dev#invalidcheck", "state"),
    ("Auth.js", "[auth][error] OAuthCallbackError: OAuth Provider returned an error: unauthorized_client", "unauthorized_client"),
    (
        "golang.org/x/oauth2",
        'oauth2: cannot fetch token: 401 Unauthorized\nResponse: {"error":"invalid_client","error_description":"no"}',
        "invalid_client",
    ),
    ("golang.org/x/oauth2", 'oauth2: "invalid_grant" "The code or token is not valid"', "invalid_grant"),
    (
        "go-oidc",
        'oidc: id token issued by a different provider, expected "https://id.example.org/" got "https://id.example.org"',
        "issuer",
    ),
    ("go-oidc", 'oidc: expected audience "board" got ["shop"]', "audience"),
    ("go-oidc", "oidc: token is expired (Token Expiry: 2026-11-29 04:00:00 +0000 UTC)", "clock"),
    (
        "go-oidc",
        "oidc: current time 2026-11-29 04:00:00 +0000 UTC before the nbf (not before) time: 2026-11-29 05:00:00 +0000 UTC",
        "clock",
    ),
    ("go-oidc", 'oidc: id token signed with unsupported algorithm, expected ["RS256"] got "ES256"', "signature"),
    (
        "go-oidc",
        'oidc: issuer did not match the issuer returned by provider, expected "https://id.example.org/" got "https://id.example.org"',
        "issuer",
    ),
    ("go-oidc", "failed to verify signature: failed to verify id token signature", "signature"),
    (
        "Spring Security",
        "org.springframework.security.oauth2.core.OAuth2AuthenticationException: [authorization_request_not_found] ",
        "state",
    ),
    ("Spring Security", "[invalid_nonce] ", "nonce"),
    ("Spring Security", "[invalid_state_parameter] ", "state"),
    (
        "Spring Security",
        "[invalid_id_token] An error occurred while attempting to decode the Jwt: Signed JWT rejected: Invalid signature",
        "signature",
    ),
    ("joserfc", "joserfc.errors.InvalidClaimError: invalid_claim: Error claim: 'aud'", "audience"),
    ("omniauth-auth0", "Nonce (nonce) claim value mismatch in the ID token; expected (a), found (b)", "nonce"),
    ("Auth.js", "[next-auth][error][OAUTH_CALLBACK_ERROR] PKCE code_verifier value could not be parsed.", "pkce"),
    (
        "openid-client",
        "OperationProcessingError: error when selecting a JWT verification key, multiple applicable keys found",
        "signature",
    ),
    (
        "Spring Security",
        "JwtException: Signed JWT rejected: Another algorithm expected, or no matching key(s) found",
        "signature",
    ),
    ("Postern", "redirect_uri: the service has not registered it", "redirect_uri"),
    (
        "an address",
        "https://app.example.org/callback?error=invalid_request&error_description=redirect_uri%3A+the+service+has+not+registered+it",
        "redirect_uri",
    ),
    ("an address", "http://localhost:3000/cb?error=access_denied&state=xyz", "access_denied"),
    (
        "Entra ID",
        "AADSTS50011: The redirect URI 'https://id.example.org/back' specified in the request does not match the redirect URIs",
        "AADSTS50011",
    ),
    (
        "Entra ID",
        "invalid_client: AADSTS7000215: Invalid client secret provided. Ensure the secret being sent is the value, not the ID",
        "AADSTS7000215",
    ),
    ("Entra ID", "AADSTS7000222: The provided client secret keys for app '6b2d' are expired.", "AADSTS7000215"),
    (
        "Entra ID",
        "Message: AADSTS75011: Authentication method 'X509, MultiFactor' by which the user authenticated doesn't match",
        "AADSTS75011",
    ),
    ("Entra ID", "unauthorized_client AADSTS700016: Application with identifier 'x' was not found in the directory", "AADSTS700016"),
    ("Entra ID", "AADSTS50105: Your administrator has configured the application to block users unless they are assigned", "AADSTS50105"),
    ("Entra ID", "AADSTS900561: The endpoint only accepts POST requests. Received a GET request.", "AADSTS"),
    (
        "SCIM",
        '{"schemas":["urn:ietf:params:scim:api:messages:2.0:Error"],"scimType":"uniqueness","detail":"taken","status":"409"}',
        "SCIM uniqueness",
    ),
    ("SCIM", "Okta: Error while trying to provision: scim 409 conflict", "SCIM uniqueness"),
    ("SCIM", '{"scimType":"invalidFilter","status":"400","schemas":["urn:ietf:params:scim:api:messages:2.0:Error"]}', "SCIM invalidFilter"),
    ("SCIM", "SCIM endpoint returned 401 Unauthorized", "SCIM unauthorized"),
    (
        "SCIM",
        "SystemForCrossDomainIdentityManagementCredentialValidationUnavailable: your credentials are invalid",
        "SCIM unauthorized",
    ),
    ("SCIM", '{"scimType":"mutability","status":"400","schemas":["urn:ietf:params:scim:api:messages:2.0:Error"]}', "SCIM mutability"),
    ("SCIM", '{"scimType":"noTarget","status":"400","schemas":["urn:ietf:params:scim:api:messages:2.0:Error"]}', "SCIM noTarget"),
    ("SCIM", "scim: 400 Bad Request invalidValue emails", "SCIM invalidValue"),
)


@pytest.mark.parametrize(("library", "text", "name"), PRINTED)
def test_an_error_is_explained_as_its_library_prints_it(library: str, text: str, name: str) -> None:
    assert [one.name for one in explained_in(text)][:1] == [name], library


def test_ten_errors_and_ten_libraries_are_in_the_table() -> None:
    assert len({name for _, _, name in PRINTED}) >= 10
    assert len({library for library, _, _ in PRINTED} - {"Postern", "an address"}) >= 10


@pytest.mark.parametrize(
    "text",
    [
        *("", "ok", "ada@example.org signed in", "GET /callback?code=abc&state=xyz 200", "invalid literal for int()"),
        *("HTTP 409 Conflict", "401 Unauthorized", "set up SCIM for Okta", "a filter that is invalid", "AADSTS"),
    ],
)
def test_what_is_no_error_of_oauth_is_not_explained(text: str) -> None:
    assert explained_in(text) == []


def test_each_error_has_a_cause_a_page_and_a_change_and_one_anchor() -> None:
    assert len({one.anchor for one in EXPLAINED}) == len(EXPLAINED)
    for one in EXPLAINED:
        assert one.cause
        assert one.page
        assert one.press
        # Whoever words the error is cited, and no link leads anywhere else.
        assert bool(one.source) is one.name.startswith(("AADSTS", "SCIM"))
        assert not one.source or one.source.startswith(("https://learn.microsoft.com/entra/", "https://www.rfc-editor.org/rfc/rfc7644"))
        # The page puts the full stop.
        assert not one.cause.endswith(".")
        assert not one.press.endswith(".")


def test_what_postern_refuses_itself_is_said_in_the_words_of_the_refusal() -> None:
    by_name = {one.name: one for one in EXPLAINED}
    for name, reason in (("redirect_uri", RefusalReason.REDIRECT_UNREGISTERED), ("pkce", RefusalReason.VERIFIER_DIFFERS)):
        assert (by_name[name].cause, by_name[name].press) == reason_in_words(reason)


def test_a_trace_with_everything_is_explained_by_few_errors_within_bounds() -> None:
    everything = " ".join(text for _, text, _ in PRINTED)
    assert len(explained_in(everything)) == MOST_EXPLAINED
    for long in (
        "redirect_uri " * 1200,
        "invalid " * 2000,
        "\u202e" * 5000,
        "<script>" * 2000,
        "redirect uri a a a a a " * 700,
        "scim 40 " * 2000,
        "aadsts " * 2300,
    ):
        assert fits(long)
        began = process_time()
        explained_in(long)
        assert process_time() - began < 0.5, long[:30]
    assert not fits("a" * (LONGEST_ERROR + 1))
    assert not fits("\u202e" * LONGEST_ERROR)
