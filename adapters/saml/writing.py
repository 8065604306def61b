"""Writes SAML documents, node by node: a value can never become markup. Text that XML cannot have is refused in words."""

import zlib
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import xmlsec
from lxml import etree

from adapters.saml.names import (
    ASSERTION,
    BASIC_NAME,
    BEARER,
    DS,
    METADATA,
    POST_BINDING,
    PROTOCOL,
    REDIRECT_BINDING,
    RSA_SHA256,
    URI_NAME,
)
from adapters.saml.signatures import bare, sign, sign_octets
from core.domain.federation.saml.messages import (
    ASSERTION_LIFETIME,
    SKEW,
    Assertion,
    NameId,
    OurLogoutRequest,
    OurLogoutResponse,
    OurMetadata,
    RequestDeclined,
    Response,
    Status,
)
from ports.federation.saml.documents import PrivateKey

Element = Any
_PREFIXES: Final[Any] = {"samlp": PROTOCOL, "saml": ASSERTION}


def write_response(response: Response, signer: PrivateKey, *, sign_assertion: bool, sign_response: bool, encrypt_for: str | None) -> str:
    root = _root("Response", response.id, response.issued_at, response.destination, response.in_response_to)
    issuer = _issuer(root, response.issuer)
    _status(root, response.status, response.message)
    if response.assertion is not None:
        assertion = _assertion(root, response.issuer, response.assertion, response.issued_at)
        if sign_assertion:
            sign(assertion, assertion[0], signer.certificate, signer.key.reveal())
        if encrypt_for is not None:
            _encrypt(root, assertion, encrypt_for)
    # An answer without an assertion has nothing else that could be trusted.
    if sign_response or response.assertion is None:
        sign(root, issuer, signer.certificate, signer.key.reveal())
    return b64encode(etree.tostring(root)).decode()


def write_logout(message: OurLogoutRequest | OurLogoutResponse, signer: PrivateKey, *, relay_state: str | None, redirect: bool) -> str:
    if isinstance(message, OurLogoutRequest):
        parameter = "SAMLRequest"
        root = _root("LogoutRequest", message.id, message.issued_at, message.destination, None)
        root.set("NotOnOrAfter", _time(message.issued_at + ASSERTION_LIFETIME))
        issuer = _issuer(root, message.issuer)
        _name_id(root, message.name_id)
        _child(root, PROTOCOL, "SessionIndex", message.session_index)
    else:
        parameter = "SAMLResponse"
        root = _root("LogoutResponse", message.id, message.issued_at, message.destination, message.in_response_to)
        issuer = _issuer(root, message.issuer)
        _status(root, message.status, "")
    if not redirect:
        sign(root, issuer, signer.certificate, signer.key.reveal())
        return b64encode(etree.tostring(root)).decode()
    return _address(message.destination, parameter, etree.tostring(root), relay_state, signer)


def write_metadata(metadata: OurMetadata, signer: PrivateKey | None) -> bytes:
    root = etree.Element(f"{{{METADATA}}}EntityDescriptor", nsmap={"md": METADATA, "ds": DS})
    root.set("entityID", metadata.entity_id)
    root.set("ID", metadata.id)
    if metadata.valid_until is not None:
        root.set("validUntil", _time(metadata.valid_until))
    provider = _child(root, METADATA, "IDPSSODescriptor")
    provider.set("WantAuthnRequestsSigned", "true" if metadata.wants_requests_signed else "false")
    provider.set("protocolSupportEnumeration", PROTOCOL)
    for certificate in metadata.certificates:
        descriptor = _child(provider, METADATA, "KeyDescriptor")
        descriptor.set("use", "signing")
        data = _child(_child(descriptor, DS, "KeyInfo"), DS, "X509Data")
        _child(data, DS, "X509Certificate", bare(certificate))
    for binding in (REDIRECT_BINDING, POST_BINDING):
        _endpoint(provider, "SingleLogoutService", binding, metadata.slo_url)
    for format_ in metadata.name_id_formats:
        _child(provider, METADATA, "NameIDFormat", format_.value)
    for binding in (REDIRECT_BINDING, POST_BINDING):
        _endpoint(provider, "SingleSignOnService", binding, metadata.sso_url)
    if signer is not None:
        # Before everything else (SAML metadata, section 2.3.2).
        sign(root, None, signer.certificate, signer.key.reveal())
    document: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
    return document


def _assertion(root: Element, issuer: str, said: Assertion, at: datetime) -> Element:
    assertion = _child(root, ASSERTION, "Assertion")
    assertion.set("ID", said.id)
    assertion.set("Version", "2.0")
    assertion.set("IssueInstant", _time(at))
    _issuer(assertion, issuer)
    ends = _time(at + ASSERTION_LIFETIME)
    subject = _child(assertion, ASSERTION, "Subject")
    _name_id(subject, said.name_id, said.audience)
    confirmation = _child(subject, ASSERTION, "SubjectConfirmation")
    confirmation.set("Method", BEARER)
    data = _child(confirmation, ASSERTION, "SubjectConfirmationData")
    data.set("Recipient", said.recipient)
    data.set("NotOnOrAfter", ends)
    if said.in_response_to is not None:
        data.set("InResponseTo", said.in_response_to)
    conditions = _child(assertion, ASSERTION, "Conditions")
    # Their clock may be behind ours.
    conditions.set("NotBefore", _time(at - SKEW))
    conditions.set("NotOnOrAfter", ends)
    _child(_child(conditions, ASSERTION, "AudienceRestriction"), ASSERTION, "Audience", said.audience)
    statement = _child(assertion, ASSERTION, "AuthnStatement")
    statement.set("AuthnInstant", _time(said.authenticated_at))
    statement.set("SessionIndex", said.session_index)
    statement.set("SessionNotOnOrAfter", _time(said.session_ends_at))
    _child(_child(statement, ASSERTION, "AuthnContext"), ASSERTION, "AuthnContextClassRef", said.context_class)
    if said.attributes:
        attributes = _child(assertion, ASSERTION, "AttributeStatement")
        for name, values in said.attributes.items():
            attribute = _child(attributes, ASSERTION, "Attribute")
            _set(attribute, "Name", name)
            attribute.set("NameFormat", URI_NAME if name.startswith(("urn:", "http://", "https://")) else BASIC_NAME)
            for value in values:
                _child(attribute, ASSERTION, "AttributeValue", value)
    return assertion


def _encrypt(root: Element, assertion: Element, certificate: str) -> None:
    """AES-256-GCM under a key of its own, which only the recipient's RSA key opens (RSA-OAEP)."""
    # With all its namespaces: the recipient may read it on its own.
    plain = etree.tostring(assertion, with_tail=False)
    root.remove(assertion)
    shell = _child(root, ASSERTION, "EncryptedAssertion")
    data = xmlsec.template.encrypted_data_create(
        shell, xmlsec.constants.TransformAes256Gcm, type=xmlsec.constants.TypeEncElement, ns="xenc"
    )
    xmlsec.template.encrypted_data_ensure_cipher_value(data)
    information = xmlsec.template.encrypted_data_ensure_key_info(data, ns="ds")
    key = xmlsec.template.add_encrypted_key(information, xmlsec.constants.TransformRsaOaep)
    xmlsec.template.encrypted_data_ensure_cipher_value(key)
    shell.append(data)
    try:
        manager = xmlsec.KeysManager()
        manager.add_key(xmlsec.Key.from_memory(certificate, xmlsec.constants.KeyDataFormatCertPem))
        context = xmlsec.EncryptionContext(manager)
        context.key = xmlsec.Key.generate(xmlsec.constants.KeyDataAes, 256, xmlsec.constants.KeyDataTypeSession)
        context.encrypt_binary(data, plain)
    except xmlsec.Error:
        # Some keys are well-formed and of no use, such as one whose modulus is even.
        raise RequestDeclined(Status.RESPONDER, "The service provider's key for encryption cannot be used") from None


def _address(destination: str, parameter: str, document: bytes, relay_state: str | None, signer: PrivateKey) -> str:
    deflating = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = b64encode(deflating.compress(document) + deflating.flush()).decode()
    pairs = [(parameter, packed)]
    if relay_state is not None:
        pairs.append(("RelayState", relay_state))
    pairs.append(("SigAlg", RSA_SHA256))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs)
    signature = b64encode(sign_octets(query.encode(), signer.key.reveal())).decode()
    return f"{destination}{'&' if '?' in destination else '?'}{query}&Signature={quote(signature, safe='')}"


def _root(name: str, id_: str, at: datetime, destination: str, in_response_to: str | None) -> Element:
    root = etree.Element(f"{{{PROTOCOL}}}{name}", nsmap=_PREFIXES)
    root.set("ID", id_)
    root.set("Version", "2.0")
    root.set("IssueInstant", _time(at))
    root.set("Destination", destination)
    if in_response_to is not None:
        root.set("InResponseTo", in_response_to)
    return root


def _issuer(parent: Element, entity_id: str) -> Element:
    return _child(parent, ASSERTION, "Issuer", entity_id)


def _status(root: Element, status: Status, message: str) -> None:
    element = _child(root, PROTOCOL, "Status")
    code = _child(element, PROTOCOL, "StatusCode")
    if status is Status.SUCCESS:
        code.set("Value", status.value)
        return
    partial = status is Status.PARTIAL_LOGOUT
    code.set("Value", Status.SUCCESS.value if partial else status.under.value)
    _child(code, PROTOCOL, "StatusCode").set("Value", status.value)
    if message:
        _child(element, PROTOCOL, "StatusMessage", message)


def _name_id(parent: Element, name_id: NameId, audience: str | None = None) -> None:
    element = _child(parent, ASSERTION, "NameID", name_id.text)
    element.set("Format", name_id.format.value)
    if audience is not None and name_id.format.short in {"persistent", "transient"}:
        element.set("SPNameQualifier", audience)


def _endpoint(provider: Element, name: str, binding: str, location: str) -> None:
    element = _child(provider, METADATA, name)
    element.set("Binding", binding)
    element.set("Location", location)


def _child(parent: Element, namespace: str, name: str, text: str | None = None) -> Element:
    element = etree.SubElement(parent, f"{{{namespace}}}{name}")
    if text is not None:
        try:
            element.text = text
        except ValueError:
            raise _not_xml(name) from None
    return element


def _set(element: Element, name: str, value: str) -> None:
    try:
        element.set(name, value)
    except ValueError:
        raise _not_xml(name) from None


def _not_xml(name: str) -> RequestDeclined:
    return RequestDeclined(Status.RESPONDER, f"{name} has characters that XML cannot have")


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
