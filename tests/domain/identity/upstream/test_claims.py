"""The claims of a provider that we believe, by each provider's rule."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from core.domain.identity.upstream.claims import (
    IdentityNotAsserted,
    issued_by,
    may_be_issued_by,
    of_codehost,
    of_officesuite,
    of_openid,
    of_own_openid,
    of_websuite,
    require_claims,
    with_userinfo,
)
from core.domain.identity.upstream.providers import UnknownProvider, provider_key

ISSUER: Final = "https://login.example.org"
TENANTS: Final = "https://login.example.org/{tenantid}/v2.0"
TENANT: Final = "72f988bf-86f1-41af-91ab-2d7cd011db47"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
AT: Final = NOW.timestamp()
GOOD: Final = {"iss": ISSUER, "aud": "client", "nonce": "n", "iat": AT, "exp": AT + 60, "sub": "1"}


def require(**changes: Any) -> None:
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    require_claims(claims, issuer=ISSUER, client_id="client", nonce="n", now=NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": ["client"]},
        {"aud": ["client", "other"], "azp": "client"},
        {"azp": "client"},
        {"exp": AT - 59},
        {"iat": AT + 60},
        {"nbf": AT + 60},
        {"exp": AT + 0.5},
    ],
)
def test_good_claims(changes: dict[str, Any]) -> None:
    require(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": f"{ISSUER}/"},
        {"aud": None},
        {"aud": 7},
        {"aud": []},
        {"aud": ["client", "other"]},
        {"aud": {"client": 1}},
        {"azp": "other"},
        {"nonce": "N"},
        {"nonce": 7},
        {"nonce": "\udc80"},
        {"exp": AT - 60},
        {"exp": True},
        {"exp": "soon"},
        {"exp": -1},
        {"exp": 2**40},
        {"exp": float("nan")},
        {"iat": None},
        {"iat": AT + 61},
        {"nbf": AT + 61},
    ],
)
def test_claims_for_something_else(changes: dict[str, Any]) -> None:
    with pytest.raises(IdentityNotAsserted):
        require(**changes)


def test_a_sign_in_at_the_provider_that_is_too_old_where_it_tells() -> None:
    def told(auth_time: Any, since: datetime | None) -> None:
        claims = GOOD if auth_time is None else {**GOOD, "auth_time": auth_time}
        require_claims(claims, issuer=ISSUER, client_id="client", nonce="n", now=NOW, since=since)

    told(0, None)
    told("whenever", None)
    for good in (None, AT, AT - 60):
        told(good, NOW)
    for old in (AT - 61, 0, "whenever", True):
        with pytest.raises(IdentityNotAsserted):
            told(old, NOW)


def test_an_end_that_an_organizations_own_provider_states() -> None:
    def ends(said: Any) -> datetime | None:
        return of_own_openid({"iss": ISSUER, "sub": "1", "session_expiry": said}, NOW).session_ends_at

    assert ends(AT + 3600) == NOW + timedelta(seconds=3660)
    assert ends(AT - 59) == NOW + timedelta(seconds=1)
    assert ends(None) is None
    assert of_own_openid({"iss": ISSUER, "sub": "1"}, NOW).session_ends_at is None
    for over in (AT - 60, 0):
        with pytest.raises(IdentityNotAsserted, match="session there has already ended"):
            ends(over)
    odd: Any
    for odd in (-1, 2**34, True, "", str(AT + 3600), float("nan"), float("inf"), [], {}):
        with pytest.raises(IdentityNotAsserted, match="session_expiry is no moment"):
            ends(odd)
    # Nobody else's word bounds a session.
    assert of_openid({"iss": ISSUER, "sub": "1", "session_expiry": AT + 3600}).session_ends_at is None


def test_an_issuer_with_many_tenants() -> None:
    assert issued_by(ISSUER, {}) == ISSUER
    assert issued_by(TENANTS, {"tid": TENANT}) == f"{ISSUER}/{TENANT}/v2.0"
    for tenant in (None, 7, "", "common", TENANT.upper(), f"{TENANT}/../x"):
        with pytest.raises(IdentityNotAsserted):
            issued_by(TENANTS, {"tid": tenant})
    assert may_be_issued_by(ISSUER, ISSUER)
    assert not may_be_issued_by(ISSUER, f"{ISSUER}/")
    assert may_be_issued_by(TENANTS, f"{ISSUER}/{TENANT}/v2.0")
    for named in (TENANTS, f"{ISSUER}/common/v2.0", f"{ISSUER}/{TENANT}", f"https://evil.example/{TENANT}/v2.0", f"{ISSUER}/v2.0"):
        assert not may_be_issued_by(TENANTS, named)


def test_the_standard_claims() -> None:
    asserted = of_openid({"iss": ISSUER, "sub": "1", "email": "ada@Example.org", "email_verified": True})
    assert (asserted.issuer, asserted.subject, asserted.email, asserted.email_is_verified) == (ISSUER, "1", "ada@Example.org", True)
    assert asserted.domain == "example.org"
    for claims in (
        {},
        {"email": ""},
        {"email": None, "email_verified": True},
        {"email": "ada@example.org"},
        {"email": 7, "email_verified": True},
    ):
        assert not of_openid({"iss": ISSUER, "sub": "1", **claims}).email_is_verified
    for sub in (None, 7, "", "x" * 256):
        with pytest.raises(IdentityNotAsserted):
            of_openid({"iss": ISSUER, "sub": sub})


@pytest.mark.parametrize(
    ("claims", "verified"),
    [
        ({"email": "ada@gmail.com", "email_verified": True}, True),
        ({"email": "ada@googlemail.com", "email_verified": True}, True),
        ({"email": "ada@gmail.com", "email_verified": False}, False),
        ({"email": "ada@example.org", "email_verified": True, "hd": "example.org"}, True),
        ({"email": "ada@example.org", "email_verified": True}, False),
        ({"email": "ada@example.org", "email_verified": True, "hd": 7}, False),
        ({"email": "ada@gmail.com.evil.example", "email_verified": True}, False),
    ],
)
def test_the_web_suite(claims: dict[str, Any], *, verified: bool) -> None:
    assert of_websuite({"iss": ISSUER, "sub": "1", **claims}).email_is_verified is verified


def test_the_office_suite_knows_people_by_tenant_and_object() -> None:
    asserted = of_officesuite({"iss": ISSUER, "sub": "pairwise", "tid": TENANT, "oid": "o", "email": "ada@example.org", "xms_edov": True})
    assert (asserted.subject, asserted.email_is_verified) == (f"{TENANT}:o", True)
    for claims in ({"tid": TENANT}, {"oid": "o"}):
        with pytest.raises(IdentityNotAsserted):
            of_officesuite({"iss": ISSUER, "sub": "pairwise", **claims})


def test_the_code_host_knows_people_by_number() -> None:
    asserted = of_codehost(ISSUER, {"id": 7}, [{"email": "a@example.org", "primary": True, "verified": True}])
    assert (asserted.issuer, asserted.subject, asserted.email, asserted.email_is_verified) == (ISSUER, "7", "a@example.org", True)
    assert of_codehost(ISSUER, {"id": 7}, ["?", {"email": 7, "primary": True}]).email == ""
    with pytest.raises(IdentityNotAsserted):
        of_codehost(ISSUER, {"id": "7"}, [])


def test_user_info_is_of_the_same_person() -> None:
    both = with_userinfo({"sub": "1", "iss": ISSUER}, {"sub": "1", "email": "a@example.org", "iss": "https://evil.example"})
    assert both == {"sub": "1", "iss": ISSUER, "email": "a@example.org"}
    with pytest.raises(IdentityNotAsserted):
        with_userinfo({"sub": "1"}, {"email": "a@example.org"})


@pytest.mark.parametrize(
    "text", ["", "Codehost", "../codehost", "0199d3a0-0000-7000-8000-00000000000G", "{0199d3a0-0000-7000-8000-000000000001}"]
)
def test_names_that_no_provider_has(text: str) -> None:
    with pytest.raises(UnknownProvider):
        provider_key(text)
