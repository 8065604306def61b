"""Issuers of public families never vouch for an organization."""

from datetime import UTC, datetime

import pytest

from core.domain.identity.upstream.claims import of_openid, of_own_openid
from core.domain.identity.upstream.providers import is_public_issuer

NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "issuer",
    [
        *("https://appleid.apple.com", "https://gitlab.com", "https://slack.com", "https://discord.com", "https://www.facebook.com"),
        *("https://www.linkedin.com/oauth", "https://access.line.me", "https://oauth.yandex.ru", "https://login.yandex.com/info"),
        *("https://gitlab.com.", "https://GITLAB.com", "https://id.twitch.tv/oauth2"),
    ],
)
def test_a_public_issuer_vouches_for_nothing(issuer: str) -> None:
    assert is_public_issuer(issuer)
    claims = {"iss": issuer, "sub": "1", "email": "ada@acme.example", "email_verified": True}
    assert of_openid(claims).email_is_verified
    assert not of_own_openid(claims, NOW).email_is_verified
    assert of_own_openid(claims, NOW).email == "ada@acme.example"


@pytest.mark.parametrize(
    "issuer",
    [
        *("https://gitlab.acme.example", "https://login.acme.example", "https://notgitlab.com", "https://gitlab.com.acme.example"),
        *("https://login.microsoftonline.com/x/v2.0", "https://acme.okta.com", "http://[broken", ""),
    ],
)
def test_any_other_issuer_vouches_as_before(issuer: str) -> None:
    assert not is_public_issuer(issuer)
    assert of_own_openid({"iss": issuer or "x", "sub": "1", "email": "ada@acme.example", "email_verified": True}, NOW).email_is_verified


@pytest.mark.parametrize("issuer", ["https://accounts.google.com", "accounts.google.com", "https://accounts.google.com."])
def test_google_vouches_for_accounts_of_a_domain_alone(issuer: str) -> None:
    """Anybody has an account there with an address that was theirs on some day: somebody who has left, for example."""
    claims = {"iss": issuer, "sub": "1", "email": "ada@acme.example", "email_verified": True}
    assert not of_own_openid(claims, NOW).email_is_verified
    assert not of_own_openid({**claims, "hd": ""}, NOW).email_is_verified
    assert not of_own_openid({**claims, "hd": ["acme.example"]}, NOW).email_is_verified
    assert of_own_openid({**claims, "hd": "acme.example"}, NOW).email_is_verified
