"""A logout token gives the session that has ended, and nothing else does."""

from collections.abc import Iterator
from typing import Any

import pytest

from ops.middleware.postern_tokens import Refused, Tokens
from tests.ops.middleware.issuer import TokenIssuer, token_issuer

EVENTS: dict[str, Any] = {"http://schemas.openid.net/event/backchannel-logout": {}}
LOGOUT = {"typ": "logout+jwt"}


@pytest.fixture
def issuer() -> Iterator[TokenIssuer]:
    with token_issuer() as made:
        yield made


def notice(issuer: TokenIssuer, **changed: Any) -> str:
    said: dict[str, Any] = {"header": LOGOUT, "aud": "shop", "events": EVENTS, "sid": "session", **changed}
    return issuer.token(**said)


def test_a_notice_ends_the_session_of_its_access_tokens(issuer: TokenIssuer) -> None:
    ended: set[str] = set()
    tokens = Tokens(issuer.url, audience=["api"], ids=["service"], is_ended=ended.__contains__)
    access = [f"Bearer {issuer.token(aud='api', service_id='service', sid='session')}"]
    assert tokens.claims(access)["sid"] == "session"
    ended.add(tokens.logout_notice(notice(issuer), "shop"))
    with pytest.raises(Refused, match="the session has ended"):
        tokens.claims(access)


@pytest.mark.parametrize(
    "changed",
    [
        {"header": {"typ": "JWT"}},
        {"aud": "another"},
        {"events": None},
        {"events": {"other": {}}},
        {"nonce": "n"},
        {"sid": None},
        {"iss": "x"},
    ],
)
def test_what_is_no_notice_for_us_is_refused(issuer: TokenIssuer, changed: dict[str, Any]) -> None:
    tokens = Tokens(issuer.url, audience=["api"], ids=["service"])
    with pytest.raises(Refused):
        tokens.logout_notice(notice(issuer, **changed), "shop")
