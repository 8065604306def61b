"""People and groups of a run, from entries of a directory."""

from collections.abc import Mapping, Sequence

import pytest

from core.domain.identity.upstream.ldap.answers import LdapEntry, NotRecognised, identity_of, subject_from, subject_of
from core.domain.identity.upstream.ldap.entries import (
    MOST_NESTED_GROUPS,
    GroupMembers,
    changed_since,
    folded_dn,
    group_name,
    is_below,
    is_disabled,
    later_modified,
    person_of,
    primary_group,
    readable_names,
    resolved,
    sid_of,
)
from core.domain.identity.upstream.ldap.filters import ComparedFilter, EveryFilter, LdapComparison, PresentFilter
from core.domain.identity.upstream.ldap.settings import LdapIdentity
from core.domain.identity.upstream.ldap.surveys import MOST_PEOPLE, LdapMarks

PEOPLE = PresentFilter("objectClass")
SID = bytes.fromhex("010500000000000515000000010000000200000003000000")


def entry(dn: str = "uid=ada,dc=x", **attributes: Sequence[bytes]) -> LdapEntry:
    return LdapEntry(dn, attributes)


def test_a_person_has_one_identity_and_the_texts_that_were_asked_for() -> None:
    found = person_of(entry(entryuuid=[b"AB-1"], mail=[b"ada@example.org", b"\xff"], cn=[b"Ada"]), LdapIdentity.ENTRY_UUID, ["mail", "sn"])
    assert found is not None
    assert (found.identity, found.dn, found.is_disabled, found.values) == (
        *(b"ab-1", "uid=ada,dc=x", False),
        {"mail": ["ada@example.org"]},
    )
    assert person_of(entry(entryuuid=[b"1", b"2"]), LdapIdentity.ENTRY_UUID, ["mail"]) is None
    assert person_of(entry(), LdapIdentity.ENTRY_UUID, ["mail"]) is None


def test_the_identity_is_what_the_sign_in_knows_the_person_by() -> None:
    for attribute, value in ((LdapIdentity.OBJECT_GUID, bytes(range(16))), (LdapIdentity.NS_UNIQUE_ID, b"AB-cd")):
        one = LdapEntry("uid=ada", {attribute.value.lower(): [value]})
        assert subject_from(identity_of(one, attribute), attribute) == subject_of(one, attribute)
    with pytest.raises(NotRecognised):
        identity_of(entry(objectguid=[b"short"]), LdapIdentity.OBJECT_GUID)
    with pytest.raises(NotRecognised):
        identity_of(entry(entryuuid=[b"\x00"]), LdapIdentity.ENTRY_UUID)


def test_no_credential_and_no_text_that_is_no_attribute_is_read() -> None:
    asked = ["Mail", "mail", "userPassword", "unicodePwd;binary", "ms-Mcs-AdmPwd", "no attribute", "cn"]
    assert readable_names(asked) == ["mail", "cn"]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, False),
        ({"useraccountcontrol": [b"512"]}, False),
        ({"useraccountcontrol": [b"514"]}, True),
        ({"useraccountcontrol": [b"66050"]}, True),
        ({"useraccountcontrol": [b"-2147483646"]}, True),
        ({"useraccountcontrol": [b"two"]}, False),
        ({"useraccountcontrol": []}, False),
        ({"pwdaccountlockedtime": [b"000001010000Z"]}, True),
        # A stranger brings this about, by wrong passwords.
        ({"pwdaccountlockedtime": [b"20240101000000Z"]}, False),
        ({"nsaccountlock": [b"TRUE"]}, True),
        ({"nsaccountlock": [b"true"]}, True),
        ({"nsaccountlock": [b"false"]}, False),
    ],
)
def test_an_administrator_disables_and_a_stranger_does_not(attributes: Mapping[str, Sequence[bytes]], expected: bool) -> None:
    assert is_disabled(LdapEntry("uid=ada", attributes)) is expected


def test_changes_are_those_since_the_marks_of_the_same_controller() -> None:
    of_windows, elsewhere = LdapMarks("a", 41, None), LdapMarks(None, None, "20240101000000Z")
    assert changed_since(PEOPLE, None, "a") == PEOPLE
    assert changed_since(PEOPLE, of_windows, "b") == PEOPLE
    assert changed_since(PEOPLE, of_windows, None) == PEOPLE
    assert changed_since(PEOPLE, LdapMarks("a", None, None), "a") == PEOPLE
    assert changed_since(PEOPLE, LdapMarks(None, None, None), None) == PEOPLE
    assert changed_since(PEOPLE, elsewhere, "a") == PEOPLE
    assert changed_since(PEOPLE, of_windows, "a") == EveryFilter((PEOPLE, ComparedFilter("uSNChanged", LdapComparison.AT_LEAST, b"42")))
    assert changed_since(PEOPLE, elsewhere, None) == EveryFilter(
        (PEOPLE, ComparedFilter("modifyTimestamp", LdapComparison.AT_LEAST, b"20240101000000Z"))
    )


def test_the_later_time_is_the_one_that_the_directory_wrote() -> None:
    modified: str | None = None
    for one in (b"20240101000000Z", b"20240101000000.5Z", b"20231231235959Z", b"yesterday", b"20250101000000Z)(uid=*"):
        modified = later_modified(modified, entry(modifytimestamp=[one]))
    assert later_modified(modified, entry()) == "20240101000000.5Z"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("uid=ada,dc=x", "UID=Ada,DC=X"),
        ("uid=ada,dc=x", " uid = ada , dc=x"),
        (r"cn=Lovelace\, Ada,dc=x", r"CN=Lovelace\2C Ada, DC=x"),
        (r"cn=zo\C3\AB,dc=x", "cn=zoë,dc=x"),
        ("cn=ada,dc=x#'0101'B", "cn=ada, dc=x"),
        ("cn=Ada Lovelace,dc=x", "cn=ada lovelace,dc=x"),
    ],
)
def test_one_name_in_two_ways_is_one(one: str, other: str) -> None:
    if "#" in one:
        one = one.replace("cn=", "cn= ")
    assert folded_dn(one) == folded_dn(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(r"cn=a\,dc=x,dc=y", "cn=a,dc=x,dc=y"), (r"cn=a\2Cdc=x,dc=y", "cn=a,dc=x,dc=y"), (r"cn=a\\2Cb,dc=y", r"cn=a\2Cb,dc=y")],
)
def test_an_escaped_sign_parts_no_name(one: str, other: str) -> None:
    assert folded_dn(one) != folded_dn(other)


def test_a_name_stands_below_its_base() -> None:
    assert is_below("cn=a,dc=x", "dc=x")
    assert is_below("dc=x", "dc=x")
    assert is_below("dc=x", "")
    assert not is_below("cn=a,dc=xx", "dc=x")
    assert not is_below("cn=a,odc=x", "dc=x")


def test_a_group_has_its_name_or_that_of_its_place() -> None:
    assert group_name(entry("cn=b,dc=x", cn=[b" Sales "])) == "Sales"
    assert group_name(entry("ou=Büro,dc=x")) == "Büro"
    assert group_name(entry("cn=b", cn=["a\u202eb".encode()])) == "a·b"
    assert len(group_name(entry("cn=b", cn=[b"x" * 500]))) == 200


def test_the_first_group_of_windows_is_a_number_in_the_persons_domain() -> None:
    one = entry(objectsid=[SID + (1104).to_bytes(4, "little")], primarygroupid=[b"513"])
    assert primary_group(one) == (SID, 513)
    assert sid_of(entry(objectsid=[SID + (513).to_bytes(4, "little")])) == (SID, 513)
    assert sid_of(entry(objectsid=[b"short"])) is None
    assert primary_group(entry(primarygroupid=[b"513"])) is None
    assert primary_group(entry(objectsid=one.attributes["objectsid"])) is None
    assert primary_group(entry(objectsid=one.attributes["objectsid"], primarygroupid=[b"many"])) is None


def group(people: Sequence[bytes] = (), groups: Sequence[str] = (), *, is_cut: bool = False) -> GroupMembers:
    made = GroupMembers()
    made.people, made.groups, made.is_cut = set(people), set(groups), is_cut
    return made


def test_people_of_groups_in_a_group_are_in_the_group() -> None:
    groups = {"a": group([b"1"], ["b"]), "b": group([b"2"], ["c"]), "c": group([b"3"], ["a"])}
    assert resolved(groups, "a")[:2] == (frozenset({b"1", b"2", b"3"}), False)
    assert resolved(groups, "c")[:2] == (frozenset({b"1", b"2", b"3"}), False)


def test_groups_are_walked_ten_deep() -> None:
    groups = {str(at): group([bytes([at])], [str(at + 1)]) for at in range(20)} | {"20": group()}
    people, is_cut, looked = resolved(groups, "0")
    assert (len(people), is_cut, looked) == (MOST_NESTED_GROUPS + 1, True, 3 * (MOST_NESTED_GROUPS + 1))
    assert resolved(groups, "10")[:2] == (frozenset(bytes([at]) for at in range(10, 20)), False)


def test_a_group_with_too_many_is_cut_and_says_so() -> None:
    assert resolved({"a": group(groups=["b"]), "b": group(is_cut=True)}, "a")[:2] == (frozenset(), True)
    half = [at.to_bytes(4, "big") for at in range(MOST_PEOPLE // 2 + 1)]
    more = [at.to_bytes(5, "big") for at in range(MOST_PEOPLE // 2)]
    people, is_cut, _ = resolved({"a": group(half, ["b"]), "b": group(more)}, "a")
    assert (len(people), is_cut) == (MOST_PEOPLE, True)
    assert group(half + more).is_full
    assert not group(half).is_full
