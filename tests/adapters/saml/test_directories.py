"""Answers in the forms that directories give them, as their documentation prints them, signed again with keys of tests; and what our own
identity provider, pysaml2 and SimpleSAMLphp really send.
"""

import warnings
from base64 import b64decode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import trio
import xmlsec

from adapters.saml.documents import XmlDocuments, XmlServiceProviderDocuments, XmlThreads
from adapters.saml.responses import read_response
from core.domain.federation.saml.messages import OurMetadata, Response, SamlAssertion
from core.domain.identity.upstream.connection_tests import Examination
from core.domain.identity.upstream.saml.assertions import (
    PRESETS,
    AttributeMapping,
    DirectoryPreset,
    OurAuthnRequest,
    ServiceProviderMetadata,
)
from core.domain.saml import Envelope, NameId, NameIdFormat, OurLogoutRequest, RequestedContext, SamlBinding, Status
from core.frozen import replace
from ops.stand_ins.saml import (
    ACS,
    CONNECTION,
    DIRECTORY,
    DS,
    ENVELOPED,
    EXCLUSIVE,
    NOW,
    REQUEST,
    RSA_SHA256,
    SAML,
    SAMLP,
    SHA256,
    XENC,
    at,
    directory,
    document,
    packed,
    pair,
    written,
)
from ports.identity.upstream import ServiceProviderDocuments
from tests.adapters.saml.answering import encrypted, expected, key_pair
from tests.simplesamlphp import EMAIL, SimpleSamlPhp, simplesamlphp
from tests.tools import needs

_SOAP: Final = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims"
_XS: Final = 'xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="xs:string"'
_BEARER: Final = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
_EMAIL_FORMAT: Final = NameIdFormat.EMAIL.value


def _signature(id_: str, prefix: str = "ds", *, inclusive: str = "", key_info: str = "", of_key_info: str | None = None) -> str:
    """A signature as a directory writes it, without its values."""
    before, declared = (f"{prefix}:", f":{prefix}") if prefix else ("", "")
    prefixes = f'<ec:InclusiveNamespaces xmlns:ec="{EXCLUSIVE}" PrefixList="{inclusive}"/>' if inclusive else ""
    certificate = f"<{before}X509Data><{before}X509Certificate>{directory().bare}</{before}X509Certificate></{before}X509Data>"
    information = of_key_info or f"<{before}KeyInfo>{key_info}{certificate}</{before}KeyInfo>"
    return (
        f'<{before}Signature xmlns{declared}="{DS}"><{before}SignedInfo><{before}CanonicalizationMethod Algorithm="{EXCLUSIVE}"/>'
        f'<{before}SignatureMethod Algorithm="{RSA_SHA256}"/><{before}Reference URI="#{id_}"><{before}Transforms>'
        f'<{before}Transform Algorithm="{ENVELOPED}"/><{before}Transform Algorithm="{EXCLUSIVE}">{prefixes}</{before}Transform>'
        f'</{before}Transforms><{before}DigestMethod Algorithm="{SHA256}"/><{before}DigestValue></{before}DigestValue></{before}Reference>'
        f"</{before}SignedInfo><{before}SignatureValue></{before}SignatureValue>{information}</{before}Signature>"
    )


def _computed(text: str) -> str:
    """With the values of its signatures, the inner one first."""
    root = document(text)
    for signature in reversed(root.findall(f".//{{{DS}}}Signature")):
        context = xmlsec.SignatureContext()
        context.key = xmlsec.Key.from_memory(directory().key, xmlsec.constants.KeyDataFormatPem)
        context.register_id(signature.getparent(), "ID")
        context.sign(signature)
    return written(root)


def _entra_id() -> str:
    claims = {
        "http://schemas.microsoft.com/identity/claims/tenantid": "8d2f0000-0000-0000-0000-000000000001",
        "http://schemas.microsoft.com/identity/claims/objectidentifier": "p-1",
        "http://schemas.microsoft.com/identity/claims/displayname": "Ada Lovelace",
        "http://schemas.microsoft.com/ws/2008/06/identity/claims/groups": "staff",
        f"{_SOAP}/givenname": "Ada",
        f"{_SOAP}/surname": "Lovelace",
        f"{_SOAP}/emailaddress": "ada@example.com",
        f"{_SOAP}/name": "ada@example.com",
    }
    told = "".join(f'<Attribute Name="{name}"><AttributeValue>{value}</AttributeValue></Attribute>' for name, value in claims.items())
    return (
        f'<samlp:Response ID="_r1" Version="2.0" IssueInstant="{at()[:-1]}.9124898Z" Destination="{ACS}" InResponseTo="{REQUEST}"'
        f' xmlns:samlp="{SAMLP}"><Issuer xmlns="{SAML}">{DIRECTORY}</Issuer><samlp:Status>'
        f'<samlp:StatusCode Value="{Status.SUCCESS.value}"/></samlp:Status>'
        f'<Assertion ID="_a1" IssueInstant="{at()[:-1]}.8974943Z" Version="2.0" xmlns="{SAML}"><Issuer>{DIRECTORY}</Issuer>'
        f'{_signature("_a1", "")}<Subject><NameID Format="{_EMAIL_FORMAT}">ada@example.com</NameID>'
        f'<SubjectConfirmation Method="{_BEARER}"><SubjectConfirmationData InResponseTo="{REQUEST}" NotOnOrAfter="{at(minutes=60)}"'
        f' Recipient="{ACS}"/></SubjectConfirmation></Subject><Conditions NotBefore="{at(minutes=-5)}" NotOnOrAfter="{at(minutes=60)}">'
        f"<AudienceRestriction><Audience>{CONNECTION}</Audience></AudienceRestriction></Conditions>"
        f'<AttributeStatement>{told}</AttributeStatement><AuthnStatement AuthnInstant="{at(minutes=-3)[:-1]}.303Z" SessionIndex="_a1">'
        "<AuthnContext><AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</AuthnContextClassRef></AuthnContext>"
        "</AuthnStatement></Assertion></samlp:Response>"
    )


def _okta(name_format: str = NameIdFormat.PERSISTENT.value, name: str = "p-1") -> str:
    """Both are signed, and values of the type `xs:string` need the prefix in the canonical form."""
    told = "".join(
        f'<saml2:Attribute Name="{one}" NameFormat="urn:oasis:names:tc:SAML:2.0:attrname-format:unspecified">'
        f"<saml2:AttributeValue {_XS}>{value}</saml2:AttributeValue></saml2:Attribute>"
        for one, value in {
            "email": "ada@example.com",
            "firstName": "Ada",
            "lastName": "Lovelace",
            "displayName": "Ada Lovelace",
            "groups": "staff",
        }.items()
    )
    entity = "urn:oasis:names:tc:SAML:2.0:nameid-format:entity"
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><saml2p:Response Destination="{ACS}" ID="id1" InResponseTo="{REQUEST}"'
        f' IssueInstant="{at()[:-1]}.216Z" Version="2.0" xmlns:saml2p="{SAMLP}" xmlns:xs="http://www.w3.org/2001/XMLSchema">'
        f'<saml2:Issuer Format="{entity}" xmlns:saml2="{SAML}">{DIRECTORY}</saml2:Issuer>{_signature("id1", inclusive="xs")}'
        f'<saml2p:Status xmlns:saml2p="{SAMLP}"><saml2p:StatusCode Value="{Status.SUCCESS.value}"/></saml2p:Status>'
        f'<saml2:Assertion ID="id2" IssueInstant="{at()[:-1]}.216Z" Version="2.0" xmlns:saml2="{SAML}"'
        f' xmlns:xs="http://www.w3.org/2001/XMLSchema"><saml2:Issuer Format="{entity}" xmlns:saml2="{SAML}">{DIRECTORY}</saml2:Issuer>'
        f'{_signature("id2", inclusive="xs")}<saml2:Subject xmlns:saml2="{SAML}"><saml2:NameID Format="{name_format}">{name}</saml2:NameID>'
        f'<saml2:SubjectConfirmation Method="{_BEARER}"><saml2:SubjectConfirmationData InResponseTo="{REQUEST}"'
        f' NotOnOrAfter="{at(minutes=5)[:-1]}.216Z" Recipient="{ACS}"/></saml2:SubjectConfirmation></saml2:Subject>'
        f'<saml2:Conditions NotBefore="{at(minutes=-5)[:-1]}.216Z" NotOnOrAfter="{at(minutes=5)[:-1]}.216Z" xmlns:saml2="{SAML}">'
        f"<saml2:AudienceRestriction><saml2:Audience>{CONNECTION}</saml2:Audience></saml2:AudienceRestriction></saml2:Conditions>"
        f'<saml2:AuthnStatement AuthnInstant="{at()[:-1]}.216Z" SessionIndex="{REQUEST}" xmlns:saml2="{SAML}"><saml2:AuthnContext>'
        "<saml2:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport</saml2:AuthnContextClassRef>"
        f'</saml2:AuthnContext></saml2:AuthnStatement><saml2:AttributeStatement xmlns:saml2="{SAML}">{told}</saml2:AttributeStatement>'
        "</saml2:Assertion></saml2p:Response>"
    )


def _keycloak() -> str:
    """The names of keys stand in Extensions and KeyInfo, with the bare key beside the certificate; each role is an attribute."""
    told = "".join(
        f'<saml:Attribute FriendlyName="{friendly}" Name="{one}" NameFormat="urn:oasis:names:tc:SAML:2.0:attrname-format:uri">'
        f"<saml:AttributeValue {_XS}>{value}</saml:AttributeValue></saml:Attribute>"
        for friendly, one, value in (
            ("email", "urn:oid:1.2.840.113549.1.9.1", "ada@example.com"),
            ("givenName", "urn:oid:2.5.4.42", "Ada"),
            ("surname", "urn:oid:2.5.4.4", "Lovelace"),
            ("groups", "member", "staff"),
            ("groups", "member", "math"),
        )
    )
    named = "<ds:KeyName>a-name</ds:KeyName>"
    bare = "<ds:KeyValue><ds:RSAKeyValue><ds:Modulus>AQAB</ds:Modulus><ds:Exponent>AQAB</ds:Exponent></ds:RSAKeyValue></ds:KeyValue>"
    return (
        f'<samlp:Response xmlns:samlp="{SAMLP}" xmlns:saml="{SAML}" Destination="{ACS}" ID="ID_r1" InResponseTo="{REQUEST}"'
        f' IssueInstant="{at()[:-1]}.780Z" Version="2.0"><saml:Issuer>{DIRECTORY}</saml:Issuer>{_signature("ID_r1", key_info=named + bare)}'
        '<samlp:Extensions><k:KeyInfo xmlns:k="urn:keycloak:ext:key:1.0" MessageSigningKeyId="a-name"/></samlp:Extensions>'
        f'<samlp:Status><samlp:StatusCode Value="{Status.SUCCESS.value}"/></samlp:Status>'
        f'<saml:Assertion xmlns="{SAML}" ID="ID_a1" IssueInstant="{at()[:-1]}.780Z" Version="2.0"><saml:Issuer>{DIRECTORY}</saml:Issuer>'
        f'{_signature("ID_a1", key_info=named)}<saml:Subject><saml:NameID Format="{NameIdFormat.PERSISTENT.value}">p-1</saml:NameID>'
        f'<saml:SubjectConfirmation Method="{_BEARER}"><saml:SubjectConfirmationData InResponseTo="{REQUEST}"'
        f' NotOnOrAfter="{at(minutes=5)[:-1]}.780Z" Recipient="{ACS}"/></saml:SubjectConfirmation></saml:Subject>'
        f'<saml:Conditions NotBefore="{at(seconds=-2)[:-1]}.780Z" NotOnOrAfter="{at(minutes=1)[:-1]}.780Z"><saml:AudienceRestriction>'
        f"<saml:Audience>{CONNECTION}</saml:Audience></saml:AudienceRestriction></saml:Conditions>"
        f'<saml:AuthnStatement AuthnInstant="{at()[:-1]}.781Z" SessionIndex="76b133c3::6e682540" SessionNotOnOrAfter="{at(hours=10)}">'
        "<saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified</saml:AuthnContextClassRef>"
        f"</saml:AuthnContext></saml:AuthnStatement><saml:AttributeStatement>{told}</saml:AttributeStatement></saml:Assertion></samlp:Response>"
    )


def _ad_fs() -> str:
    """The signature has a prefix, and its KeyInfo none."""
    of_key = f'<KeyInfo xmlns="{DS}"><ds:X509Data><ds:X509Certificate>{directory().bare}</ds:X509Certificate></ds:X509Data></KeyInfo>'
    claims = {
        "http://schemas.microsoft.com/ws/2008/06/identity/claims/primarysid": "p-1",
        f"{_SOAP}/emailaddress": "ada@example.com",
        f"{_SOAP}/givenname": "Ada",
        f"{_SOAP}/surname": "Lovelace",
        f"{_SOAP}/name": "Ada Lovelace",
        "http://schemas.xmlsoap.org/claims/Group": "staff",
    }
    text = _entra_id()
    begin, end = text.index("<AttributeStatement>"), text.index("</AttributeStatement>")
    told = "".join(f'<Attribute Name="{name}"><AttributeValue>{value}</AttributeValue></Attribute>' for name, value in claims.items())
    text = f"{text[:begin]}<AttributeStatement>{told}{text[end:]}"
    text = text.replace(_signature("_a1", ""), _signature("_a1", of_key_info=of_key))
    return text.replace("InResponseTo", 'Consent="urn:oasis:names:tc:SAML:2.0:consent:unspecified" InResponseTo', 1)


def _google() -> str:
    """The response is signed, its name is the address, and the request is named."""
    text = _okta(_EMAIL_FORMAT, "ada@example.com").replace(_signature("id2", inclusive="xs"), "")
    return text.replace('<saml2:Attribute Name="displayName"', '<saml2:Attribute Name="jobTitle"')


def _ping() -> str:
    """The assertion is signed, and the prefixes are the usual ones."""
    text = _okta().replace(_signature("id1", inclusive="xs"), "").replace("saml2p:", "samlp:").replace("saml2:", "saml:")
    return (
        text.replace("xmlns:saml2p", "xmlns:samlp")
        .replace("xmlns:saml2", "xmlns:saml")
        .removeprefix('<?xml version="1.0" encoding="UTF-8"?>')
    )


def _shibboleth() -> str:
    """The response is signed over an encrypted assertion, whose key stands behind the data."""
    told = "".join(
        f'<saml2:Attribute FriendlyName="{friendly}" Name="{one}" NameFormat="urn:oasis:names:tc:SAML:2.0:attrname-format:uri">'
        f"<saml2:AttributeValue>{value}</saml2:AttributeValue></saml2:Attribute>"
        for friendly, one, value in (
            ("mail", "urn:oid:0.9.2342.19200300.100.1.3", "ada@example.com"),
            ("givenName", "urn:oid:2.5.4.42", "Ada"),
            ("sn", "urn:oid:2.5.4.4", "Lovelace"),
            ("displayName", "urn:oid:2.16.840.1.113730.3.1.241", "Ada Lovelace"),
            ("isMemberOf", "urn:oid:1.3.6.1.4.1.5923.1.5.1.1", "staff"),
            (
                "eduPersonTargetedID",
                "urn:oid:1.3.6.1.4.1.5923.1.1.1.10",
                f'<saml2:NameID Format="{NameIdFormat.PERSISTENT.value}" NameQualifier="{DIRECTORY}">p-1</saml2:NameID>',
            ),
        )
    )
    qualified = f'NameQualifier="{DIRECTORY}" SPNameQualifier="{CONNECTION}"'
    inner = (
        f'<saml2:Assertion ID="_a1" IssueInstant="{at()[:-1]}.780Z" Version="2.0" xmlns:saml2="{SAML}">'
        f"<saml2:Issuer>{DIRECTORY}</saml2:Issuer><saml2:Subject>"
        f'<saml2:NameID Format="{NameIdFormat.PERSISTENT.value}" {qualified}>p-1</saml2:NameID>'
        f'<saml2:SubjectConfirmation Method="{_BEARER}"><saml2:SubjectConfirmationData Address="192.0.2.1" InResponseTo="{REQUEST}"'
        f' NotOnOrAfter="{at(minutes=5)}" Recipient="{ACS}"/></saml2:SubjectConfirmation></saml2:Subject>'
        f'<saml2:Conditions NotBefore="{at()}" NotOnOrAfter="{at(minutes=5)}"><saml2:AudienceRestriction><saml2:Audience>{CONNECTION}'
        f'</saml2:Audience></saml2:AudienceRestriction></saml2:Conditions><saml2:AuthnStatement AuthnInstant="{at()}" SessionIndex="_s1">'
        '<saml2:SubjectLocality Address="192.0.2.1"/><saml2:AuthnContext><saml2:AuthnContextClassRef>'
        "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport</saml2:AuthnContextClassRef></saml2:AuthnContext>"
        f"</saml2:AuthnStatement><saml2:AttributeStatement>{told}</saml2:AttributeStatement></saml2:Assertion>"
    )
    shell = encrypted(inner, beside=True, method=f"{XENC}aes128-cbc")
    return (
        f'<saml2p:Response Destination="{ACS}" ID="_r1" InResponseTo="{REQUEST}" IssueInstant="{at()}" Version="2.0"'
        f' xmlns:saml2p="{SAMLP}"><saml2:Issuer xmlns:saml2="{SAML}">{DIRECTORY}</saml2:Issuer>{_signature("_r1")}<saml2p:Status>'
        f'<saml2p:StatusCode Value="{Status.SUCCESS.value}"/></saml2p:Status>{shell}</saml2p:Response>'
    )


_FORMS: Final[dict[DirectoryPreset, Callable[[], str]]] = {
    DirectoryPreset.ENTRA_ID: _entra_id,
    DirectoryPreset.OKTA: _okta,
    DirectoryPreset.KEYCLOAK: _keycloak,
    DirectoryPreset.AD_FS: _ad_fs,
    DirectoryPreset.GOOGLE: _google,
    DirectoryPreset.PING: _ping,
    DirectoryPreset.SHIBBOLETH: _shibboleth,
}


@pytest.mark.parametrize("which", list(DirectoryPreset))
def test_each_directory_is_understood_by_its_preset(which: DirectoryPreset) -> None:
    text = _computed(_FORMS[which]())
    found = read_response(packed(text), expected(mapping=PRESETS[which].mapping))
    assert found.failed is None, found.failed
    assert found.asserting is not None
    person = found.asserting.person
    assert person.subject == ("ada@example.com" if which is DirectoryPreset.GOOGLE else "p-1")
    assert (person.email, person.given_name, person.family_name) == ("ada@example.com", "Ada", "Lovelace")
    assert person.groups == (("staff", "math") if which is DirectoryPreset.KEYCLOAK else ("staff",))
    assert person.name == ("" if which in {DirectoryPreset.GOOGLE, DirectoryPreset.KEYCLOAK} else "Ada Lovelace")
    # What was signed is what counts, also in these forms.
    changed = read_response(packed(text.replace(">ada@example.com<", ">eve@example.com<")), expected(mapping=PRESETS[which].mapping))
    assert changed.asserting is None or which is DirectoryPreset.SHIBBOLETH


def test_a_name_within_an_attribute_is_read() -> None:
    mapping = AttributeMapping(subject="urn:oid:1.3.6.1.4.1.5923.1.1.1.10")
    found = read_response(packed(_computed(_shibboleth())), expected(mapping=mapping))
    assert found.asserting is not None
    assert found.asserting.person.subject == "p-1"
    assert found.asserting.assertion.encrypted


async def test_our_own_identity_provider_is_understood() -> None:
    """Each combination of signatures and encryption, as it writes them."""
    documents, ours = XmlDocuments(XmlThreads(), trio.lowlevel.checkpoint), _service_provider()
    assertion = SamlAssertion(
        id="_a1",
        name_id=NameId(text="p-1", format=NameIdFormat.PERSISTENT),
        audience=CONNECTION,
        recipient=ACS,
        in_response_to=REQUEST,
        session_index="s",
        session_ends_at=NOW + timedelta(hours=8),
        authenticated_at=NOW,
        context_class="urn:oasis:names:tc:SAML:2.0:ac:classes:Password",
        attributes={"email": ["ada@example.com"], "groups": ["<&>", "math"]},
    )
    response = Response(
        id="_r1", issuer=DIRECTORY, destination=ACS, in_response_to=REQUEST, issued_at=NOW, status=Status.SUCCESS, assertion=assertion
    )
    mapping = AttributeMapping(email=("email",), groups=("groups",))
    for sign_assertion, sign_response in ((True, False), (False, True), (True, True)):
        for encrypt_for in (None, pair("ours").certificate):
            sent = await documents.write_response(
                response, key_pair(directory()), sign_assertion=sign_assertion, sign_response=sign_response, encrypt_for=encrypt_for
            )
            found = await ours.read_response(sent, expected(mapping=mapping))
            assert found.failed is None, found.failed
            assert found.asserting is not None
            assert found.asserting.person.groups == ("<&>", "math")
            assert found.encrypted is (encrypt_for is not None)
    declined = replace(response, status=Status.NO_PASSIVE, assertion=None, message="ada@example.com is not signed in")
    sent = await documents.write_response(declined, key_pair(directory()), sign_assertion=True, sign_response=True, encrypt_for=None)
    found = await ours.read_response(sent, expected())
    assert found.status == "NoPassive"
    assert found.failed is not None
    assert (found.failed.fault, found.failed.personal) == ("declined", True)
    assert "ada@" in found.failed.came
    assert "ada@" not in repr(found.failed.without_person())


async def test_our_own_request_and_metadata_are_understood_here() -> None:
    documents, ours = XmlDocuments(XmlThreads(), trio.lowlevel.checkpoint), _service_provider()
    address = await ours.write_authn_request(_request(force=True), key_pair(pair("ours")), relay_state="a b&c")
    envelope = _envelope(address)
    read = await documents.read_authn_request(envelope, (pair("ours").certificate,))
    assert (read.head.signed, read.head.issuer, read.acs_url, read.force, read.passive) == (True, CONNECTION, ACS, True, False)
    assert read.context is not None
    assert read.context.classes == ("urn:oasis:names:tc:SAML:2.0:ac:classes:Password",)
    understood = await documents.read_metadata(await ours.write_service_provider(_metadata(), key_pair(pair("ours"))))
    assert understood.entity_id == CONNECTION
    assert [one.url for one in understood.acs_endpoints] == [ACS]
    assert understood.requests_signed
    directory_of_ours = OurMetadata(
        id="_m",
        entity_id=DIRECTORY,
        sso_url=f"{DIRECTORY}/sso",
        slo_url=f"{DIRECTORY}/slo",
        certificates=(directory().certificate,),
        name_id_formats=tuple(NameIdFormat),
        wants_requests_signed=True,
        valid_until=None,
    )
    known = await ours.read_directory(await documents.write_metadata(directory_of_ours, key_pair(directory())), (directory().certificate,))
    assert (known.entity_id, known.address(SamlBinding.REDIRECT), known.wants_requests_signed) == (DIRECTORY, f"{DIRECTORY}/sso", True)
    assert known.signed_by == known.signing_certificates[0].fingerprint


def _service_provider() -> ServiceProviderDocuments:
    return XmlServiceProviderDocuments(XmlThreads(), trio.lowlevel.checkpoint)


def _request(destination: str = f"{DIRECTORY}/sso?tenant=1", at_: datetime = NOW, **more: Any) -> OurAuthnRequest:
    return OurAuthnRequest(
        id=REQUEST,
        issuer=CONNECTION,
        destination=destination,
        acs_url=ACS,
        issued_at=at_,
        context=RequestedContext(classes=("urn:oasis:names:tc:SAML:2.0:ac:classes:Password",)),
        **more,
    )


def _metadata() -> ServiceProviderMetadata:
    return ServiceProviderMetadata(
        id="_m1",
        entity_id=CONNECTION,
        acs_url=ACS,
        slo_url=f"{CONNECTION}/slo",
        signing_certificates=(pair("ours").certificate,),
        encryption_certificates=(pair("ours").certificate,),
        name_id_formats=(NameIdFormat.PERSISTENT.value,),
    )


def _envelope(address: str) -> Envelope:
    query = urlsplit(address).query.removeprefix("tenant=1&")
    fields = {name: values[0] for name, values in parse_qs(query).items()}
    name = query.partition("=")[0]
    signed = query[: query.index("&Signature=")]
    return Envelope(
        binding=SamlBinding.REDIRECT,
        packed=fields[name],
        relay_state=fields.get("RelayState"),
        signature=fields["Signature"],
        algorithm=fields["SigAlg"],
        signed_octets=signed.encode(),
    )


@pytest.fixture(scope="module")
def php(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleSamlPhp]:
    with simplesamlphp(tmp_path_factory.mktemp("simplesamlphp")) as running:
        yield running


@needs("php", "pwgen.php")
async def test_simplesamlphp_signs_people_in(php: SimpleSamlPhp) -> None:
    """For real: our metadata and request there, its metadata and answers here, in each form that it can give them."""
    ours = _service_provider()
    known = await ours.read_directory(await trio.to_thread.run_sync(php.metadata))
    assert known.entity_id == php.entity_id
    destination = known.address(SamlBinding.REDIRECT)
    assert destination is not None
    metadata = await ours.write_service_provider(_metadata(), None)
    for options in (
        {},
        {"saml20.sign.response": False},
        {"saml20.sign.assertion": False},
        {"assertion.encryption": True},
        {"assertion.encryption": True, "saml20.sign.assertion": False},
        {"nameid.encryption": True},
        {"signature.algorithm": "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512"},
    ):
        php.trust(metadata, **{"validate.authnrequest": True, "redirect.validate": True, **options})
        found = await _signed_in(php, ours, destination)
        assert found.failed is None, (options, found.failed)
        assert found.asserting is not None
        person = found.asserting.person
        assert (person.email, person.given_name, person.groups) == (EMAIL, "Ada", ("staff", "mathematicians"))
        assert found.encrypted is bool(options.get("assertion.encryption"))
    # It encrypts with AES-CBC in any case, which counts under a signature of the response alone.
    for options, fault in (
        ({"signature.algorithm": "http://www.w3.org/2000/09/xmldsig#rsa-sha1"}, "weak_algorithm"),
        ({"assertion.encryption": True, "saml20.sign.response": False}, "unprotected_cbc"),
    ):
        php.trust(metadata, **options)
        refused = await _signed_in(php, ours, destination)
        assert refused.failed is not None
        assert refused.failed.fault == fault
    php.trust(metadata)
    passive = await _signed_in(php, ours, destination, passive=True)
    assert (passive.status, passive.asserting) == ("NoPassive", None)


@needs("php", "pwgen.php")
async def test_simplesamlphp_begins_by_itself_and_signs_people_out(php: SimpleSamlPhp) -> None:
    ours = _service_provider()
    known = await ours.read_directory(await trio.to_thread.run_sync(php.metadata))
    php.trust(await ours.write_service_provider(_metadata(), None), **{"sign.logout": True, "validate.logout": True})
    begun = await trio.to_thread.run_sync(php.sign_in, f"{php.start_url}?spentityid={CONNECTION}")
    found = await ours.read_response(begun.fields["SAMLResponse"], expected(issuer=php.entity_id, request_id=None, now=datetime.now(UTC)))
    assert found.failed is not None
    assert found.failed.fault == "unsolicited"
    (destination,) = [one.url for one in known.sign_out if one.binding is SamlBinding.REDIRECT]
    with php.browser() as browser:
        signed_in = await _signed_in(php, ours, known.address(SamlBinding.REDIRECT) or "", browser=browser)
        assert signed_in.asserting is not None
        said = signed_in.asserting.assertion
        assert said.name_id is not None
        message = OurLogoutRequest(
            id="_l1",
            issuer=CONNECTION,
            destination=destination,
            issued_at=datetime.now(UTC),
            name_id=said.name_id,
            session_index=said.session_index,
        )
        address = await ours.write_logout(message, key_pair(pair("ours")), relay_state=None, redirect=True)
        back = await trio.to_thread.run_sync(php.sign_out, address, browser)
    assert back.startswith(f"{CONNECTION}/slo?SAMLResponse=")
    read = await ours.read_logout_response(_envelope(back), (php.certificate,))
    assert (read.well, read.in_response_to, read.head.issuer, read.head.signed) == (True, "_l1", php.entity_id, True)


async def _signed_in(
    php: SimpleSamlPhp, ours: ServiceProviderDocuments, destination: str, browser: httpx.Client | None = None, **more: Any
) -> Examination:
    now = datetime.now(UTC)
    request = replace(_request(destination, now, **more), context=None)
    address = await ours.write_authn_request(request, key_pair(pair("ours")), relay_state="where-we-were")
    posted = await trio.to_thread.run_sync(partial(php.sign_in, address, browser=browser))
    assert (posted.action, posted.fields["RelayState"]) == (ACS, "where-we-were")
    wanted = expected(
        issuer=php.entity_id,
        certificates=(php.certificate,),
        now=datetime.now(UTC),
        mapping=AttributeMapping(
            email=("urn:oid:0.9.2342.19200300.100.1.3",), given_name=("urn:oid:2.5.4.42",), groups=("urn:oid:1.3.6.1.4.1.5923.1.1.1.7",)
        ),
    )
    return await ours.read_response(posted.fields["SAMLResponse"], wanted)


@needs("xmlsec1")
async def test_pysaml2_as_a_directory_signs_people_in(tmp_path: Path) -> None:
    """The sequences of a Shibboleth directory, by another author's identity provider: it reads our metadata and request, and tells a
    persistent name and attributes of eduPerson.
    """
    ours = _service_provider()
    now = datetime.now(UTC)
    server = _pysaml2(tmp_path, await ours.write_service_provider(_metadata(), None))
    address = await ours.write_authn_request(_request(f"{DIRECTORY}/sso", now), key_pair(pair("ours")), relay_state=None)
    envelope = _envelope(address)
    asked = server.parse_authn_request(
        envelope.packed,
        "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect",
        sigalg=envelope.algorithm,
        signature=envelope.signature,
    )
    assert asked.message.issuer.text == CONNECTION
    assert asked.message.assertion_consumer_service_url == ACS
    identity = {"mail": ["ada@example.com"], "givenName": ["Ada"], "sn": ["Lovelace"], "eduPersonAffiliation": ["staff", "member"]}
    for options, fault in (
        ({"sign_assertion": True, "sign_response": False}, None),
        ({"sign_assertion": False, "sign_response": True}, None),
        ({"sign_assertion": True, "sign_response": True}, None),
        # It knows no better encryption than triple DES.
        (
            {"sign_assertion": True, "sign_response": True, "encrypt_assertion": True, "encrypted_advice_attributes": False},
            "weak_encryption",
        ),
    ):
        written_there = server.create_authn_response(
            identity,
            in_response_to=REQUEST,
            destination=ACS,
            sp_entity_id=CONNECTION,
            name_id=server.ident.persistent_nameid("ada", CONNECTION, DIRECTORY),
            authn={"class_ref": "urn:oasis:names:tc:SAML:2.0:ac:classes:Password", "authn_auth": DIRECTORY},
            sign_alg=RSA_SHA256,
            digest_alg=SHA256,
            **options,
        )
        found = await ours.read_response(
            packed(str(written_there)),
            expected(
                certificates=(pair("pysaml2").certificate,), now=datetime.now(UTC), mapping=PRESETS[DirectoryPreset.SHIBBOLETH].mapping
            ),
        )
        assert (None if found.failed is None else found.failed.fault) == fault, (options, found.failed)
        if fault is not None:
            continue
        assert found.asserting is not None
        assert (found.asserting.person.email, found.asserting.person.family_name) == ("ada@example.com", "Lovelace")


def _pysaml2(folder: Path, metadata: bytes) -> Any:
    with warnings.catch_warnings(action="ignore"):
        from saml2.config import IdPConfig  # noqa: PLC0415 - it is slow to import
        from saml2.server import Server  # noqa: PLC0415

    for name, content in {"key": pair("pysaml2").key, "certificate": pair("pysaml2").certificate}.items():
        (folder / name).write_text(content)
    (folder / "sp.xml").write_bytes(metadata)
    settings = {
        "entityid": DIRECTORY,
        "key_file": str(folder / "key"),
        "cert_file": str(folder / "certificate"),
        "metadata": {"local": [str(folder / "sp.xml")]},
        "service": {
            "idp": {
                "endpoints": {"single_sign_on_service": [(f"{DIRECTORY}/sso", "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect")]},
                "want_authn_requests_signed": True,
                "policy": {
                    "default": {"name_form": "urn:oasis:names:tc:SAML:2.0:attrname-format:uri", "lifetime": {"minutes": 5}},
                },
            }
        },
    }
    return Server(config=IdPConfig().load(settings))


def test_the_address_of_a_request_keeps_what_the_directory_has_put_into_it() -> None:
    """For directories whose address has a query of its own."""
    address = trio.run(lambda: _service_provider().write_authn_request(_request(), key_pair(pair("ours")), relay_state=None))
    assert address.startswith(f"{DIRECTORY}/sso?tenant=1&SAMLRequest=")
    assert b64decode(parse_qs(urlsplit(address).query)["SAMLRequest"][0])
