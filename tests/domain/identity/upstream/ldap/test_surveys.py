"""The lines of a test: what each says, and when it fails."""

from typing import Any

import pytest

from core.domain.identity.upstream.connection_tests import CheckState
from core.domain.identity.upstream.ldap.answers import BindOutcome, LdapEntry, LdapFailed, LdapFault, LdapStep
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.identity.upstream.ldap.surveys import (
    LdapLockout,
    LdapSurvey,
    line_of_sign_in,
    lines_of_failure,
    lines_of_survey,
    strictest,
    words_of,
)

DOMAINS = frozenset({"example.org"})


def person(number: int = 0, **attributes: list[bytes]) -> LdapEntry:
    usual = {"entryuuid": [f"u-{number}".encode()], "mail": [f"p{number}@example.org".encode()], "memberof": [b"cn=all"]}
    return LdapEntry(f"uid=p{number}", {**usual, **attributes})


def survey(*people: LdapEntry, **more: Any) -> LdapSurvey:
    return LdapSurvey(**{"hosts": ["ldaps://dc1:636"], "base": "dc=x", "people": people, "are_more": False, "lockout": None, **more})


def line(step: LdapStep, found: LdapSurvey, settings: LdapSettings | None = None, domains: frozenset[str] = DOMAINS) -> tuple[bool, str]:
    told = next(one for one in lines_of_survey(settings or LdapSettings(), found, domains) if one.name == step.value)
    return told.state is CheckState.PASSED, told.told


def test_a_good_directory_passes_every_line() -> None:
    lines = lines_of_survey(LdapSettings(start_tls=True), survey(person(1), person(2)), DOMAINS)
    assert [one.name for one in lines] == [one.value for one in LdapStep if one is not LdapStep.SIGN_IN]
    assert all(one.state is CheckState.PASSED for one in lines)
    assert LdapStep.START_TLS.value not in [one.name for one in lines_of_survey(LdapSettings(), survey(person()), DOMAINS)]


@pytest.mark.parametrize(
    ("step", "found", "settings", "expected"),
    [
        (LdapStep.FILTER, survey(), None, (False, "finds no people")),
        (LdapStep.FILTER, survey(person(), are_more=True), None, (True, "more than 1")),
        (LdapStep.IDENTITY, survey(person(entryuuid=[])), None, (False, "1 of 1 people do not have exactly one value")),
        (LdapStep.IDENTITY, survey(person(1), person(1)), None, (False, "Several people have the same identity")),
        (
            LdapStep.ADDRESSES,
            survey(person(), person(1, mail=[]), person(2, mail=[b"x@y.example"])),
            None,
            (True, "1 email addresses are in"),
        ),
        (LdapStep.ADDRESSES, survey(person(mail=[b"x@y.example"])), None, (False, "0 email addresses are in")),
        (LdapStep.GROUPS, survey(person()), LdapSettings(groups_attribute=""), (True, "not read")),
        (LdapStep.GROUPS, survey(person()), None, (True, "contains 1 groups")),
        (LdapStep.LOCKOUT, survey(person(), lockout=LdapLockout(0, 0)), None, (True, "locks no accounts")),
        (LdapStep.LOCKOUT, survey(person(), lockout=LdapLockout(10, 60)), None, (True, "stops before")),
        (LdapStep.LOCKOUT, survey(person(), lockout=LdapLockout(2, 60)), None, (False, "a stranger can lock any account")),
        (LdapStep.LOCKOUT, survey(person(), lockout=LdapLockout(2, 60)), LdapSettings(accepts_lockouts=True), (True, "stops before")),
    ],
)
def test_each_line_says_what_it_found(step: LdapStep, found: LdapSurvey, settings: LdapSettings | None, expected: tuple[bool, str]) -> None:
    passed, words = line(step, found, settings)
    assert (passed, expected[1] in words) == (expected[0], True), words


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ([], None),
        ([LdapLockout(0, 60)], LdapLockout(0, 60)),
        ([LdapLockout(0, 0), LdapLockout(10, 60), LdapLockout(3, 30)], LdapLockout(3, 60)),
        ([LdapLockout(10, 0), LdapLockout(3, 30)], LdapLockout(3, 0)),
        ([LdapLockout(5, 10**18)], LdapLockout(5, 24 * 60 * 60)),
    ],
)
def test_the_strictest_policy_counts(read: list[LdapLockout], expected: LdapLockout | None) -> None:
    assert strictest(read) == expected


def test_the_line_of_addresses_shows_only_addresses() -> None:
    people = (person(1, mail=[b"local admin password"]), person(2, mail=[b"x@y.example"]), person(3))
    (told,) = [one for one in lines_of_survey(LdapSettings(), survey(*people), DOMAINS) if one.name == "ldap_addresses"]
    assert told.came == "x@y.example"


def test_a_directory_that_never_forgets_is_named_so() -> None:
    (told,) = [
        one for one in lines_of_survey(LdapSettings(), survey(person(), lockout=LdapLockout(5, 0)), DOMAINS) if one.name == "ldap_lockout"
    ]
    assert told.came == "5, without a time limit"


def test_without_a_proved_domain_the_line_of_addresses_says_so() -> None:
    assert line(LdapStep.ADDRESSES, survey(person()), domains=frozenset())[1].startswith("No email domain is verified")


@pytest.mark.parametrize(
    "step", [LdapStep.NAME, LdapStep.CONNECTION, LdapStep.START_TLS, LdapStep.BIND, LdapStep.BASE, LdapStep.FILTER, LdapStep.LOCKOUT]
)
def test_a_failure_is_the_last_line(step: LdapStep) -> None:
    settings = LdapSettings(start_tls=True, bind_dn="cn=reader", base_dn="dc=x")
    lines = lines_of_failure(settings, LdapFailed(step, LdapFault.CUT_OFF, "said\x07", "dc1"))
    assert lines[-1].name == step.value
    assert [one.state for one in lines] == [CheckState.PASSED] * (len(lines) - 1) + [CheckState.FAILED]
    assert lines[-1].came == "dc1: said·"
    assert lines[-1].expected == {LdapStep.BIND: "cn=reader", LdapStep.BASE: "dc=x"}.get(step, "")


@pytest.mark.parametrize("fault", list(LdapFault))
def test_each_fault_has_words_and_a_change_that_helps(fault: LdapFault) -> None:
    words, mend = words_of(fault)
    assert words.endswith(".")
    assert mend.endswith(".")


def test_the_sign_in_of_a_person_is_a_line() -> None:
    assert line_of_sign_in(BindOutcome.RIGHT, dns="uid=ada").state is CheckState.PASSED
    assert "No person" in line_of_sign_in(BindOutcome.UNKNOWN, found=0).told
    assert "Several" in line_of_sign_in(BindOutcome.UNKNOWN, found=2).told
    assert "password expired" in line_of_sign_in(BindOutcome.PASSWORD_EXPIRED, "data 532").told
