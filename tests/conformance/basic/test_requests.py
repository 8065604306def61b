"""The modules of the basic plan whose requests ask for something."""

import base64
import json

import pytest

from tests.conformance.kit import answers
from tests.conformance.kit.browser import Arrival, ShownPage
from tests.conformance.kit.installation import CALLBACK
from tests.conformance.kit.relying import GivenTokens, Request, Suite, pause


def test_oidcc_display_page(suite: Suite) -> None:
    suite.tokens(suite.request(display="page"))


def test_oidcc_display_popup(suite: Suite) -> None:
    suite.tokens(suite.request(display="popup"))


def test_oidcc_prompt_login(suite: Suite) -> None:
    first = suite.tokens(suite.request())
    pause(1)
    second = suite.tokens(suite.request(prompt="login"))
    # A person sees the page that asks to sign in a second time.
    assert suite.browser.was_asked_to_sign_in
    assert "auth_time" not in first.claims.keys() & second.claims.keys() or first.claims["auth_time"] < second.claims["auth_time"]


def test_oidcc_prompt_none_not_logged_in(suite: Suite) -> None:
    request = suite.request(state=128, prompt="none")
    assert suite.refusal(suite.arrived(request), request) in answers.NEEDS_A_PERSON


def twice(suite: Suite, first: Request, second: Request) -> tuple[GivenTokens, GivenTokens]:
    """Both sign-ins are of the same person, at the same time."""
    return _same(suite.tokens(first), suite.tokens(second))


def _same(before: GivenTokens, after: GivenTokens) -> tuple[GivenTokens, GivenTokens]:
    if "auth_time" in before.claims.keys() & after.claims.keys():
        assert before.claims["auth_time"] == after.claims["auth_time"]
    assert before.claims["sub"] == after.claims["sub"]
    return before, after


def test_oidcc_prompt_none_logged_in(suite: Suite) -> None:
    twice(suite, suite.request(), suite.request(prompt="none"))


def test_oidcc_max_age_1(suite: Suite) -> None:
    first = suite.tokens(suite.request())
    pause(2)
    second = suite.tokens(suite.request(max_age="1"))
    assert suite.browser.was_asked_to_sign_in
    assert "auth_time" not in first.claims or first.claims["auth_time"] < second.claims["auth_time"]
    assert second.claims["iat"] - second.claims["auth_time"] <= answers.SKEW + 1


def test_oidcc_max_age_10000(suite: Suite) -> None:
    first, second = twice(suite, suite.request(max_age="15000"), suite.request(max_age="10000"))
    assert "auth_time" in first.claims
    assert "auth_time" in second.claims


def test_oidcc_ensure_request_with_unknown_parameter_succeeds(suite: Suite) -> None:
    suite.tokens(suite.request(extra="foobar"))


def test_oidcc_id_token_hint(suite: Suite) -> None:
    first = suite.tokens(suite.request())
    _same(first, suite.tokens(suite.request(prompt="none", id_token_hint=first.id_token)))


def test_oidcc_login_hint(suite: Suite) -> None:
    suite.tokens(suite.request(login_hint="buffy@localhost"))


def test_oidcc_ui_locales(suite: Suite) -> None:
    suite.tokens(suite.request(ui_locales="se"))


def test_oidcc_claims_locales(suite: Suite) -> None:
    suite.tokens(suite.request(claims_locales="se"))


def test_oidcc_ensure_request_with_acr_values_succeeds(suite: Suite) -> None:
    wanted = suite.metadata.get("acr_values_supported", ["1", "2"])
    tokens = suite.tokens(suite.request(acr_values=" ".join(wanted)))
    suite.outcome.should(tokens.claims.get("acr") in wanted, "the ID token has none of the classes that were asked for")


def code_is_refused(suite: Suite, code: str) -> None:
    assert answers.refused_at_token(suite.redeem(code), suite.outcome) == "invalid_grant"


def test_oidcc_codereuse(suite: Suite) -> None:
    tokens = suite.tokens(suite.request())
    answer = suite.redeem(tokens.code)
    suite.outcome.should(answer.status_code != 200, "a code counts twice")
    if answer.status_code != 200:
        assert answers.refused_at_token(answer, suite.outcome) == "invalid_grant"


@pytest.mark.only_whole
def test_oidcc_codereuse_30seconds(suite: Suite) -> None:
    tokens = suite.tokens(suite.request())
    pause(30)
    code_is_refused(suite, tokens.code)
    suite.outcome.should(400 <= suite.userinfo(tokens.access_token).status_code < 500, "the access token of a code that came twice counts")


def says_that_the_address_is_unknown(came: Arrival | ShownPage) -> None:
    """A person sees a page that says so, and nobody is sent anywhere."""
    assert isinstance(came, ShownPage), came
    assert came.status == 400
    assert "redirect URI" in came.text


def test_oidcc_ensure_registered_redirect_uri(suite: Suite) -> None:
    says_that_the_address_is_unknown(suite.at_authorization(suite.request(redirect_uri=f"{CALLBACK}/jYd83kfPq1")))


def unsigned(claims: Request) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in ({"alg": "none"}, claims))
    return f"{'.'.join(parts)}."


def around(request: Request, added: Request) -> Request:
    """What stands beside a request object: the parameters that OAuth wants there."""
    return {name: request[name] for name in ("client_id", "redirect_uri", "response_type", "scope")} | added


def test_oidcc_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported(suite: Suite) -> None:
    """Where the answer is expected, only the object says, and nobody fetches it. So a form is answered in the query, too."""
    came = suite.at_authorization(around(suite.request(), {"request_uri": "https://app.example/request/object.jwt#fragment"}))
    assert isinstance(came, Arrival), came
    assert came.query["error"] == "request_uri_not_supported"
    because = "`request_uri_not_supported`: pushed requests take its place (RFC 9126). The suite runs the module for dynamic clients alone"
    suite.outcome.is_not_offered(because)


def test_oidcc_unsigned_request_object_supported_correctly_or_rejected_as_unsupported(suite: Suite) -> None:
    request = suite.request()
    came = suite.checked_arrival(suite.at_authorization(around(request, {"request": unsigned(request)})))
    assert suite.answered(came)["error"] == "request_not_supported"
    suite.outcome.is_not_offered("`request_not_supported`, which is permitted: the suite skips the module")


def test_oidcc_ensure_request_object_with_redirect_uri(suite: Suite) -> None:
    """The object has the registered address, and the parameter beside it has another."""
    request = suite.request()
    sent = around({**request, "redirect_uri": f"{CALLBACK}_invalid"}, {"request": unsigned(request)})
    says_that_the_address_is_unknown(suite.at_authorization(sent))
