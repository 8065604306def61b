"""The administrator's filter: what it may be, and where it is wrong."""

import pytest

from core.domain.errors import BadRequest
from core.domain.identity.upstream.ldap.filters import (
    AnyOfFilter,
    ComparedFilter,
    EveryFilter,
    ExtendedFilter,
    LdapComparison,
    NoFilter,
    NotFilter,
    PresentFilter,
    SubstringsFilter,
    named,
    person_filter,
    read_filter,
)


def test_each_kind_of_comparison_is_read() -> None:
    found = read_filter(r"(&(objectClass=*)(|(cn=A\2a*c)(sn=*)(n>=1)(n<=2)(n~=3))(!(uac:1.2.840.113556.1.4.803:=2))(sn:dn:rule:=x)(a:=b))")
    assert found == EveryFilter(
        (
            PresentFilter("objectClass"),
            AnyOfFilter(
                (
                    SubstringsFilter("cn", b"A*", (), b"c"),
                    PresentFilter("sn"),
                    ComparedFilter("n", LdapComparison.AT_LEAST, b"1"),
                    ComparedFilter("n", LdapComparison.AT_MOST, b"2"),
                    ComparedFilter("n", LdapComparison.LIKE, b"3"),
                )
            ),
            NotFilter(ExtendedFilter("uac", "1.2.840.113556.1.4.803", b"2", with_dn=False)),
            ExtendedFilter("sn", "rule", b"x", with_dn=True),
            ExtendedFilter("a", "", b"b", with_dn=False),
        )
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1),
        ("uid=ada", 1),
        ("(uid=ada", 9),
        ("(uid=ada))", 10),
        ("(uid)", 2),
        ("(&)", 3),
        ("(=ada)", 2),
        ("(u d=ada)", 2),
        ("(uid=a**b)", 6),
        (r"(uid=\zz)", 6),
        ("(uid=a(b)", 7),
        ("(uid=a\nb)", 7),
        ("(n>=a*b)", 6),
        ("(a:b:c:=x)", 2),
        ("(:=x)", 2),
        ("(:caseExactMatch:=x)", 2),
        ("(&(uid=*)(:dn:caseExactMatch:=x))", 11),
        ("(a:r!:=x)", 2),
        ("(!" * 12 + "(a=b)" + ")" * 12, 21),
        ("(&" + "(a=b)" * 120 + ")", 498),
        ("(a=" + "b" * 2000 + ")", 2001),
    ],
)
def test_a_text_that_is_no_filter_says_where(text: str, place: int) -> None:
    with pytest.raises(NoFilter) as wrong:
        read_filter(text)
    assert wrong.value.place == place
    with pytest.raises(BadRequest) as refused:
        person_filter(text)
    assert f"at character {place}" in refused.value.message


def test_a_name_is_a_value_whatever_it_says() -> None:
    people = read_filter("(objectClass=person)")
    found = named(people, ("uid", "mail"), "*)(uid=*\\00")
    assert found == EveryFilter(
        (people, AnyOfFilter(tuple(ComparedFilter(one, LdapComparison.EQUAL, b"*)(uid=*\\00") for one in ("uid", "mail"))))
    )
