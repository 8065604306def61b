"""Read SAML documents of others. A document must be small and in UTF-8, and may have no document type, entities, comments or processing
instructions. Values are read from the places that the standard gives them, and never by a search through the document.
"""

import re
import zlib
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from lxml import etree

from adapters.saml.names import ASSERTION, DS, METADATA, POST_BINDING, PROTOCOL, REDIRECT_BINDING
from adapters.saml.signatures import is_signed, verified, verify_octets
from core.domain.errors import BadRequest
from core.domain.federation.saml.configurations import AcsEndpoint, Understood
from core.domain.federation.saml.messages import AuthnRequest
from core.domain.saml.entities import LONGEST_METADATA
from core.domain.saml.messages import (
    LONGEST_MESSAGE,
    Envelope,
    LogoutResponse,
    MessageHead,
    MessageRefused,
    RequestedContext,
    SamlBinding,
    SamlLogoutRequest,
    Status,
    moment,
)

Element = Any
_DECLARATION: Final = re.compile(
    rb"""(?:\xef\xbb\xbf)?\s*"""  # a byte order mark may come first
    rb"""<\?xml\s+version\s*=\s*["']1\.0["'](?:\s+encoding\s*=\s*["'](?i:utf-8)["'])?(?:\s+standalone\s*=\s*["'](?:yes|no)["'])?\s*\?>"""
)
_ENDS_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_MOST_ELEMENTS: Final = 500
_MOST_ATTRIBUTES: Final = 100
_SHORT: Final = 4096
_LONGEST_VALUE: Final = 1024
_LARGEST_KEY: Final = 16_384
_LARGEST_INDEX: Final = 65_535
_UPLOAD: Final = "Upload the service provider's metadata as XML in UTF-8, without a document type"


def short(envelope: Envelope) -> bytes | None:
    """The unpacked message, if it is short enough to be read within a fraction of a millisecond. None for a longer message, of which only
    the beginning is unpacked. Raises `MessageRefused`.
    """
    if len(envelope.packed) > _SHORT:
        return None
    document = unpacked(envelope, _SHORT)
    return document if len(document) <= _SHORT else None


def unpacked(envelope: Envelope, most: int = LONGEST_MESSAGE) -> bytes:
    """Raises `MessageRefused`."""
    try:
        packed = b64decode("".join(envelope.packed.split()), validate=True)
    except ValueError:
        raise MessageRefused("it is not base64") from None
    if envelope.binding is SamlBinding.POST:
        if _is_compressed(packed):
            raise MessageRefused("it is compressed", "With the POST binding, send base64 of the XML itself")
        document = packed
    else:
        try:
            inflating = zlib.decompressobj(-zlib.MAX_WBITS)
            document = inflating.decompress(packed, most + 1)
        except zlib.error:
            raise MessageRefused("it is not compressed by DEFLATE", "With the redirect binding, compress without a header") from None
        if len(document) <= most and (not inflating.eof or inflating.unused_data):
            raise MessageRefused("its compressed form is cut off, or has something behind it")
    if len(document) > LONGEST_MESSAGE:
        raise MessageRefused(f"it has more than {LONGEST_MESSAGE >> 10} KiB")
    return document


def _is_compressed(packed: bytes) -> bool:
    """Whether a message of the POST binding is compressed. Some libraries compress these messages by default. A message that begins with
    `<` or a byte order mark is not compressed.
    """
    if packed.lstrip()[:1] in {b"<", b"\xef"}:
        return False
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, 1) != b""
    except zlib.error:
        return False


def parsed(document: bytes, *, message: bool = True) -> Element:
    """The root. Raises `MessageRefused`."""
    found = _DECLARATION.match(document)
    rest = document[found.end() :] if found else document
    try:
        rest.decode("utf-8")
    except UnicodeDecodeError:
        raise MessageRefused("it is not in UTF-8") from None
    if _ENDS_TEXT.search(rest):
        raise MessageRefused("it has control characters")
    forbidden = (b"<!", b"<?") if message else (b"<!DOCTYPE", b"<!ENTITY", b"<!ELEMENT", b"<!ATTLIST", b"<!NOTATION")
    if any(one in rest for one in forbidden):
        raise MessageRefused("it has a document type, a comment, CDATA or a processing instruction", "Leave these out")
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        encoding="utf-8",
    )
    try:
        root = etree.fromstring(rest, parser)
    except (etree.XMLSyntaxError, ValueError):
        raise MessageRefused("it is not well-formed XML") from None
    if message:
        _require_few(root)
    return root


def _require_few(root: Element) -> None:
    for count, element in enumerate(root.iter()):
        if count >= _MOST_ELEMENTS:
            raise MessageRefused(f"it has more than {_MOST_ELEMENTS} elements")
        if len(element.attrib) > _MOST_ATTRIBUTES:
            raise MessageRefused(f"one of its elements has more than {_MOST_ATTRIBUTES} attributes")


def read_authn_request(envelope: Envelope, certificates: tuple[str, ...], document: bytes | None = None) -> AuthnRequest:
    root, head = _message(envelope, "AuthnRequest", certificates, document)
    policy = _one(root, PROTOCOL, "NameIDPolicy")
    subject = _one(root, ASSERTION, "Subject")
    name_id = None if subject is None else _one(subject, ASSERTION, "NameID")
    others = () if subject is None else (_one(subject, ASSERTION, name) for name in ("BaseID", "EncryptedID"))
    return AuthnRequest(
        head=head,
        acs_url=_attribute(root, "AssertionConsumerServiceURL"),
        acs_index=_attribute(root, "AssertionConsumerServiceIndex"),
        protocol_binding=_attribute(root, "ProtocolBinding"),
        force=_flag(root, "ForceAuthn"),
        passive=_flag(root, "IsPassive"),
        name_id_format=None if policy is None else _attribute(policy, "Format"),
        name_qualifier=None if policy is None else _attribute(policy, "SPNameQualifier"),
        subject=None if name_id is None else _text(name_id),
        subject_qualifier=None if name_id is None else _attribute(name_id, "SPNameQualifier"),
        unreadable_subject=any(one is not None for one in others),
        context=_context(root),
    )


def read_logout_request(envelope: Envelope, certificates: tuple[str, ...], document: bytes | None = None) -> SamlLogoutRequest:
    root, head = _message(envelope, "LogoutRequest", certificates, document)
    name_id = _one(root, ASSERTION, "NameID")
    if name_id is None:
        raise MessageRefused("it has no NameID", "Send the NameID of the assertion, unencrypted")
    return SamlLogoutRequest(
        head=head,
        name_id=_text(name_id),
        name_id_format=_attribute(name_id, "Format"),
        session_indexes=tuple(_text(one) for one in root.findall(f"{{{PROTOCOL}}}SessionIndex")),
        not_on_or_after=_attribute(root, "NotOnOrAfter"),
    )


def read_logout_response(envelope: Envelope, certificates: tuple[str, ...], document: bytes | None = None) -> LogoutResponse:
    root, head = _message(envelope, "LogoutResponse", certificates, document)
    status = _one(root, PROTOCOL, "Status")
    code = None if status is None else _one(status, PROTOCOL, "StatusCode")
    below = None if code is None else _one(code, PROTOCOL, "StatusCode")
    return LogoutResponse(
        head=head,
        in_response_to=_attribute(root, "InResponseTo"),
        status="" if code is None else _attribute(code, "Value") or "",
        partial=below is not None and _attribute(below, "Value") == Status.PARTIAL_LOGOUT.value,
    )


def read_metadata(document: bytes) -> Understood:
    """Raises `BadRequest`."""
    if len(document) > LONGEST_METADATA:
        raise BadRequest(f"metadata: more than {LONGEST_METADATA >> 10} KiB")
    try:
        root = parsed(document, message=False)
    except MessageRefused as refusal:
        raise BadRequest(f"metadata: {refusal.reason}. {_UPLOAD}") from None
    provider = _service_provider(root)
    entity = provider.getparent()
    certificates = {use: _certificates(provider, use) for use in ("signing", "encryption")}
    logout, binding = _logout(provider)
    return Understood(
        entity_id=entity.get("entityID") or "",
        acs_endpoints=tuple(_endpoints(provider)),
        valid_until=min(_ends(provider), default=None),
        slo_url=None if logout is None else logout.get("Location"),
        slo_response_url=None if logout is None else logout.get("ResponseLocation"),
        slo_binding=binding,
        name_id_formats=tuple("".join(one.itertext()).strip() for one in provider.findall(f"{{{METADATA}}}NameIDFormat")),
        signing_certificates=tuple(certificates["signing"]),
        encryption_certificate=next(iter(certificates["encryption"]), None),
        requests_signed=_boolean(provider, "AuthnRequestsSigned") is True,
        wants_assertions_signed=_boolean(provider, "WantAssertionsSigned") is True,
    )


def _message(envelope: Envelope, name: str, certificates: tuple[str, ...], document: bytes | None) -> tuple[Element, MessageHead]:
    """`document` is the unpacked message of the envelope, if the caller has unpacked it already."""
    root = parsed(unpacked(envelope) if document is None else document)
    if root.tag != f"{{{PROTOCOL}}}{name}":
        raise MessageRefused(f"it is no {name}")
    return root, _head(root, envelope, certificates)


def _head(root: Element, envelope: Envelope, certificates: tuple[str, ...]) -> MessageHead:
    signed = unverified = False
    if envelope.binding is SamlBinding.REDIRECT:
        if is_signed(root) and certificates:
            raise MessageRefused("its signature stands in the message", "With the redirect binding, put it into the address")
        if envelope.signature is not None and certificates:
            verify_octets(envelope.signed_octets, envelope.signature, envelope.algorithm, certificates)
            signed = True
        unverified = not signed and (envelope.signature is not None or is_signed(root))
    elif certificates:
        signed = verified(root, certificates)
    else:
        unverified = is_signed(root)
    issuer = _one(root, ASSERTION, "Issuer")
    if issuer is None:
        raise MessageRefused("it has no Issuer", "Send the service provider's entity id as Issuer")
    return MessageHead(
        id=_attribute(root, "ID") or "",
        version=_attribute(root, "Version") or "",
        issue_instant=_attribute(root, "IssueInstant") or "",
        destination=_attribute(root, "Destination") or None,
        issuer=_text(issuer),
        signed=signed,
        unverified=unverified,
    )


def _context(root: Element) -> RequestedContext | None:
    requested = _one(root, PROTOCOL, "RequestedAuthnContext")
    if requested is None:
        return None
    classes = tuple(_text(one) for one in requested.findall(f"{{{ASSERTION}}}AuthnContextClassRef"))
    return RequestedContext(classes=classes, comparison=_attribute(requested, "Comparison") or "exact")


def _one(parent: Element, namespace: str, name: str) -> Element | None:
    """The child of this name, or None. Raises `MessageRefused` when several children have this name."""
    found = list(parent.iterchildren(f"{{{namespace}}}{name}"))
    if len(found) > 1:
        raise MessageRefused(f"it has several {name}")
    return found[0] if found else None


def _text(element: Element) -> str:
    if len(element):
        raise MessageRefused("it has elements where text should be")
    return _bounded(element.text or "").strip()


def _attribute(element: Element, name: str) -> str | None:
    value = element.get(name)
    return None if value is None else _bounded(value)


def _bounded(text: str) -> str:
    if len(text) > _LONGEST_VALUE * 4:
        raise MessageRefused("one of its values is too long")
    return text


def _flag(root: Element, name: str) -> bool:
    said = _boolean(root, name)
    if said is None and root.get(name) is not None:
        raise MessageRefused(f"its {name} is neither true nor false")
    return said is True


def _boolean(element: Element, name: str) -> bool | None:
    """None when the element lacks the attribute, or the value is no boolean."""
    return {"true": True, "1": True, "false": False, "0": False}.get(element.get(name, "").strip())


def _service_provider(root: Element) -> Element:
    entities = [root] if root.tag == f"{{{METADATA}}}EntityDescriptor" else root.findall(f"{{{METADATA}}}EntityDescriptor")
    providers = [one for entity in entities for one in entity.findall(f"{{{METADATA}}}SPSSODescriptor")]
    ours = [one for one in providers if PROTOCOL in one.get("protocolSupportEnumeration", "").split()]
    if providers and not ours:
        raise BadRequest(f"metadata: there must be an SPSSODescriptor whose protocolSupportEnumeration lists {PROTOCOL}")
    if len(ours) != 1:
        raise BadRequest("metadata: there must be one EntityDescriptor with one SPSSODescriptor for SAML 2.0")
    return ours[0]


def _ends(provider: Element) -> Iterator[datetime]:
    """The times when the metadata end: `validUntil` of the provider's element and of each element around it."""
    for one in (provider, *provider.iterancestors()):
        text = one.get("validUntil")
        if text is None:
            continue
        at = moment(text.strip())
        if at is None:
            raise BadRequest("metadata: validUntil is no time in UTC, like 2026-01-31T12:00:00Z")
        yield at


def _endpoints(provider: Element) -> list[AcsEndpoint]:
    found = []
    for position, one in enumerate(provider.findall(f"{{{METADATA}}}AssertionConsumerService")):
        if one.get("Binding") != POST_BINDING:
            continue
        index = one.get("index", str(position)).strip()
        if not (index.isascii() and index.isdigit() and len(index) <= 5 and int(index) <= _LARGEST_INDEX):
            raise BadRequest(f"metadata: the index of an AssertionConsumerService is a number up to {_LARGEST_INDEX}")
        found.append(AcsEndpoint(int(index), one.get("Location") or "", is_default=_boolean(one, "isDefault")))
    return found


def _logout(provider: Element) -> tuple[Element | None, SamlBinding]:
    """The endpoint for logout messages and its binding. POST is preferred, because its messages are not limited by the length of a URL."""
    services = {one.get("Binding"): one for one in reversed(provider.findall(f"{{{METADATA}}}SingleLogoutService"))}
    if POST_BINDING in services:
        return services[POST_BINDING], SamlBinding.POST
    return services.get(REDIRECT_BINDING), SamlBinding.REDIRECT if REDIRECT_BINDING in services else SamlBinding.POST


def _certificates(provider: Element, use: str) -> list[str]:
    found: list[str] = []
    for descriptor in provider.findall(f"{{{METADATA}}}KeyDescriptor"):
        if descriptor.get("use", use) != use:
            continue
        for one in descriptor.findall(f"{{{DS}}}KeyInfo/{{{DS}}}X509Data/{{{DS}}}X509Certificate"):
            pem = certificate_pem("".join(one.itertext()))
            if pem not in found:
                found.append(pem)
    return found


def certificate_pem(text: str) -> str:
    """An RSA certificate of at least 2048 bits, in PEM. Raises `BadRequest`, also for keys that OpenSSL loads and never uses."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - for this alone
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate  # noqa: PLC0415

    try:
        certificate = load_der_x509_certificate(b64decode("".join(text.split()), validate=True))
        key = certificate.public_key()
    except (ValueError, InvalidVersion, UnsupportedAlgorithm):
        raise BadRequest("metadata: a certificate cannot be read") from None
    if not isinstance(key, RSAPublicKey) or not 2048 <= key.key_size <= _LARGEST_KEY:
        raise BadRequest(f"metadata: certificates must be for RSA keys of 2048 to {_LARGEST_KEY} bits")
    return certificate.public_bytes(Encoding.PEM).decode()
