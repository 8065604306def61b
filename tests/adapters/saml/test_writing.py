"""What is written here is signed as it stands, so it must be what others canonicalize it to."""

import zlib
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import pytest
import trio
import trio.testing
import xmlsec
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from adapters.saml import signing
from adapters.saml.documents import XmlDocuments, XmlThreads
from adapters.saml.encryption import encrypted
from adapters.saml.signing import Markup, element, private_key, sign_octets, worded
from adapters.saml.writing import write_assertion, write_logout, write_metadata, write_response
from core.domain.federation.saml.messages import OurMetadata, Response, SamlAssertion
from core.domain.saml import KeyPair, NameId, NameIdFormat, OurLogoutRequest, OurLogoutResponse, RequestDeclined, Status
from core.domain.secrets import Secret
from ops.stand_ins.saml import DS, pair
from tests.http.federation.providing import ACS, SLO, SP

_AT: Final = datetime(2026, 1, 31, 12, 0, 5, 999, tzinfo=UTC)
_TEXT: Final = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff", include_characters="\t\n\r"))
_NASTY: Final = "\t\n\r \"'<&>]]>é\u2028\U0001f600"


def _signer() -> KeyPair:
    return KeyPair(pair().certificate, Secret(pair().key))


def _response(said: str = _NASTY, attributes: Mapping[str, Any] | None = None, format_: NameIdFormat = NameIdFormat.EMAIL) -> Response:
    assertion = SamlAssertion(
        id="_a",
        name_id=NameId(text=said, format=format_),
        audience=SP,
        recipient=ACS,
        in_response_to="_r",
        session_index="s",
        session_ends_at=_AT,
        authenticated_at=_AT,
        context_class="c",
        attributes={said: [said, ""]} if attributes is None else attributes,
    )
    return Response(id="_x", issuer=said, destination=ACS, in_response_to="_r", issued_at=_AT, status=Status.SUCCESS, assertion=assertion)


def _written(response: Response, *, assertion: bool = True, whole: bool = True) -> bytes:
    return b64decode(write_response(response, write_assertion(response, _signer() if assertion else None), _signer() if whole else None))


def _require_canonical(document: bytes) -> Any:
    root = etree.fromstring(document)
    assert etree.tostring(root, method="c14n", exclusive=True, with_comments=False) == document
    return root


def _verify(signed: Any) -> None:
    """Verifies with xmlsec, as service providers do."""
    node = signed.find(f"{{{DS}}}Signature")
    assert node.find(f".//{{{DS}}}Reference").get("URI") == f"#{signed.get('ID')}"
    context = xmlsec.SignatureContext()
    context.key = xmlsec.Key.from_memory(pair().certificate, xmlsec.constants.KeyDataFormatCertPem)
    context.register_id(signed, "ID")
    context.verify(node)


@given(said=_TEXT, value=_TEXT)
def test_any_text_is_written_in_its_canonical_form(said: str, value: str) -> None:
    root = _require_canonical(_written(_response(said, {value: [said, value]})))
    _verify(root)
    _verify(root.find("{*}Assertion"))


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("email", "basic"),
        ("_a:b-c.9\u00e9", "basic"),
        ("urn:oid:0.9.2342.19200300.100.1.3", "uri"),
        ("https://example.com/email", "uri"),
        ("1st", "unspecified"),
        ('a b<c>&"d', "unspecified"),
        ("-a", "unspecified"),
        ("two words", "unspecified"),
        ("a\n", "unspecified"),
    ],
)
def test_the_name_of_an_attribute_is_of_the_format_that_it_says(name: str, format_: str) -> None:
    """A basic one is an xs:Name (SAML core, section 8.2.3)."""
    root = _require_canonical(_written(_response(attributes={name: ["x"]})))
    attribute = root.find(".//{*}Attribute")
    assert attribute.get("Name") == name
    assert attribute.get("NameFormat") == f"urn:oasis:names:tc:SAML:2.0:attrname-format:{format_}"


@pytest.mark.parametrize(("assertion", "whole"), [(True, True), (True, False), (False, True)])
def test_what_is_to_be_signed_is_signed(*, assertion: bool, whole: bool) -> None:
    root = _require_canonical(_written(_response(), assertion=assertion, whole=whole))
    for one, wanted in ((root, whole), (root.find("{*}Assertion"), assertion)):
        assert (one.find(f"{{{DS}}}Signature") is not None) is wanted
        if wanted:
            # Behind the issuer (SAML core, section 5.4.1).
            assert [etree.QName(child).localname for child in one][:2] == ["Issuer", "Signature"]
            _verify(one)


def test_one_changed_character_is_noticed() -> None:
    """Shows that the tests above can fail."""
    document = _written(_response("somebody@example.com"))
    for old, new in ((b"somebody@", b"somebodx@"), (b'SessionIndex="s"', b'SessionIndex="t"')):
        root = etree.fromstring(document.replace(old, new))
        for signed in (root, root.find("{*}Assertion")):
            with pytest.raises(xmlsec.Error):
                _verify(signed)


async def test_an_answer_without_an_assertion_is_signed_whole() -> None:
    declined = Response(
        id="_x",
        issuer=SP,
        destination=ACS,
        in_response_to=None,
        issued_at=_AT,
        status=Status.NO_PASSIVE,
        message=_NASTY,
    )
    documents = XmlDocuments(XmlThreads(), trio.lowlevel.checkpoint)
    packed = await documents.write_response(declined, _signer(), sign_assertion=True, sign_response=False, encrypt_for=None)
    root = _require_canonical(b64decode(packed))
    _verify(root)
    assert root.find("{*}Status/{*}StatusMessage").text == _NASTY


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.PARTIAL_LOGOUT, Status.REQUEST_DENIED])
def test_messages_of_a_sign_out_are_canonical(status: Status) -> None:
    name = NameId(text=_NASTY, format=NameIdFormat.PERSISTENT)
    for message in (
        OurLogoutRequest(id="_x", issuer=SP, destination=SLO, issued_at=_AT, name_id=name, session_index="s"),
        OurLogoutResponse(id="_x", issuer=SP, destination=SLO, in_response_to="_r", issued_at=_AT, status=status),
    ):
        root = _require_canonical(b64decode(write_logout(message, _signer(), relay_state=None, redirect=False)))
        _verify(root)


@pytest.mark.parametrize("redirect", [False, True])
@pytest.mark.parametrize("format_", list(NameIdFormat))
def test_a_sign_out_names_people_as_their_assertion_did(format_: NameIdFormat, redirect: bool) -> None:
    told = _require_canonical(_written(_response("ada", format_=format_))).find(".//{*}NameID")
    name = NameId(text="ada", format=format_)
    message = OurLogoutRequest(id="_x", issuer=SP, destination=SLO, issued_at=_AT, name_id=name, session_index="s", audience=SP)
    written = write_logout(message, _signer(), relay_state=None, redirect=redirect)
    if redirect:
        packed = parse_qs(written.partition("?")[2])["SAMLRequest"][0]
        document = zlib.decompress(b64decode(packed), -zlib.MAX_WBITS)
    else:
        document = b64decode(written)
    asked = _require_canonical(document).find("{*}NameID")
    assert (asked.text, dict(asked.attrib)) == (told.text, dict(told.attrib))
    qualified = format_ in {NameIdFormat.PERSISTENT, NameIdFormat.TRANSIENT}
    assert asked.get("SPNameQualifier") == (SP if qualified else None)


@pytest.mark.parametrize("signer", [None, _signer])
def test_metadata_are_canonical_behind_their_declaration(signer: Callable[[], KeyPair] | None) -> None:
    metadata = OurMetadata(
        id="_m",
        entity_id=SP,
        sso_url=f"{SP}?a=1&b=2",
        slo_url=SLO,
        certificates=(pair().certificate, pair("other").certificate),
        name_id_formats=tuple(NameIdFormat),
        wants_requests_signed=True,
        valid_until=_AT,
    )
    written = write_metadata(metadata, None if signer is None else signer())
    declaration, _, document = written.partition(b"\n")
    assert declaration == b"<?xml version='1.0' encoding='UTF-8'?>"
    root = _require_canonical(document)
    if signer is None:
        assert root.find(f"{{{DS}}}Signature") is None
    else:
        # Before everything else (SAML metadata, section 2.3.2).
        assert root[0].tag == f"{{{DS}}}Signature"
        _verify(root)


@pytest.mark.parametrize(("assertion", "whole"), [(True, True), (True, False), (False, True)])
async def test_others_get_their_turn_before_each_signature(monkeypatch: pytest.MonkeyPatch, *, assertion: bool, whole: bool) -> None:
    done = []

    async def turn() -> None:
        done.append("turn")

    def sign(octets: bytes, signer: KeyPair) -> bytes:
        done.append("signature")
        return sign_octets(octets, signer)

    monkeypatch.setattr(signing, "sign_octets", sign)
    documents = XmlDocuments(XmlThreads(), turn)
    packed = await documents.write_response(_response(), _signer(), sign_assertion=assertion, sign_response=whole, encrypt_for=None)
    assert "".join(done).replace("turn", "t").replace("signature", "s") == ("ts" if assertion else "t") + ("ts" if whole else "t")
    assert b64decode(packed) == _written(_response(), assertion=assertion, whole=whole)


def test_an_encrypted_assertion_can_be_read_on_its_own() -> None:
    plain = write_assertion(_response(), _signer())
    assert plain is not None
    root = _require_canonical(b64decode(write_response(_response(), encrypted(plain, pair().certificate), _signer())))
    _verify(root)
    manager = xmlsec.KeysManager()
    manager.add_key(xmlsec.Key.from_memory(pair().key, xmlsec.constants.KeyDataFormatPem))
    data = root.find("{*}EncryptedAssertion/{*}EncryptedData")
    decrypted = xmlsec.EncryptionContext(manager).decrypt(data)
    assertion = etree.fromstring(etree.tostring(decrypted, with_tail=False))
    assert assertion.find("{*}Subject/{*}NameID").text == _NASTY
    _verify(assertion)


@pytest.mark.parametrize("value", ["\x00", "\x0b", "\x1f", "\ud800", "\ufffe", "\uffff"])
def test_what_xml_cannot_have_is_refused_by_name(value: str) -> None:
    with pytest.raises(RequestDeclined, match="NameID has characters"):
        worded("saml:NameID", f"a{value}")
    with pytest.raises(RequestDeclined, match="Name has characters"):
        element("saml:Attribute", {"Name": f"a{value}"})


def test_a_value_does_not_become_markup() -> None:
    written = element("saml:A", {"Name": '"><x a="'}, worded("saml:B", "</saml:B><x/>"), declared=True)
    root = etree.fromstring(written)
    assert [one.tag.rpartition("}")[2] for one in root.iter()] == ["A", "B"]
    assert (root.get("Name"), root[0].text) == ('"><x a="', "</saml:B><x/>")
    assert element("saml:A", {}, Markup("<b/>")) == "<saml:A><b/></saml:A>"


def test_an_address_is_signed_by_the_same_key() -> None:
    message = OurLogoutResponse(id="_x", issuer=SP, destination=SLO, in_response_to="_r", issued_at=_AT, status=Status.SUCCESS)
    address = write_logout(message, _signer(), relay_state="a b", redirect=True)
    signed, _, encoded = address.partition("?")[2].partition("&Signature=")
    assert b64decode(unquote(encoded)) == sign_octets(signed.encode(), _signer())
    assert private_key(pair().key) is private_key(pair().key)
