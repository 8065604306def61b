"""The modules of FAPI 2.0 that are about the token endpoint: codes, assertions and refresh tokens."""

from typing import Any

import httpx
import pytest

from tests.conformance.kit import answers, id_tokens
from tests.conformance.kit.keyed import KeyedClient, KeyedSuite, new_key, refused_at_par, refused_client
from tests.conformance.kit.relying import pause, random_text
from tests.conformance.kit.tls import speaks_well

CLIENT_OR_REQUEST = ("invalid_client", "invalid_request")


def test_fapi2_security_profile_final_access_token_type_header_case_sensitivity(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    code = fapi.keyed_code(fapi.first, request)
    tokens = fapi.checked_tokens(fapi.keyed_redeem(fapi.first, code), request, code)
    fapi.resource_is_open(tokens.access_token, scheme=str(tokens.answer["token_type"]).swapcase())


def code_of(fapi: KeyedSuite) -> str:
    return fapi.keyed_code(fapi.first, fapi.keyed_request(fapi.first))


def is_no_grant(fapi: KeyedSuite, answer: httpx.Response) -> None:
    assert answers.refused_at_token(answer, fapi.outcome) == "invalid_grant"


def test_fapi2_security_profile_final_ensure_client_id_in_token_endpoint(fapi: KeyedSuite) -> None:
    """The second application redeems the code of the first."""
    code = code_of(fapi)
    answer = fapi.keyed_redeem(fapi.second, code, client_id=fapi.second.client_id, redirect_uri=fapi.first.callback)
    refused_client(answer, fapi, "invalid_client", "invalid_grant")


def test_fapi2_security_profile_final_ensure_holder_of_key_required(fapi: KeyedSuite) -> None:
    for endpoint in ("authorization_endpoint", "userinfo_endpoint", "token_endpoint"):
        speaks_well(fapi, endpoint)
    answer = fapi.keyed_redeem(fapi.first, code_of(fapi), proof=None)
    assert answers.refused_at_token(answer, fapi.outcome) in {"invalid_request", "invalid_grant", "invalid_dpop_proof"}


def test_fapi2_security_profile_final_ensure_authorization_code_is_bound_to_client(fapi: KeyedSuite) -> None:
    code = code_of(fapi)
    fapi.holder = new_key()
    is_no_grant(fapi, fapi.keyed_redeem(fapi.second, code, redirect_uri=fapi.first.callback))


def test_fapi2_security_profile_final_attempt_reuse_authorization_code_after_one_second(fapi: KeyedSuite) -> None:
    tokens = fapi.keyed_tokens(fapi.first, fapi.keyed_request(fapi.first))
    pause(1)
    is_no_grant(fapi, fapi.keyed_redeem(fapi.first, tokens.code))
    gone = fapi.resource(tokens.access_token).status_code
    fapi.outcome.should(400 <= gone < 500, "the access token of a code that came twice counts")


@pytest.mark.only_whole
def test_fapi2_security_profile_final_ensure_token_endpoint_fails_with_expired_auth_code(fapi: KeyedSuite) -> None:
    code = code_of(fapi)
    pause(62)
    is_no_grant(fapi, fapi.keyed_redeem(fapi.first, code))


def test_fapi2_security_profile_final_ensure_pkce_code_verifier_required(fapi: KeyedSuite) -> None:
    is_no_grant(fapi, fapi.keyed_redeem(fapi.first, code_of(fapi), code_verifier=None))


def test_fapi2_security_profile_final_incorrect_pkce_code_verifier_rejected(fapi: KeyedSuite) -> None:
    is_no_grant(fapi, fapi.keyed_redeem(fapi.first, code_of(fapi), code_verifier=random_text(64)))


# --- Assertions.


def is_no_client(fapi: KeyedSuite, authentication: dict[str, str], *errors: str) -> None:
    refused_client(fapi.keyed_redeem(fapi.first, code_of(fapi), authentication), fapi, *(errors or CLIENT_OR_REQUEST))


def test_fapi2_security_profile_final_ensure_signed_client_assertion_with_rs256_fails(fapi: KeyedSuite) -> None:
    is_no_client(fapi, fapi.first.assertion(fapi.installation.issuer, "RS256"), "invalid_client")


def test_fapi2_security_profile_final_ensure_client_assertion_in_token_endpoint(fapi: KeyedSuite) -> None:
    is_no_client(fapi, {"client_id": fapi.first.client_id})


def test_fapi2_security_profile_final_ensure_client_assertion_with_exp_is_5_minutes_in_past_fails(fapi: KeyedSuite) -> None:
    is_no_client(fapi, fapi.first.assertion(fapi.installation.issuer, exp=id_tokens.now() - 300))


def test_fapi2_security_profile_final_ensure_client_assertion_with_wrong_aud_fails(fapi: KeyedSuite) -> None:
    is_no_client(fapi, fapi.first.assertion("https://fapidev-rs.authlete.net/api/userinfo"))


def test_fapi2_security_profile_final_ensure_client_assertion_with_no_sub_fails(fapi: KeyedSuite) -> None:
    is_no_client(fapi, fapi.first.assertion(fapi.installation.issuer, sub=None))


def pushes(fapi: KeyedSuite, audience: Any, ahead: int = 0) -> httpx.Response:
    return fapi.push(fapi.first, fapi.keyed_request(fapi.first), fapi.first.assertion(audience, ahead=ahead))


def test_fapi2_security_profile_final_par_ensure_jwt_client_assertions_nbf_8_seconds_in_the_future_is_accepted(fapi: KeyedSuite) -> None:
    request = fapi.keyed_request(fapi.first)
    now = id_tokens.now()
    shown = fapi.first.assertion(fapi.installation.issuer, iat=now + 8, nbf=now + 8)
    answer = fapi.push(fapi.first, request, shown)
    fapi.outcome.should(answer.status_code == 201, "a clock that is eight seconds ahead is refused")
    code = fapi.code_at(fapi.first, request, fapi.go(fapi.first, request, fapi.pushed(answer)))
    fapi.resource_is_open(fapi.checked_tokens(fapi.keyed_redeem(fapi.first, code), request, code).access_token)


def test_fapi2_security_profile_final_par_ensure_jwt_client_assertions_nbf_over_60_seconds_in_the_future_fails(fapi: KeyedSuite) -> None:
    refused_at_par(pushes(fapi, fapi.installation.issuer, ahead=62), *CLIENT_OR_REQUEST)


def test_fapi2_security_profile_final_par_test_array_as_audience_fails(fapi: KeyedSuite) -> None:
    refused_at_par(pushes(fapi, [fapi.installation.issuer, fapi.metadata["token_endpoint"]]), *CLIENT_OR_REQUEST)


def test_fapi2_security_profile_final_par_test_par_endpoint_url_as_audience_fails(fapi: KeyedSuite) -> None:
    refused_at_par(pushes(fapi, fapi.metadata["pushed_authorization_request_endpoint"]), *CLIENT_OR_REQUEST)


def test_fapi2_security_profile_final_par_test_token_endpoint_url_as_audience_fails(fapi: KeyedSuite) -> None:
    refused_at_par(pushes(fapi, fapi.metadata["token_endpoint"]), *CLIENT_OR_REQUEST)


# --- Refresh tokens.


def refreshes(token: str, *, with_scope: bool) -> dict[str, str]:
    scope = {"scope": "openid email offline_access"} if with_scope else {}
    return {"grant_type": "refresh_token", "refresh_token": token, **scope}


def refreshed(fapi: KeyedSuite, client: KeyedClient) -> tuple[str, str]:
    """Signs in and refreshes with a new key. Returns the newest refresh token and access token."""
    is_first = client == fapi.first
    request = fapi.keyed_request(client, prompt="consent")
    code = fapi.keyed_code(client, request)
    tokens = fapi.checked_tokens(fapi.keyed_redeem(client, code), request, code)
    fapi.outcome.should("refresh_token" in fapi.metadata["grant_types_supported"], "metadata has no refresh_token")
    kept = str(tokens.answer["refresh_token"])
    assert answers.VISIBLE.fullmatch(kept)
    pause(1)
    fapi.holder = new_key()
    again = renewed(fapi, fapi.at_token(client, refreshes(kept, with_scope=is_first)))
    if "id_token" in again:
        id_tokens.renewed(tokens.claims, id_tokens.claims_of(again["id_token"]))
    newest = str(again.get("refresh_token", kept))
    # Without rotation, nothing is lost where an answer is. With it, the token before would have to count for a while.
    assert newest == kept
    fapi.resource_is_open(again["access_token"])
    return newest, again["access_token"]


def renewed(fapi: KeyedSuite, answer: httpx.Response) -> dict[str, Any]:
    """The conditions on the answer to a refresh."""
    assert answer.status_code == 200, answer.text
    assert answers.is_json(answer)
    answers.cannot_be_kept(answer)
    told: dict[str, Any] = answer.json()
    assert told["token_type"].lower() == "dpop"
    assert answers.is_random(told["access_token"])
    assert answers.VISIBLE.fullmatch(told["access_token"])
    fapi.outcome.should("expires_in" in told, "no expires_in")
    assert 0 < told.get("expires_in", 1) <= answers.YEAR
    if "refresh_token" in told:
        assert answers.is_long(told["refresh_token"])
        assert answers.is_random(told["refresh_token"])
    return told


def test_fapi2_security_profile_final_refresh_token(fapi: KeyedSuite) -> None:
    token, _ = refreshed(fapi, fapi.first)
    form = refreshes(token, with_scope=True)
    nobody = fapi.at_token(fapi.first, form, {})
    assert nobody.status_code in {400, 401}
    assert answers.is_json(nobody)
    assert nobody.json()["error"] in {"invalid_client", "invalid_grant", "invalid_request"}
    unproved = answers.refused_at_token(fapi.at_token(fapi.first, form, proof=None), fapi.outcome)
    assert unproved in {"invalid_request", "invalid_grant", "invalid_dpop_proof"}
    # The second application: its access token with another key, and its refresh token by the first application.
    first_holder, fapi.holder = fapi.holder, new_key()
    token, access = refreshed(fapi, fapi.second)
    fapi.holder = first_holder
    assert 400 <= fapi.resource(access).status_code < 500
    is_no_grant(fapi, fapi.at_token(fapi.first, refreshes(token, with_scope=True)))
