"""The modules of the basic plan that look at what a sign-in gives."""

from tests.conformance.kit import answers, id_tokens
from tests.conformance.kit.answers import SCOPES
from tests.conformance.kit.browser import Arrival
from tests.conformance.kit.relying import GivenTokens, Suite, pkce


def test_oidcc_server(suite: Suite) -> None:
    tokens = suite.tokens(suite.request())
    assert answers.is_long(tokens.code)
    assert answers.is_random(tokens.code)
    suite.outcome.should("expires_in" in tokens.answer, "no expires_in")
    assert tokens.claims.get("at_hash") in {None, id_tokens.half_digest(tokens.access_token)}
    assert tokens.claims.get("c_hash") in {None, id_tokens.half_digest(tokens.code)}
    suite.outcome.should("name" not in tokens.claims, "the ID token has a name")
    suite.outcome.should(tokens.claims.keys() <= id_tokens.EXPECTED, "the ID token says what was not asked for")


def test_oidcc_response_type_missing(suite: Suite) -> None:
    request = suite.request(response_type=None)
    came = suite.at_authorization(request)
    if isinstance(came, Arrival):
        assert suite.refusal(suite.checked_arrival(came), request) in {"unsupported_response_type", "invalid_request"}
    else:
        # A person looks at the page and sees that it says so.
        assert "response_type" in came.text


def test_oidcc_idtoken_signature(suite: Suite) -> None:
    request = suite.request()
    tokens = suite.tokens(request)
    header = id_tokens.header(tokens.id_token)
    assert header["kid"]
    assert header["alg"] == "RS256"


def test_oidcc_idtoken_unsigned(suite: Suite) -> None:
    assert "none" not in suite.metadata["id_token_signing_alg_values_supported"]
    suite.outcome.is_not_offered("`none` is not among `id_token_signing_alg_values_supported`, so the suite skips the module")


def test_oidcc_ensure_request_without_nonce_succeeds_for_code_flow(suite: Suite) -> None:
    request = suite.request(nonce=None)
    assert suite.code(request)


def tells(suite: Suite, tokens: GivenTokens, scope: str) -> None:
    """Userinfo tells what the scopes tell."""
    told = answers.userinfo(suite.userinfo(tokens.access_token), tokens.claims["sub"])
    expected = set().union(*(SCOPES[one] for one in scope.split()))
    suite.outcome.should(expected <= told.keys(), f"userinfo lacks {sorted(expected - told.keys())}")


def test_oidcc_scope_profile(suite: Suite) -> None:
    tokens = suite.tokens(suite.request(scope="openid profile"))
    tells(suite, tokens, "openid profile")


def with_the_address(suite: Suite, tokens: GivenTokens) -> None:
    """The address is at userinfo, and not in the ID token; a name is in neither."""
    suite.outcome.should("name" not in tokens.claims, "the ID token has a name")
    suite.outcome.should("email" not in tokens.claims, "the ID token has an address")
    tells(suite, tokens, "openid email")
    suite.outcome.should("name" not in suite.userinfo(tokens.access_token).json(), "userinfo has a name")


def test_oidcc_scope_email(suite: Suite) -> None:
    with_the_address(suite, suite.tokens(suite.request(scope="openid email")))


def is_unknown(suite: Suite, scope: str) -> None:
    assert not set(scope.split()) <= set(suite.metadata["scopes_supported"])
    suite.outcome.is_not_offered(
        "Postern keeps no postal addresses and telephone numbers: the suite skips the module by `scopes_supported`"
    )


def test_oidcc_scope_address(suite: Suite) -> None:
    is_unknown(suite, "openid address")


def test_oidcc_scope_phone(suite: Suite) -> None:
    is_unknown(suite, "openid phone")


def test_oidcc_scope_all(suite: Suite) -> None:
    is_unknown(suite, "openid email phone address profile")


def test_oidcc_alternate_happy_flow(suite: Suite) -> None:
    """The scopes and the parameters stand the other way round."""
    request = suite.request(scope="email openid")
    turned = dict(sorted(request.items(), reverse=True))
    tokens = suite.tokens_of(suite.code_of(suite.arrived(turned), turned), turned)
    with_the_address(suite, tokens)


def test_oidcc_claims_essential(suite: Suite) -> None:
    request = suite.request(claims='{"userinfo":{"name":{"essential":true}}}')
    tokens = suite.tokens(request)
    tells(suite, tokens, "openid")
    suite.outcome.should(suite.userinfo(tokens.access_token).json().get("name"), "userinfo lacks the name")
    suite.outcome.should("name" not in tokens.claims, "the ID token has a name")


def test_oidcc_ensure_post_request_succeeds(suite: Suite) -> None:
    request = suite.request()
    came = suite.checked_arrival(suite.browser.visit(suite.metadata["authorization_endpoint"], request))
    suite.tokens_of(suite.code_of(came, request), request)


def test_oidcc_ensure_request_with_valid_pkce_succeeds(suite: Suite) -> None:
    verifier, challenge = pkce()
    suite.tokens(suite.request(also=challenge), code_verifier=verifier)


def test_oidcc_server_client_secret_post(suite: Suite) -> None:
    assert "client_secret_post" in suite.metadata["token_endpoint_auth_methods_supported"]
    posting = suite.installation.posting
    suite.tokens(suite.request(posting), posting, by_form=True)
