"""The module of the basic plan that refreshes, with two applications."""

from tests.conformance.kit import answers, id_tokens
from tests.conformance.kit.installation import SuiteClient
from tests.conformance.kit.relying import Suite, pause, random_text

SCOPE = "openid offline_access"


def refreshed(suite: Suite, application: SuiteClient, *, is_first: bool) -> str:
    """Signs in to this application and refreshes. Returns the newest refresh token."""
    request = suite.request(application, scope=SCOPE, prompt="consent", also={} if is_first else {"nonce": random_text(43)})
    code = suite.code(request)
    told = answers.token_answer(suite.redeem(code, application))
    claims = suite.checked_id_token(told["id_token"], request)
    suite.outcome.should("refresh_token" in suite.metadata["grant_types_supported"], "metadata has no refresh_token")
    assert answers.VISIBLE.fullmatch(told["refresh_token"])
    pause(1)
    form = {"grant_type": "refresh_token", "refresh_token": told["refresh_token"], **({"scope": SCOPE} if is_first else {})}
    answer = suite.ask_token(form, application)
    assert answer.status_code == 200, answer.text
    assert answers.is_json(answer)
    answers.cannot_be_kept(answer)
    again = answer.json()
    assert again["token_type"].lower() == "bearer"
    assert answers.is_random(again["access_token"])
    assert answers.VISIBLE.fullmatch(again["access_token"])
    suite.outcome.should("expires_in" in again, "no expires_in")
    assert answers.is_number(again.get("expires_in", 1))
    assert again.get("expires_in", 1) > 0
    if "refresh_token" in again:
        assert answers.is_long(again["refresh_token"])
        assert answers.is_random(again["refresh_token"])
    if "id_token" in again:
        id_tokens.renewed(claims, id_tokens.claims_of(again["id_token"]))
    suite.accepted(again["access_token"])
    return str(again.get("refresh_token", told["refresh_token"]))


def test_oidcc_refresh_token(suite: Suite) -> None:
    assert "offline_access" in suite.metadata["scopes_supported"]
    first, second = suite.installation.first, suite.installation.second
    refreshed(suite, first, is_first=True)
    token = refreshed(suite, second, is_first=False)
    # The token of the second application, sent by the first.
    answer = suite.ask_token({"grant_type": "refresh_token", "refresh_token": token, "scope": SCOPE}, first)
    assert answers.refused_at_token(answer, suite.outcome) == "invalid_grant"
