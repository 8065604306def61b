"""The rules for assertions of issuers outside: one issuer, one audience, a bounded life, a subject."""

from datetime import timedelta
from typing import Any, Final

import pytest

from core.domain.identity.upstream.jwt_assertions import (
    LONGEST_ASSERTION,
    LONGEST_JTI,
    LONGEST_SUBJECT,
    AssertionFault,
    AssertionRefused,
    AssertionRules,
    SignedToken,
    accepted_assertion,
    require_readable,
)
from core.frozen import replace
from tests.signing import NOW

NOW_S: Final = int(NOW.timestamp())
RULES: Final = AssertionRules(issuer="https://ci.example", audiences=("https://id.example",), longest_life=timedelta(hours=1))
CLAIMS: Final[dict[str, Any]] = {
    "iss": "https://ci.example",
    "sub": "repo:acme/shop",
    "aud": "https://id.example",
    "iat": NOW_S - 10,
    "nbf": NOW_S - 10,
    "exp": NOW_S + 300,
    "jti": "one",
}


def fault(rules: AssertionRules = RULES, kind: Any = "JWT", **changes: Any) -> AssertionFault | None:
    claims = {name: value for name, value in (CLAIMS | changes).items() if value is not ...}
    try:
        accepted_assertion(SignedToken(kind, claims), rules, NOW)
    except AssertionRefused as refused:
        return refused.fault
    return None


def test_what_keeps_the_rules_is_accepted() -> None:
    accepted = accepted_assertion(SignedToken("JWT", CLAIMS), RULES, NOW)
    assert (accepted.subject, accepted.id, accepted.expires_at, accepted.claims) == (
        "repo:acme/shop",
        "one",
        NOW + timedelta(seconds=300),
        CLAIMS,
    )
    assert fault(aud=["https://id.example"]) is fault(iat=..., nbf=..., jti=...) is fault(exp=NOW_S + 300.5) is None
    # Clocks differ a little.
    assert fault(exp=NOW_S - 29) is fault(iat=NOW_S + 29) is fault(exp=NOW_S + 3600, iat=NOW_S) is None


ISSUERS: Final[list[Any]] = ["https://ci.example/", "https://CI.example", "", ["https://ci.example"], ...]
TIMES: Final[list[Any]] = [NOW_S - 30, 0, -1, True, "tomorrow", None, ..., float("nan"), float("inf"), 2**34]
NO_SUBJECTS: Final[list[Any]] = ["", 7, None, ["repo:acme/shop"], "x" * (LONGEST_SUBJECT + 1), ...]
AUDIENCES: Final[list[Any]] = [
    "https://id.example/",
    ["https://id.example", "https://id.example"],
    ["https://id.example", "https://other.example"],
    [["https://id.example"]],
    [],
    {},
    None,
    7,
    ...,
]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        *[({"iss": one}, AssertionFault.ISSUER) for one in ISSUERS],
        *[({"aud": one}, AssertionFault.AUDIENCE) for one in AUDIENCES],
        *[({"exp": one}, AssertionFault.EXPIRED) for one in TIMES],
        *[({"iat": one}, AssertionFault.EARLY) for one in (NOW_S + 31, None, "now", True)],
        *[({"nbf": one}, AssertionFault.EARLY) for one in (NOW_S + 31, None, "")],
        ({"exp": NOW_S + 3631}, AssertionFault.LIFETIME),
        ({"exp": NOW_S + 300, "iat": NOW_S - 3400}, AssertionFault.LIFETIME),
        ({"exp": NOW_S + 3631, "iat": ...}, AssertionFault.LIFETIME),
        *[({"sub": one}, AssertionFault.SUBJECT) for one in NO_SUBJECTS],
    ],
)
def test_what_breaks_a_rule_is_refused(changes: dict[str, Any], expected: AssertionFault) -> None:
    assert fault(**changes) is expected


def test_a_type_may_be_wanted() -> None:
    wanting = replace(RULES, type="oauth-id-jag+jwt")
    assert fault(wanting, "oauth-id-jag+jwt") is fault(wanting, "application/OAuth-ID-JAG+jwt") is None
    for other in (*("JWT", None, 7), "oauth-id-jag+jwt ", "oauth-\u0131d-jag+jwt", "application/application/oauth-id-jag+jwt"):
        assert fault(wanting, other) is AssertionFault.TYPE


def test_an_assertion_that_works_once_needs_an_id() -> None:
    once = replace(RULES, once=True)
    assert fault(once) is None
    others: list[Any] = [..., "", 7, None, "x" * (LONGEST_JTI + 1)]
    for other in others:
        assert fault(once, jti=other) is AssertionFault.REPEATABLE
    # Elsewhere an id that is none is as good as no id.
    assert accepted_assertion(SignedToken(None, CLAIMS | {"jti": 7}), RULES, NOW).id is None


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c.d", "\u00e9.b.c", "x" * LONGEST_ASSERTION + ".b.c"])
def test_what_is_no_token_is_not_read(text: str) -> None:
    require_readable("a.b.c")
    with pytest.raises(AssertionRefused, match="no signed token"):
        require_readable(text)
