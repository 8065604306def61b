"""The modules of FAPI 2.0 that are about authorization and pushed requests."""

import json

import pytest

from tests.conformance.kit import answers, id_tokens
from tests.conformance.kit import metadata as conditions
from tests.conformance.kit.browser import Arrival, ShownPage
from tests.conformance.kit.installation import CALLBACK
from tests.conformance.kit.keyed import SCOPE, KeyedSuite, new_key, refused_at_par, thumbprint
from tests.conformance.kit.metadata import ALLOWED_FOR_FAPI, WELL_KNOWN
from tests.conformance.kit.relying import Request, pause, random_text
from tests.conformance.kit.tls import speaks_well

BOTH = ("invalid_request", "invalid_request_object")
OF_PERSONS = frozenset(
    [
        "sub",
        "name",
        "given_name",
        "family_name",
        "preferred_username",
        "picture",
        "zoneinfo",
        "locale",
        "updated_at",
        "email",
        "email_verified",
    ]
)


def test_fapi2_security_profile_final_discovery_end_point_verification(fapi: KeyedSuite) -> None:
    address = fapi.installation.issuer + WELL_KNOWN
    metadata = conditions.discovered(fapi.client.get(address))
    conditions.has(metadata, "response_types_supported", "code")
    assert metadata["authorization_response_iss_parameter_supported"] is True
    conditions.is_https(metadata, "pushed_authorization_request_endpoint")
    conditions.is_an_issuer(metadata["issuer"], address)
    conditions.has_its_form(metadata)
    unknown = conditions.unknown_to_the_suite(metadata, conditions.allowed_unknown())
    fapi.outcome.should(not unknown, f"the suite does not know {sorted(unknown)}")
    for name in ("dpop_signing_alg_values", "id_token_signing_alg_values", "token_endpoint_auth_signing_alg_values"):
        conditions.has(metadata, f"{name}_supported", one_of=ALLOWED_FOR_FAPI)
    conditions.has(metadata, "token_endpoint_auth_methods_supported", "private_key_jwt")
    if "userinfo_signing_alg_values_supported" in metadata:
        conditions.has(metadata, "userinfo_signing_alg_values_supported", one_of=ALLOWED_FOR_FAPI)
    for name in ("token_endpoint", "authorization_endpoint", "jwks_uri"):
        conditions.is_https(metadata, name)
    conditions.has(metadata, "code_challenge_methods_supported", "S256")
    conditions.has_scopes(metadata)
    conditions.has_locales(metadata)
    assert isinstance(metadata.get("require_pushed_authorization_requests", False), bool)
    conditions.has(metadata, "subject_types_supported", one_of={"public", "pairwise"})


def test_fapi2_security_profile_final_happy_flow(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    code = fapi.keyed_code(fapi.first, request)
    tokens = fapi.checked_tokens(fapi.keyed_redeem(fapi.first, code), request, code)
    speaks_well(fapi, "userinfo_endpoint")
    fapi.resource_is_open(tokens.access_token)
    in_query = fapi.client.get(fapi.metadata["userinfo_endpoint"], params={"access_token": tokens.access_token})
    assert in_query.status_code in {400, 401, 414}
    accept_utf8 = {
        "Accept": "application/json;charset=UTF-8",
        "Accept-Charset": "utf-8",
        "x-fapi-customer-ip-address": "2001:db8::1893:25c8:1946",
    }
    fapi.resource_is_open(tokens.access_token, headers=accept_utf8)
    fapi.resource_is_open(tokens.access_token, headers={"Accept": "application/json, application/*+json, */*"})
    expected = {"email", "email_verified"}
    fapi.outcome.should(tokens.claims.keys() <= id_tokens.EXPECTED | expected, "the ID token says what was not asked for")
    # The second application has a query in its address, a key in its request, and nothing beside the pushed request.
    first_holder, fapi.holder = fapi.holder, new_key()
    again = fapi.keyed_request(fapi.second, nonce=43, dpop_jkt=thumbprint(fapi.holder))
    second = fapi.keyed_tokens(fapi.second, again, alone=True)
    fapi.holder = first_holder
    assert 400 <= fapi.resource(second.access_token).status_code < 500


def test_fapi2_security_profile_final_user_rejects_authentication(fapi: KeyedSuite) -> None:
    fapi.browser.consent = "deny"
    for client in (fapi.first, fapi.second):
        # Whoever has allowed it before is asked once more.
        request = fapi.keyed_request(client, state=128, prompt="consent")
        came = fapi.go(client, request, fapi.pushed(fapi.push(client, request)))
        assert isinstance(came, Arrival), came
        told = came.query
        assert told["state"] == request["state"]
        assert "code" not in told
        dummies = {"dummy1", "dummy2"} if client == fapi.second else set()
        fapi.outcome.should(told.keys() - dummies <= answers.EXPECTED_IN_ERRORS, "unexpected parameters beside the error")
        assert told["error"] == "access_denied"
        if client == fapi.second:
            assert (told["dummy1"], told["dummy2"]) == ("lorem", "ipsum")


def test_fapi2_security_profile_final_ensure_authorization_request_without_state_success(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    del request["state"]
    fapi.keyed_tokens(fapi.first, request)


def test_fapi2_security_profile_final_ensure_authorization_request_without_nonce_success(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    del request["nonce"]
    fapi.keyed_tokens(fapi.first, request)


def test_fapi2_security_profile_final_ensure_authorization_request_with_64_char_nonce_success(fapi: KeyedSuite) -> None:
    fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first, nonce=64))


def test_fapi2_security_profile_final_ensure_other_scope_order_succeeds(fapi: KeyedSuite) -> None:
    fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first, scope=" ".join(reversed(SCOPE.split()))))


def test_fapi2_security_profile_final_test_claims_parameter_identity_claims(fapi: KeyedSuite) -> None:
    assert fapi.metadata["claims_parameter_supported"] is True
    wanted = dict.fromkeys(answers.STANDARD & set(fapi.metadata["claims_supported"]))
    assert wanted
    places = {"id_token": wanted, "userinfo": wanted, random_text(): {random_text(): None}}
    request = fapi.keyed_request(fapi.first, claims=json.dumps(places))
    code = fapi.keyed_code(fapi.first, request)
    tokens = fapi.checked_tokens(fapi.keyed_redeem(fapi.first, code), request, code)
    answer = fapi.resource_is_open(tokens.access_token)
    assert answers.is_json(answer)
    told = answers.userinfo(answer, tokens.claims["sub"])
    fapi.outcome.should(told.keys() <= answers.STANDARD, f"unknown claims at userinfo: {sorted(told.keys() - answers.STANDARD)}")
    missing = wanted.keys() - told.keys() - tokens.claims.keys()
    fapi.outcome.should(not missing, f"nobody told {sorted(missing)}")
    unknown = tokens.claims.keys() - answers.STANDARD - id_tokens.OWN
    fapi.outcome.should(not unknown, f"unknown claims in the ID token: {sorted(unknown)}")


def is_refused_or_passed_over(fapi: KeyedSuite, request: Request, came: Arrival | ShownPage) -> None:
    """A page for the person, an error at the callback, or the flow goes on as if nothing stood beside the pushed request."""
    if isinstance(came, ShownPage):
        assert came.status == 400
    elif "error" in came.query:
        assert fapi.refusal(came, request) == "invalid_request"
    else:
        code = fapi.code_at(fapi.first, request, came)
        fapi.resource_is_open(fapi.checked_tokens(fapi.keyed_redeem(fapi.first, code), request, code).access_token)


def test_fapi2_security_profile_final_ensure_different_nonce_inside_and_outside_request_object(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    uri = fapi.pushed(fapi.push(fapi.first, request))
    is_refused_or_passed_over(fapi, request, fapi.go(fapi.first, request, uri, nonce=random_text()))


def test_fapi2_security_profile_final_ensure_different_state_inside_and_outside_request_object(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    uri = fapi.pushed(fapi.push(fapi.first, request))
    is_refused_or_passed_over(fapi, request, fapi.go(fapi.first, request, uri, state=random_text()))


def test_fapi2_security_profile_final_state_only_outside_request_object_not_used(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    beside = request.pop("state")
    uri = fapi.pushed(fapi.push(fapi.first, request))
    came = fapi.go(fapi.first, request, uri, state=beside)
    assert isinstance(came, ShownPage) or came.query.get("error") or "state" not in came.query
    if isinstance(came, Arrival) and "error" in came.query:
        assert came.query["error"] in {"invalid_request", "invalid_request_object", "invalid_request_uri", "access_denied"}
    elif isinstance(came, Arrival):
        is_refused_or_passed_over(fapi, request, came)


def is_long_but_taken(fapi: KeyedSuite, request: Request, *, should_pass: bool) -> None:
    """A long value may be refused in words. Of a long `state`, the suite would rather have it taken."""
    answer = fapi.push(fapi.first, request)
    if answer.is_success:
        is_refused_or_passed_over(fapi, request, fapi.go(fapi.first, request, fapi.pushed(answer)))
    else:
        refused_at_par(answer, "invalid_request")
        fapi.outcome.should(not should_pass, "a long state is refused")


def test_fapi2_security_profile_final_ensure_authorization_request_with_long_nonce(fapi: KeyedSuite) -> None:
    is_long_but_taken(fapi, fapi.keyed_request(fapi.first, nonce=384), should_pass=False)


def test_fapi2_security_profile_final_ensure_authorization_request_with_long_state(fapi: KeyedSuite) -> None:
    is_long_but_taken(fapi, fapi.keyed_request(fapi.first, state=1000), should_pass=True)


def is_refused_where_it_is_pushed(fapi: KeyedSuite, request: Request, *errors: str) -> None:
    refused_at_par(fapi.push(fapi.first, request), *errors)


def test_fapi2_security_profile_final_ensure_request_object_without_redirect_uri_fails(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    del request["redirect_uri"]
    is_refused_where_it_is_pushed(fapi, request, *BOTH)


def test_fapi2_security_profile_final_ensure_redirect_uri_in_authorization_request(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    del request["redirect_uri"]
    is_refused_where_it_is_pushed(fapi, request, *BOTH)


def test_fapi2_security_profile_final_ensure_registered_redirect_uri(fapi: KeyedSuite) -> None:
    is_refused_where_it_is_pushed(fapi, fapi.keyed_request(fapi.first, redirect_uri=f"{CALLBACK}/{random_text()}"), *BOTH)


def test_fapi2_security_profile_final_plain_fapi_tolerate_unregistered_redirect_uri(fapi: KeyedSuite) -> None:
    """A server may take any address of a client that has authenticated. Postern takes none but the registered."""
    is_refused_where_it_is_pushed(fapi, fapi.keyed_request(fapi.first, redirect_uri=f"{CALLBACK}/{random_text()}"), *BOTH)


def test_fapi2_security_profile_final_ensure_response_type_code_idtoken_fails(fapi: KeyedSuite) -> None:
    errors = ("unsupported_response_type", "invalid_request", "unauthorized_client")
    is_refused_where_it_is_pushed(fapi, fapi.keyed_request(fapi.first, response_type="code id_token"), *errors)


def test_fapi2_security_profile_final_ensure_response_type_token_fails(fapi: KeyedSuite) -> None:
    errors = ("unsupported_response_type", "invalid_request", "unauthorized_client")
    is_refused_where_it_is_pushed(fapi, fapi.keyed_request(fapi.first, response_type="token"), *errors)


def test_fapi2_security_profile_final_par_ensure_pkce_required(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first, code_challenge=None, code_challenge_method=None)
    is_refused_where_it_is_pushed(fapi, request, "invalid_request")


def test_fapi2_security_profile_final_par_plain_pkce_rejected(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first, code_challenge=random_text(64), code_challenge_method="plain")
    is_refused_where_it_is_pushed(fapi, request, "invalid_request")


def test_fapi2_security_profile_final_par_authorization_request_containing_request_uri_form_param(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first, request_uri="urn:fdc:authlete.com:E2ooXxELkEFSKR90ymYV-BbwAvCC2TozHfSb_mMCw2s")
    is_refused_where_it_is_pushed(fapi, request, *BOTH, "request_uri_not_supported")


def test_fapi2_security_profile_final_par_attempt_invalid_http_method(fapi: KeyedSuite) -> None:
    assert fapi.push(fapi.first, fapi.keyed_request(fapi.first), method="PUT").status_code >= 400


def test_fapi2_security_profile_final_ensure_unsigned_authorization_request_without_using_par_fails(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    came = fapi.at_authorization(request)
    if isinstance(came, Arrival):
        assert fapi.refusal(came, request) == "invalid_request"
    else:
        assert came.status == 400


def test_fapi2_security_profile_final_par_without_duplicate_parameters(fapi: KeyedSuite) -> None:
    fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first), alone=True)


def test_fapi2_security_profile_final_par_ensure_reused_request_uri_prior_to_auth_completion_succeeds(fapi: KeyedSuite) -> None:
    """The person opens the page to sign in and leaves it, and comes with the same address once more."""
    request = fapi.keyed_request(fapi.first)
    uri = fapi.pushed(fapi.push(fapi.first, request))
    address = f"{fapi.metadata['authorization_endpoint']}"
    opened = fapi.client.get(address, params={"client_id": fapi.first.client_id, "request_uri": uri}, follow_redirects=True)
    assert opened.status_code == 200
    came = fapi.go(fapi.first, request, uri)
    if isinstance(came, Arrival) and "error" in came.query:
        fapi.outcome.should(False, "a pushed request counts once, even if nobody has signed in")
        assert fapi.refusal(came, request) == "invalid_request_uri"
    else:
        code = fapi.code_at(fapi.first, request, came)
        fapi.resource_is_open(fapi.checked_tokens(fapi.keyed_redeem(fapi.first, code), request, code).access_token)


def is_no_request(came: Arrival | ShownPage, *errors: str) -> None:
    """A page for the person, or an error at the callback."""
    if isinstance(came, Arrival):
        assert came.query.get("error") in errors
    else:
        assert came.status == 400


def test_fapi2_security_profile_final_par_attempt_reuse_request_uri(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    uri = fapi.pushed(fapi.push(fapi.first, request))
    code = fapi.code_at(fapi.first, request, fapi.go(fapi.first, request, uri))
    fapi.checked_tokens(fapi.keyed_redeem(fapi.first, code), request, code)
    is_no_request(fapi.go(fapi.first, request, uri), "invalid_request_uri")


@pytest.mark.only_whole
def test_fapi2_security_profile_final_par_attempt_to_use_expired_request_uri(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    answer = fapi.push(fapi.first, request)
    uri = fapi.pushed(answer)
    pause(answer.json()["expires_in"] + 1)
    is_no_request(fapi.go(fapi.first, request, uri), "invalid_request_uri")


def test_fapi2_security_profile_final_par_attempt_to_use_request_uri_for_different_client(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    uri = fapi.pushed(fapi.push(fapi.first, request))
    came = fapi.go(fapi.second, request, uri)
    is_no_request(came, "invalid_request", "invalid_request_object", "invalid_request_uri")
