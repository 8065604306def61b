"""What is read of others' documents."""

import zlib
from base64 import b64encode
from datetime import UTC, datetime

import pytest

from adapters.saml.metadata import read_metadata
from adapters.saml.parsing import parsed, unpacked
from adapters.saml.reading import read_authn_request, read_logout_response
from core.domain.errors import BadRequest
from core.domain.saml import Envelope, MessageRefused, SamlBinding
from ops.stand_ins.saml import SAMLP
from tests.http.federation.providing import ACS, MD, SP, authn_request, metadata

_BOM = b"\xef\xbb\xbf"
_DECLARATION = b"<?xml version='1.0' encoding='UTF-8'?>"
_PROTOCOL_OF_1_1 = "urn:oasis:names:tc:SAML:1.1:protocol"
_STATUS = "urn:oasis:names:tc:SAML:2.0:status:"


def _posted(document: str) -> Envelope:
    return Envelope(binding=SamlBinding.POST, packed=b64encode(document.encode()).decode())


@pytest.mark.parametrize("begin", [b"", _BOM, _DECLARATION, _BOM + _DECLARATION])
@pytest.mark.parametrize("message", [True, False])
def test_a_byte_order_mark_may_come_first(begin: bytes, *, message: bool) -> None:
    assert parsed(begin + b"<a/>", message=message).tag == "a"


@pytest.mark.parametrize("begin", [_BOM + _BOM, _BOM + _BOM + _DECLARATION, _BOM + b"<?php ?>"])
def test_one_byte_order_mark_hides_nothing(begin: bytes) -> None:
    with pytest.raises(MessageRefused):
        parsed(begin + b"<a/>")


@pytest.mark.parametrize("begin", [b"", _BOM, _DECLARATION, b" \n"])
def test_a_form_is_not_compressed_and_whoever_compresses_it_is_told(begin: bytes) -> None:
    document = begin + authn_request().encode()
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    compressed = packing.compress(document) + packing.flush()
    with pytest.raises(MessageRefused) as refused:
        unpacked(Envelope(binding=SamlBinding.POST, packed=b64encode(compressed).decode()))
    assert (refused.value.reason, refused.value.advice) == ("it is compressed", "With the POST binding, send base64 of the XML itself")
    assert unpacked(Envelope(binding=SamlBinding.POST, packed=b64encode(document).decode())) == document


@pytest.mark.parametrize(
    ("codes", "partial"),
    [
        (f'<samlp:StatusCode Value="{_STATUS}Success"/>', False),
        (f'<samlp:StatusCode Value="{_STATUS}Success"><samlp:StatusCode Value="{_STATUS}PartialLogout"/></samlp:StatusCode>', True),
        (f'<samlp:StatusCode Value="{_STATUS}Success"><samlp:StatusCode Value="urn:example:well"/></samlp:StatusCode>', False),
    ],
)
def test_a_partial_logout_is_read(codes: str, *, partial: bool) -> None:
    document = authn_request(inside=f"<samlp:Status>{codes}</samlp:Status>").replace("AuthnRequest", "LogoutResponse")
    read = read_logout_response(_posted(document), ())
    assert (read.status, read.partial) == (f"{_STATUS}Success", partial)


@pytest.mark.parametrize(
    ("identifier", "named", "subject", "qualifier"),
    [
        ("", True, None, None),
        ("<saml:NameID>ada</saml:NameID>", True, "ada", None),
        (f'<saml:NameID SPNameQualifier="{SP}">ada</saml:NameID>', True, "ada", SP),
        ('<saml:BaseID NameQualifier="a"/>', False, None, None),
        ("<saml:EncryptedID/>", False, None, None),
    ],
)
def test_how_a_request_names_its_subject(identifier: str, *, named: bool, subject: str | None, qualifier: str | None) -> None:
    read = read_authn_request(_posted(authn_request(inside=f"<saml:Subject>{identifier}</saml:Subject>")), ())
    assert (not read.unreadable_subject, read.subject, read.subject_qualifier) == (named, subject, qualifier)


@pytest.mark.parametrize(
    ("said", "read"), [("", None), ('isDefault="false"', False), ('isDefault=" 0 "', False), ('isDefault=" true&#10;"', True)]
)
def test_an_endpoint_says_that_it_is_the_default_or_that_it_is_not_or_nothing(said: str, *, read: bool | None) -> None:
    document = metadata().replace(b'isDefault="true"', said.encode())
    assert [one.is_default for one in read_metadata(document).acs_endpoints] == [read, None]


def test_space_around_booleans_and_indexes_does_not_count() -> None:
    read = read_metadata(metadata(AuthnRequestsSigned=" true ", WantAssertionsSigned="&#9;1&#10;").replace(b'"7"', b'" 65535 "'))
    assert (read.requests_signed, read.wants_assertions_signed) == (True, True)
    assert [one.index for one in read.acs_endpoints] == [0, 65535]


@pytest.mark.parametrize("index", ["65536", "99999", "-1", "6 5", "\u0661", ""])
def test_an_index_is_a_number_up_to_65535(index: str) -> None:
    with pytest.raises(BadRequest, match="a number up to 65535"):
        read_metadata(metadata().replace(b'"7"', f'"{index}"'.encode()))


def test_a_role_for_another_protocol_does_not_count() -> None:
    ours = metadata()
    other = ours.replace(SAMLP.encode(), _PROTOCOL_OF_1_1.encode()).replace(ACS.encode(), b"https://old.example.com/acs")
    begin, end = ours.index(b"<md:SPSSO"), ours.index(b"</md:EntityD")
    of_other = other[other.index(b"<md:SPSSO") : other.index(b"</md:EntityD")]
    for document in (ours[:begin] + of_other + ours[begin:], ours[:end] + of_other + ours[end:]):
        assert [one.url for one in read_metadata(document).acs_endpoints] == [ACS, f"{ACS}/7"]
    both = ours.replace(SAMLP.encode(), f"{_PROTOCOL_OF_1_1} {SAMLP}".encode())
    assert read_metadata(both).entity_id == SP
    for document in (other, ours.replace(f'protocolSupportEnumeration="{SAMLP}"'.encode(), b"")):
        with pytest.raises(BadRequest, match=f"protocolSupportEnumeration lists {SAMLP}"):
            read_metadata(document)


def _valid_until(**times: str) -> bytes:
    document = metadata().decode()
    for name, time in times.items():
        document = document.replace(f"<md:{name} ", f'<md:{name} validUntil="{time}" ')
    return document.encode()


@pytest.mark.parametrize("earliest", ["EntitiesDescriptor", "EntityDescriptor", "SPSSODescriptor"])
def test_metadata_are_valid_as_long_as_everything_around_them_is(earliest: str) -> None:
    assert read_metadata(metadata()).valid_until is None
    names = ("EntitiesDescriptor", "EntityDescriptor", "SPSSODescriptor")
    times = {name: " 2031-02-28T12:00:00.123Z " if name == earliest else "2032-01-01T00:00:00Z" for name in names}
    document = f'<md:EntitiesDescriptor xmlns:md="{MD}" validUntil="{times.pop("EntitiesDescriptor")}">'.encode()
    document += _valid_until(**times) + b"</md:EntitiesDescriptor>"
    assert read_metadata(document).valid_until == datetime(2031, 2, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize("time", ["", "tomorrow", "2031-02-30T12:00:00Z", "2031-02-28T12:00:00+02:00"])
def test_a_time_that_is_none_is_refused_in_words(time: str) -> None:
    with pytest.raises(BadRequest, match="validUntil is no time in UTC"):
        read_metadata(_valid_until(EntityDescriptor=time))
