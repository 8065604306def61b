"""The modules of the basic plan that call userinfo in each of its ways."""

import httpx

from tests.conformance.kit import answers
from tests.conformance.kit.relying import GivenTokens, Suite


def told(answer: httpx.Response, tokens: GivenTokens) -> None:
    assert answers.is_json(answer)
    answers.userinfo(answer, tokens.claims["sub"])


def test_oidcc_userinfo_get(suite: Suite) -> None:
    tokens = suite.tokens(suite.request())
    told(suite.userinfo(tokens.access_token), tokens)


def test_oidcc_userinfo_post_header(suite: Suite) -> None:
    tokens = suite.tokens(suite.request())
    told(suite.userinfo(tokens.access_token, "POST"), tokens)


def test_oidcc_userinfo_post_body(suite: Suite) -> None:
    tokens = suite.tokens(suite.request())
    answer = suite.client.post(suite.metadata["userinfo_endpoint"], data={"access_token": tokens.access_token})
    suite.outcome.should(answer.is_success, "userinfo takes no token in the body")
    told(answer, tokens)
