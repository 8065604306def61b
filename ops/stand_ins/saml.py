"""SAML as the other side speaks it: certificates with their keys, and answers of a directory. XML is put together as text; xmlsec signs."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

import xmlsec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from lxml import etree

SAMLP: Final = "urn:oasis:names:tc:SAML:2.0:protocol"
SAML: Final = "urn:oasis:names:tc:SAML:2.0:assertion"
DS: Final = "http://www.w3.org/2000/09/xmldsig#"
NOW: Final = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
DIRECTORY: Final = "https://idp.example.com/entity"
CONNECTION: Final = "https://sso.example.com/saml/sp/0b5c"
ACS: Final = f"{CONNECTION}/acs"
REQUEST: Final = "_0123456789abcdef"
XENC: Final = "http://www.w3.org/2001/04/xmlenc#"
SUCCESS: Final = "urn:oasis:names:tc:SAML:2.0:status:Success"
PERSISTENT: Final = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
MAIL: Final = "urn:oid:0.9.2342.19200300.100.1.3"
GIVEN: Final = "urn:oid:2.5.4.42"
RSA_SHA256: Final = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
SHA256: Final = f"{XENC}sha256"
EXCLUSIVE: Final = "http://www.w3.org/2001/10/xml-exc-c14n#"
ENVELOPED: Final = f"{DS}enveloped-signature"
Change = Callable[[Any], None]


@dataclass(frozen=True)
class Pair:
    """A service provider's certificate and its key."""

    certificate: str
    key: str

    @property
    def bare(self) -> str:
        return "".join(line for line in self.certificate.splitlines() if not line.startswith("-----"))


def pair(name: str = "sp") -> Pair:
    """A pair of today that is made once in a run, since two primes take long. No two names have the same pair."""
    return _made_once(name)


@cache
def _made_once(name: str) -> Pair:
    now = datetime.now(UTC).replace(microsecond=0)
    return _certified(name, rsa.generate_private_key(65537, 2048), now - timedelta(hours=1), now + timedelta(seconds=10_000_000))


def _certified(name: str, key: Any, begins: datetime, ends: datetime) -> Pair:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(begins)
        .not_valid_after(ends)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM).decode(), private.decode())


def at(**shift: float) -> str:
    return (NOW + timedelta(**shift)).strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def made(name: str, kind: str = "rsa2048", begins: float = -10_000, ends: float = 10_000_000) -> Pair:
    """A certificate and its key, with the seconds from NOW to its dates."""
    key: Any
    if kind.startswith("rsa"):
        key = rsa.generate_private_key(65537, int(kind.removeprefix("rsa")))
    else:
        key = ec.generate_private_key({"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p192": ec.SECP192R1()}[kind])
    return _certified(name, key, NOW + timedelta(seconds=begins), NOW + timedelta(seconds=ends))


def directory() -> Pair:
    return made("directory")


def _said(attributes: Mapping[str, str | None]) -> str:
    return "".join(f' {name}="{value}"' for name, value in attributes.items() if value is not None)


def name_id(text: str = "p-1", format_: str | None = PERSISTENT, **more: str) -> str:
    return f"<saml:NameID{_said({'Format': format_, **more})}>{text}</saml:NameID>"


def confirmation(method: str = "urn:oasis:names:tc:SAML:2.0:cm:bearer", **changes: str | None) -> str:
    data = {"InResponseTo": REQUEST, "NotOnOrAfter": at(minutes=5), "Recipient": ACS, **changes}
    return f'<saml:SubjectConfirmation Method="{method}"><saml:SubjectConfirmationData{_said(data)}/></saml:SubjectConfirmation>'


def conditions(*audiences: str, inside: str = "", **changes: str | None) -> str:
    times = {"NotBefore": at(minutes=-1), "NotOnOrAfter": at(minutes=5), **changes}
    named = "".join(f"<saml:Audience>{one}</saml:Audience>" for one in audiences or (CONNECTION,))
    return f"<saml:Conditions{_said(times)}><saml:AudienceRestriction>{named}</saml:AudienceRestriction>{inside}</saml:Conditions>"


def statement(**changes: str | None) -> str:
    said = {"AuthnInstant": at(), "SessionIndex": "_s1", "SessionNotOnOrAfter": at(hours=8), **changes}
    context = "<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef>"
    return f"<saml:AuthnStatement{_said(said)}><saml:AuthnContext>{context}</saml:AuthnContext></saml:AuthnStatement>"


def attribute(name: str, *values: str, friendly: str | None = None) -> str:
    inside = "".join(f"<saml:AttributeValue>{value}</saml:AttributeValue>" for value in values)
    return f"<saml:Attribute{_said({'Name': name, 'FriendlyName': friendly})}>{inside}</saml:Attribute>"


ATTRIBUTES: Final = attribute(MAIL, "ada@example.com", friendly="mail") + attribute(GIVEN, "Ada") + attribute("groups", "staff", "math")


def assertion(
    *,
    name: str | None = None,
    confirmed: str | None = None,
    conditioned: str | None = None,
    stated: str | None = None,
    attributes: str = ATTRIBUTES,
    issuer: str | None = DIRECTORY,
    inside: str = "",
    **changes: str | None,
) -> str:
    head = {"ID": "_a1", "Version": "2.0", "IssueInstant": at(), **changes}
    named = "" if issuer is None else f"<saml:Issuer>{issuer}</saml:Issuer>"
    subject = f"<saml:Subject>{name_id() if name is None else name}{confirmation() if confirmed is None else confirmed}</saml:Subject>"
    told = f"<saml:AttributeStatement>{attributes}</saml:AttributeStatement>" if attributes else ""
    return (
        f'<saml:Assertion xmlns:saml="{SAML}"{_said(head)}>{named}{subject}{conditions() if conditioned is None else conditioned}'
        f"{statement() if stated is None else stated}{told}{inside}</saml:Assertion>"
    )


def response(
    content: str | None = None,
    *,
    status: str = f'<samlp:StatusCode Value="{SUCCESS}"/>',
    issuer: str | None = DIRECTORY,
    **changes: str | None,
) -> str:
    head = {"ID": "_r1", "Version": "2.0", "IssueInstant": at(), "Destination": ACS, "InResponseTo": REQUEST, **changes}
    named = "" if issuer is None else f"<saml:Issuer>{issuer}</saml:Issuer>"
    return (
        f'<samlp:Response xmlns:samlp="{SAMLP}" xmlns:saml="{SAML}"{_said(head)}>{named}<samlp:Status>{status}</samlp:Status>'
        f"{assertion() if content is None else content}</samlp:Response>"
    )


def template(reference: str, *, method: str = RSA_SHA256, digest: str = SHA256, certificate: Pair | None = None) -> Any:
    """A signature in SAML's form, without its values."""
    said = "" if certificate is None else f"<ds:X509Data><ds:X509Certificate>{certificate.bare}</ds:X509Certificate></ds:X509Data>"
    information = f"<ds:KeyInfo>{said}</ds:KeyInfo>" if said else ""
    return etree.fromstring(
        f'<ds:Signature xmlns:ds="{DS}"><ds:SignedInfo><ds:CanonicalizationMethod Algorithm="{EXCLUSIVE}"/>'
        f'<ds:SignatureMethod Algorithm="{method}"/><ds:Reference URI="{reference}"><ds:Transforms>'
        f'<ds:Transform Algorithm="{ENVELOPED}"/><ds:Transform Algorithm="{EXCLUSIVE}"/></ds:Transforms>'
        f'<ds:DigestMethod Algorithm="{digest}"/><ds:DigestValue/></ds:Reference></ds:SignedInfo><ds:SignatureValue/>{information}'
        "</ds:Signature>"
    )


def sign(
    element: Any,
    signer: Pair,
    *,
    method: str = RSA_SHA256,
    digest: str = SHA256,
    told: Pair | None = None,
    change: Change | None = None,
) -> None:
    """Signs an element of a document, behind its first child. `told` is the certificate in KeyInfo, if it is not the signer's. `change`
    gives the signature another form before its values are computed.
    """
    signature = template(f"#{element.get('ID')}", method=method, digest=digest, certificate=told or signer)
    element.insert(1, signature)
    if change is not None:
        change(signature)
    context = xmlsec.SignatureContext()
    context.key = xmlsec.Key.from_memory(signer.key, xmlsec.constants.KeyDataFormatPem)
    context.register_id(element, "ID")
    context.sign(signature)


def document(text: str) -> Any:
    return etree.fromstring(text.encode())


def written(root: Any) -> str:
    return str(etree.tostring(root), "utf-8")


def signed_assertion(text: str | None = None, signer: Pair | None = None, **more: Any) -> str:
    root = document(assertion() if text is None else text)
    sign(root, signer or directory(), **more)
    return written(root)


def packed(text: str | bytes) -> str:
    return b64encode(text.encode() if isinstance(text, str) else text).decode()
