"""What a directory answers to a password, and who the entry is."""

from uuid import UUID

import pytest

from core.domain.identity.upstream.ldap.answers import (
    BindOutcome,
    LdapAnswer,
    LdapEntry,
    NotRecognised,
    subject_of,
    usable_name,
    usable_password,
)
from core.domain.identity.upstream.ldap.settings import LdapIdentity

WINDOWS = "80090308: LdapErr: DSID-0C090449, comment: AcceptSecurityContext error, data {}, v4563"


@pytest.mark.parametrize(
    ("data", "outcome", "is_shown"),
    [
        ("525", BindOutcome.UNKNOWN, False),
        ("52e", BindOutcome.WRONG, False),
        ("52E", BindOutcome.WRONG, False),
        ("530", BindOutcome.OUTSIDE_HOURS, True),
        ("531", BindOutcome.OTHER_WORKSTATION, True),
        ("532", BindOutcome.PASSWORD_EXPIRED, True),
        ("533", BindOutcome.DISABLED, True),
        ("701", BindOutcome.ACCOUNT_EXPIRED, True),
        ("773", BindOutcome.MUST_CHANGE, True),
        ("775", BindOutcome.LOCKED, False),
        ("999", BindOutcome.WRONG, False),
    ],
)
def test_active_directory_names_its_reason(data: str, outcome: BindOutcome, is_shown: bool) -> None:
    found = LdapAnswer(code=49, said=WINDOWS.format(data)).outcome
    assert (found, found.is_shown) == (outcome, is_shown)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (LdapAnswer(code=0), BindOutcome.RIGHT),
        (LdapAnswer(code=0, must_change=True), BindOutcome.MUST_CHANGE),
        (LdapAnswer(code=0, policy=2), BindOutcome.MUST_CHANGE),
        (LdapAnswer(code=0, policy=6), BindOutcome.RIGHT),
        (LdapAnswer(code=49, policy=0), BindOutcome.PASSWORD_EXPIRED),
        (LdapAnswer(code=49, policy=1), BindOutcome.LOCKED),
        (LdapAnswer(code=49, policy=6), BindOutcome.WRONG),
        (LdapAnswer(code=49), BindOutcome.WRONG),
        (LdapAnswer(code=19, said="Exceed password retry limit"), BindOutcome.REFUSED),
        (LdapAnswer(code=53), BindOutcome.REFUSED),
    ],
)
def test_policies_name_theirs(answer: LdapAnswer, outcome: BindOutcome) -> None:
    assert answer.outcome is outcome
    assert not answer.is_away


def test_a_busy_directory_is_away() -> None:
    assert [LdapAnswer(code=code).is_away for code in (3, 51, 52, 49)] == [True, True, True, False]


def test_identity_is_what_the_directory_has_in_bytes() -> None:
    guid = UUID("6a1d3c4e-0b2f-4d5a-9c8e-1f2a3b4c5d6e")
    assert subject_of(LdapEntry("dn", {"objectguid": [guid.bytes_le]}), LdapIdentity.OBJECT_GUID) == str(guid)
    assert subject_of(LdapEntry("dn", {"entryuuid": [b"ABC-1"]}), LdapIdentity.ENTRY_UUID) == "abc-1"


@pytest.mark.parametrize(
    ("attribute", "values"),
    [
        (LdapIdentity.OBJECT_GUID, []),
        (LdapIdentity.OBJECT_GUID, [b"short"]),
        (LdapIdentity.ENTRY_UUID, [b"a", b"b"]),
        (LdapIdentity.ENTRY_UUID, [b""]),
        (LdapIdentity.ENTRY_UUID, [b"x" * 101]),
        (LdapIdentity.ENTRY_UUID, ["é".encode()]),
        (LdapIdentity.ENTRY_UUID, [b"a\0b"]),
    ],
)
def test_whoever_has_no_single_identity_is_not_recognised(attribute: LdapIdentity, values: list[bytes]) -> None:
    with pytest.raises(NotRecognised):
        subject_of(LdapEntry("dn", {attribute.value.lower(): values}), attribute)


def test_values_that_are_no_text_are_left_out() -> None:
    assert LdapEntry("dn", {"mail": [b"\xff", b"a@example.org"]}).texts("Mail") == ["a@example.org"]


@pytest.mark.parametrize(("typed", "name"), [(" ada ", "ada"), ("", None), ("  ", None), ("a\0b", None), ("a\nb", None), ("a" * 257, None)])
def test_a_name_that_is_none_goes_nowhere(typed: str, name: str | None) -> None:
    assert usable_name(typed) == name


@pytest.mark.parametrize(("typed", "is_usable"), [("", False), (" ", True), ("a\0", False), ("\0a", False), ("x" * 1025, False)])
def test_a_password_that_directories_read_as_none_goes_nowhere(typed: str, is_usable: bool) -> None:
    assert usable_password(typed) is is_usable
