"""The rules of trusted issuers: what may be written down, and which subjects fit a pattern."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.jwt_assertions import AssertionFault, AssertionRefused
from core.domain.tenancy import trusted_issuers as rules
from core.domain.tenancy.trusted_issuers import TrustedIssuer, TrustedIssuerChange, TrustedIssuerSettings, made, matches
from tests.signing import NOW

OURS: Final = "https://id.example"
EC: Final = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
NO_VALUES: Final[list[Any]] = [None, 1.5, [], ["x"], {}, "x" * 501, "a\nb", 2**53, -(2**53)]
STAR: Final = "repo:acme/*:ref:refs/heads/main"
GOOD: Final[Mapping[str, Any]] = {
    "name": "Deploy",
    "issuer": "https://ci.example",
    "audience": OURS,
    "jwks_uri": "https://ci.example/keys",
    "subject_pattern": STAR,
}


def rule(**changed: Any) -> TrustedIssuer:
    settings = TrustedIssuerSettings(**{**GOOD, **changed})
    return made(uuid4(), OrganizationId(uuid4()), settings, own_issuer=OURS, now=NOW)


def words(**changed: Any) -> str:
    with pytest.raises(BadRequest) as refused:
        rule(**changed)
    return refused.value.words


def test_what_is_written_down() -> None:
    kept = rule(name="  Deploy   now ", claims={"b": True, "a": 7, "c": "x"})
    assert (kept.name, list(kept.claims), kept.keys.address, kept.keys.pasted) == ("Deploy now", ["a", "b", "c"], GOOD["jwks_uri"], None)
    pasted = rule(jwks_uri=None, jwks={"keys": [{**EC, "x5c": ["AAAA"]}]})
    assert pasted.keys.pasted == {"keys": [{**EC, "use": "sig"}]}


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("name", ["", " ", "x" * 101], "field_length"),
        (
            "issuer",
            ["", "ci.example", "ftp://ci.example", "https://ci.example/\u00e9", "https://ci example", "https://" + "x" * 500],
            "web_address",
        ),
        ("issuer", [OURS, f"{OURS}/"], "issuer_is_own"),
        ("audience", ["", "two words", "\u00e9", "x" * 501, "a\n"], "field_visible"),
        ("jwks_uri", [None], "keys_one_of_two"),
        ("jwks", [{"keys": [EC]}], "keys_one_of_two"),
        ("jwks_uri", ["ftp://ci.example/keys", "keys"], "web_address"),
        ("subject_pattern", ["", " a:b", "a:b ", "a:b\n", "a:\tb", "x" * 501], "field_length"),
        ("subject_pattern", ["repo:acme/shop*", "repo:acme/*shop", "repo:acme/**", "repo:acme/s*p:x"], "pattern_star"),
        (
            "subject_pattern",
            ["*", "*:*", "repo:*", "*:acme/shop", "repo:*/shop", "repo::*/shop", ":/repo:*", "repo"[:0] + "/*"],
            "pattern_leading",
        ),
        ("claims", [{str(one): one for one in range(11)}], "field_list"),
        ("claims", [{one: "x"} for one in ("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "", "a b", "\u00e9", "x" * 101)], "claim_name"),
        ("claims", [{"a": one} for one in NO_VALUES], "claim_value"),
    ],
)
def test_what_is_refused(field: str, values: list[Any], expected: str) -> None:
    for value in values:
        assert words(**{field: value}) == expected, value


def test_a_change() -> None:
    before = rule()
    change = rules.changed(before, TrustedIssuerChange(name="Deploy"), own_issuer=OURS, now=NOW)
    assert change is before
    pasted = rules.changed(before, TrustedIssuerChange(jwks={"keys": [EC]}), own_issuer=OURS, now=NOW)
    assert (pasted.jwks_uri, pasted.jwks) == (None, {"keys": [{**EC, "use": "sig"}]})
    again = rules.changed(pasted, TrustedIssuerChange(jwks_uri="https://ci.example/keys"), own_issuer=OURS, now=NOW)
    assert (again.jwks_uri, again.jwks) == ("https://ci.example/keys", None)
    for wrong in (TrustedIssuerChange(jwks_uri=None), TrustedIssuerChange(jwks={"keys": [EC]}, jwks_uri="https://ci.example/keys")):
        with pytest.raises(BadRequest):
            rules.changed(before, wrong, own_issuer=OURS, now=NOW)


@pytest.mark.parametrize(
    ("pattern", "subject"),
    [
        ("repo:acme/shop:ref:refs/heads/main", "repo:acme/shop:ref:refs/heads/main"),
        (STAR, "repo:acme/shop:ref:refs/heads/main"),
        (STAR, "repo:acme/a.b-c_d:ref:refs/heads/main"),
        ("system:serviceaccount:*:deployer", "system:serviceaccount:shop:deployer"),
        ("project_path:acme/*/*:ref_type:branch:ref:main", "project_path:acme/web/shop:ref_type:branch:ref:main"),
        ("a:b:\u00e9", "a:b:\u00e9"),
    ],
)
def test_subjects_that_fit(pattern: str, subject: str) -> None:
    rules.checked_pattern(pattern)
    assert matches(pattern, subject)


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "repo:acme/shop:ref:refs/heads/main2",
        "repo:acme/shop:ref:refs/heads/mai",
        "xrepo:acme/shop:ref:refs/heads/main",
        "repo:acme2/shop:ref:refs/heads/main",
        "repo:acm/shop:ref:refs/heads/main",
        "repo:Acme/shop:ref:refs/heads/main",
        "Repo:acme/shop:ref:refs/heads/main",
        "repo:acme/shop:ref:refs/heads/MAIN",
        "repo:acme/:ref:refs/heads/main",
        "repo:acme/a/b:ref:refs/heads/main",
        "repo:acme/a:b:ref:refs/heads/main",
        "repo:acme/shop/ref:refs/heads/main",
        "repo:acme:shop:ref:refs/heads/main",
        "repo:acme/shop:ref:refs/heads/main:",
        "repo:acme/shop:ref:refs/heads/main/",
        ":repo:acme/shop:ref:refs/heads/main",
        "repo:acme/shop:ref:refs/heads/main\n",
        "repo:acme/sh\nop:ref:refs/heads/main",
        "repo:acme/sh op:ref:refs/heads/main",
        "repo:acme/sh\x00op:ref:refs/heads/main",
        "repo:acme/shop\u200b:ref:refs/heads/main",
        "repo:acme/sh\u043ep:ref:refs/heads/main",  # a Cyrillic letter
        "repo:acme/\uff53hop:ref:refs/heads/main",  # a full-width letter
        "repo:\u0430cme/shop:ref:refs/heads/main",
        "repo:acme/a\u2215b:ref:refs/heads/main",  # a division slash
        "repo\uff1aacme/shop:ref:refs/heads/main",  # a full-width colon
        "repo:acme/shop:ref:refs/heads/ma\u0131n",
        "repo:acme/shop:ref:refs/heads/main\u0301",
        "repo:acme/\ud800:ref:refs/heads/main",
    ],
)
def test_subjects_that_do_not_fit(subject: str) -> None:
    assert not matches(STAR, subject)


@given(st.text(alphabet=":/*ab\n\u00e9", max_size=12))
def test_a_star_never_reaches_over_a_separator(part: str) -> None:
    fits = part != "" and part.isascii() and part.isprintable() and not set(part) & {":", "/"}
    assert matches("a:b:*:c", f"a:b:{part}:c") is fits


@given(st.text(max_size=20), st.text(max_size=20))
def test_without_a_star_only_the_same_text_fits(pattern: str, subject: str) -> None:
    if "*" not in pattern:
        assert matches(pattern, subject) is (pattern == subject)


def test_the_issuer_chooses_among_the_rules() -> None:
    one, other = rule(), rule(issuer="https://ci.example/")
    good = "e30.eyJpc3MiOiJodHRwczovL2NpLmV4YW1wbGUifQ.x"
    assert rules.of_issuer([one, other], good) == [one]
    for text, expected in ((good, AssertionFault.ISSUER), ("a.b.c", AssertionFault.MALFORMED), ("e30.W10.x", AssertionFault.MALFORMED)):
        with pytest.raises(AssertionRefused) as refused:
            rules.of_issuer([other], text)
        assert refused.value.fault is expected
    for text in ("e30.eyJpc3MiOjd9.x", "", "e30." + "W1tb" * 3000 + ".x"):
        assert rules.claimed_issuer(text) is None


def test_of_several_refusals_the_farthest_tells_most() -> None:
    faults = (AssertionFault.SUBJECT, AssertionFault.KEY, AssertionFault.AUDIENCE)
    assert rules.farthest([AssertionRefused(one) for one in faults]).fault is AssertionFault.SUBJECT
