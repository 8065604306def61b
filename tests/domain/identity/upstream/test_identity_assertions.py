"""The type of an assertion as it is seen before the signature, and the words for each fault."""

import json
from base64 import urlsafe_b64encode

import pytest

from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.federation.oauth.refusals import reason_in_words as refusal_in_words
from core.domain.identity.upstream.identity_assertions import (
    AssertionUse,
    IdentityAssertionFault,
    IdentityAssertionRefusal,
    claimed,
    in_words,
    is_identity_assertion,
    refusal_of,
)
from core.domain.identity.upstream.jwt_assertions import LONGEST_ASSERTION, AssertionFault


def token(header: object, claims: object = None) -> str:
    return ".".join(urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in (header, claims)) + ".c2ln"


@pytest.mark.parametrize("named", ["oauth-id-jag+jwt", "OAuth-ID-JAG+JWT", "application/oauth-id-jag+jwt"])
def test_an_identity_assertion_says_so_in_its_header(named: str) -> None:
    assert is_identity_assertion(token({"typ": named}))


@pytest.mark.parametrize(
    "text",
    [
        *(token({"typ": named}) for named in ("JWT", None, 1, ["oauth-id-jag+jwt"], "oauth-id-jag+jwt ", "oauth-id-jag")),
        *map(token, ({}, None, [], "x", 1)),
        *("", ".", "x", "é.x.x", "[.[.[", token({"typ": "oauth-id-jag+jwt", "x": "x" * LONGEST_ASSERTION})),
        urlsafe_b64encode(b"[" * 9000).decode(),
    ],
)
def test_everything_else_is_none(text: str) -> None:
    assert not is_identity_assertion(text)


def test_the_issuer_is_read_before_anything_is_verified() -> None:
    assert claimed(token({"typ": "t"}, {"iss": "https://a.example"})) == ("t", "https://a.example")
    assert claimed(token({"typ": "t"}, ["iss"])) == ("t", None)


def test_each_fault_has_words_for_the_recorder_and_for_the_application() -> None:
    for fault in IdentityAssertionFault:
        words, mend = in_words(fault)
        assert not words.endswith(".")
        assert not mend.endswith(".")
        assert refusal_in_words(RefusalReason.IDENTITY_ASSERTION, fault.value) == (words, mend)
    # An entry of a later release may have a fault that this one does not know.
    assert (
        refusal_in_words(RefusalReason.IDENTITY_ASSERTION, "later")[0]
        == "The identity assertion of the person's identity provider was rejected"
    )


def test_the_faults_of_every_assertion_are_among_these() -> None:
    for fault in AssertionFault:
        assert refusal_of(fault).fault.value == fault.value


@pytest.mark.parametrize(
    ("use", "fault"),
    [
        (AssertionUse(issues=False, is_member=True, is_first=True), IdentityAssertionFault.NOT_ISSUING),
        (AssertionUse(issues=True, is_member=False, is_first=True), IdentityAssertionFault.NOT_MEMBER),
        (AssertionUse(issues=True, is_member=True, is_first=False), IdentityAssertionFault.USED),
        (AssertionUse(issues=False, is_member=False, is_first=False), IdentityAssertionFault.NOT_ISSUING),
    ],
)
def test_what_has_ended_meanwhile_opens_no_session(use: AssertionUse, fault: IdentityAssertionFault) -> None:
    with pytest.raises(IdentityAssertionRefusal) as refusal:
        use.require()
    assert refusal.value.fault is fault


def test_a_member_opens_a_session_by_an_assertion_once() -> None:
    AssertionUse(issues=True, is_member=True, is_first=True).require()
