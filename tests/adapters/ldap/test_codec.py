"""What we send and read of LDAP, byte for byte. What `ldapsearch` 2.5.13 sends was recorded."""

import pytest

from adapters.ldap import messages
from adapters.ldap.messages import MalformedMessage, SearchScope, encoded, integer, length_at, octets
from core.domain.identity.upstream.ldap.filters import read_filter


def test_integers_take_the_least_bytes() -> None:
    assert [integer(one).hex() for one in (0, 127, 128, 255, 256, -1)] == [
        *("020100", "02017f", "02020080", "020200ff", "02020100", "0201ff")
    ]


def test_long_contents_name_their_length_in_more_bytes() -> None:
    assert octets(bytes(127))[:2].hex() == "047f"
    assert octets(bytes(128))[:3].hex() == "048180"
    assert octets(bytes(70_000))[:5].hex() == "0483011170"


def test_a_bind_is_what_ldapsearch_sends() -> None:
    sent = messages.message(1, messages.bind("cn=admin,dc=example,dc=org", b"admin"))
    assert sent.hex() == "302b0201016026020103041a636e3d61646d696e2c64633d6578616d706c652c64633d6f7267800561646d696e"


def test_goodbye_and_start_tls_are_those_of_the_standard() -> None:
    assert messages.message(3, messages.unbind()).hex() == "30050201034200"
    assert messages.message(1, messages.start_tls()).hex() == "301d02010177188016" + b"1.3.6.1.4.1.1466.20037".hex()


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("(uid=ada)", "302e0201026329040464633d780a01020a0100020102020105010100a30a04037569640403616461300604046d61696c"),
        ("(cn=a*b*c)", "3033020102632e040464633d780a01020a0100020102020105010100a40f0402636e3009800161810162820163300604046d61696c"),
        ("(n>=5)", "302a0201026325040464633d780a01020a0100020102020105010100a50604016e040135300604046d61696c"),
        ("(!(n=5))", "302c0201026327040464633d780a01020a0100020102020105010100a208a30604016e040135300604046d61696c"),
        ("(a:dn:2.4:=x)", "3032020102632d040464633d780a01020a0100020102020105010100a90e8103322e348201618301788401ff300604046d61696c"),
        (
            r"(&(objectClass=*)(|(a=b\2a)(n~=5)))",
            (
                "3044020102633f040464633d780a01020a0100020102020105010100a020870b6f626a656374436c617373a1"
                "11a3070401610402622aa80604016e040135300604046d61696c"
            ),
        ),
    ],
)
def test_a_search_is_what_ldapsearch_sends(text: str, recorded: str) -> None:
    sent = messages.search("dc=x", SearchScope.SUBTREE, read_filter(text), ["mail"], most=2, seconds=5)
    assert messages.message(2, sent).hex() == recorded


def test_lengths_that_ldap_does_not_have_are_refused() -> None:
    for data in (b"\x80", b"\x85\x01\x00\x00\x00\x00", b"\xff"):
        with pytest.raises(MalformedMessage):
            length_at(data, 0)
    assert length_at(b"", 0) is None
    assert length_at(b"\x84\x7f", 0) is None
    assert length_at(b"\x84\x80\x00\x00\x00", 0) == (1 << 31, 5)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x02\x01",
        b"\x02\x00\x61\x00",
        b"\x02\x05\x00\x00\x00\x00\x01\x61\x00",
        b"\x02\x01\x01",
        b"\x02\x01\x01\x61\x03\x0a\x01\x00",
        b"\x02\x01\x01\x64\x05\x04\x01\xff\x30\x00",
        b"\x02\x01\x01\x64\x06\x04\x01\x61\x04\x01\x61",
    ],
)
def test_malformed_messages_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedMessage):
        messages.received(content)


def test_an_entry_has_few_enough_attributes_and_values() -> None:
    def entry(attributes: int, values: int) -> bytes:
        one = encoded(0x30, octets(b"a"), encoded(0x31, *[octets(b"v")] * values))
        listed = [encoded(0x30, octets(f"a{number}".encode()), encoded(0x31)) for number in range(attributes)]
        return integer(1) + encoded(0x64, octets(b"dc=x"), encoded(0x30, one, *listed))

    assert messages.received(entry(10, 10)).entry is not None
    for attributes, values in ((300, 1), (1, 10_001)):
        with pytest.raises(MalformedMessage):
            messages.received(entry(attributes, values))


def test_controls_tell_of_pages_and_policies() -> None:
    def result(*controls: bytes) -> messages.LdapResult:
        body = encoded(0x65, integer(0, 0x0A), octets(b""), octets(b""))
        found = messages.received(integer(2) + body + encoded(0xA0, *controls)).result
        assert found is not None
        return found

    paged = encoded(0x30, octets(messages.PAGED_RESULTS), encoded(0x01, b"\xff"), octets(encoded(0x30, integer(0), octets(b"next"))))
    policy = encoded(0x30, octets(messages.PASSWORD_POLICY), octets(encoded(0x30, encoded(0xA0, b"\x80\x01\x05"), encoded(0x81, b"\x02"))))
    empty = encoded(0x30, octets(messages.PASSWORD_POLICY))
    assert messages.page_cookie(result(paged)) == b"next"
    assert messages.page_cookie(result(policy)) == b""
    assert messages.policy_error(result(paged, policy)) == 2
    assert messages.policy_error(result(empty)) is None
    assert messages.policy_error(result(encoded(0x30, octets(messages.PASSWORD_POLICY), octets(encoded(0x30))))) is None
    with pytest.raises(MalformedMessage):
        result(*[empty] * 21)
