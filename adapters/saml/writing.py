"""Writes SAML documents as text, in their canonical form: an identity provider's, and a service provider's."""

import re
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Final
from urllib.parse import quote

from adapters.saml.signing import (
    BASIC_NAME,
    BEARER,
    NOTHING,
    POST_BINDING,
    PROTOCOL,
    REDIRECT_BINDING,
    RSA_SHA256,
    UNSPECIFIED_NAME,
    URI_NAME,
    XENC,
    XENC11,
    Markup,
    Mould,
    element,
    key_info,
    put_behind,
    sign_octets,
    signature,
    worded,
)
from core.domain.federation.saml.messages import OurMetadata, Response, SamlAssertion
from core.domain.identity.upstream.saml.assertions import OurAuthnRequest, ServiceProviderMetadata
from core.domain.saml import ASSERTION_LIFETIME, SKEW, DirectoryNameId, KeyPair, NameId, OurLogoutRequest, OurLogoutResponse, Status


def write_assertion(response: Response, signer: KeyPair | None) -> Markup | None:
    """Without a signer, the assertion has no signature of its own."""
    return None if response.assertion is None else _assertion(response.issuer, response.assertion, response.issued_at, signer)


def write_response(response: Response, assertion: Markup | None, signer: KeyPair | None) -> str:
    """The response in base64. `assertion` is plain or encrypted, and becomes a part of the response."""
    content = [issuer_element(response.issuer, declared=True), _status(response.status, response.message)]
    if assertion is not None:
        content.append(assertion)
    attributes = head_attributes(response.id, response.issued_at, response.destination, response.in_response_to)
    return _in_base64(whole("samlp:Response", attributes, content, signer))


def write_logout(message: OurLogoutRequest | OurLogoutResponse, signer: KeyPair, *, relay_state: str | None, redirect: bool) -> str:
    issuer = issuer_element(message.issuer, declared=True)
    if isinstance(message, OurLogoutRequest):
        parameter, name = "SAMLRequest", "samlp:LogoutRequest"
        ends = {"NotOnOrAfter": time_text(message.issued_at + ASSERTION_LIFETIME)}
        attributes = head_attributes(message.id, message.issued_at, message.destination, None) | ends
        content = [issuer, _name_id(message.name_id, message.audience, declared=True)]
        if message.session_index is not None:
            content.append(worded("samlp:SessionIndex", message.session_index))
    else:
        parameter, name = "SAMLResponse", "samlp:LogoutResponse"
        attributes = head_attributes(message.id, message.issued_at, message.destination, message.in_response_to)
        content = [issuer, _status(message.status, "")]
    if not redirect:
        return _in_base64(whole(name, attributes, content, signer))
    return signed_address(message.destination, parameter, whole(name, attributes, content, None), relay_state, signer)


def write_metadata(metadata: OurMetadata, signer: KeyPair | None) -> bytes:
    attributes = {"entityID": metadata.entity_id, "ID": metadata.id}
    if metadata.valid_until is not None:
        attributes["validUntil"] = time_text(metadata.valid_until)
    provider = {
        "WantAuthnRequestsSigned": "true" if metadata.wants_requests_signed else "false",
        "protocolSupportEnumeration": PROTOCOL,
    }
    keys = [element("md:KeyDescriptor", {"use": "signing"}, key_info(one, declared=True)) for one in metadata.certificates]
    logout = [endpoint("md:SingleLogoutService", binding, metadata.slo_url) for binding in (REDIRECT_BINDING, POST_BINDING)]
    formats = [worded("md:NameIDFormat", one.value) for one in metadata.name_id_formats]
    sign_in = [endpoint("md:SingleSignOnService", binding, metadata.sso_url) for binding in (REDIRECT_BINDING, POST_BINDING)]
    descriptor = element("md:IDPSSODescriptor", provider, *keys, *logout, *formats, *sign_in)
    return metadata_document(element("md:EntityDescriptor", attributes, descriptor, declared=True), metadata.id, signer)


def metadata_document(descriptor: Markup, its_id: str, signer: KeyPair | None) -> bytes:
    if signer is not None:
        # The signature comes before all other children (SAML metadata, section 2.3.2).
        descriptor = put_behind(Markup(""), signature(descriptor, its_id, signer), descriptor)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{descriptor}".encode()


def _assertion(issuer: str, said: SamlAssertion, at: datetime, signer: KeyPair | None) -> Markup:
    ends = time_text(at + ASSERTION_LIFETIME)
    if said.in_response_to is None:
        confirmed = _confirmation(said.recipient, ends)
    else:
        confirmed = _ASKED_CONFIRMATION(said.recipient, ends, said.in_response_to)
    content = [
        issuer_element(issuer),
        element("saml:Subject", NOTHING, _name_id(said.name_id, said.audience), confirmed),
        # The service provider's clock may be behind ours.
        _CONDITIONS(time_text(at - SKEW), ends, said.audience),
        _STATEMENT(time_text(said.authenticated_at), said.session_index, time_text(said.session_ends_at), said.context_class),
    ]
    if said.attributes:
        content.append(element("saml:AttributeStatement", NOTHING, *(_attribute(*one) for one in said.attributes.items())))
    return whole("saml:Assertion", {"ID": said.id, "Version": "2.0", "IssueInstant": time_text(at)}, content, signer)


def _confirmation(recipient: str, ends: str, in_response_to: str | None = None) -> Markup:
    data = {"Recipient": recipient, "NotOnOrAfter": ends}
    if in_response_to is not None:
        data["InResponseTo"] = in_response_to
    return element("saml:SubjectConfirmation", {"Method": BEARER}, element("saml:SubjectConfirmationData", data))


def _conditions(begins: str, ends: str, audience: str) -> Markup:
    restriction = element("saml:AudienceRestriction", NOTHING, worded("saml:Audience", audience))
    return element("saml:Conditions", {"NotBefore": begins, "NotOnOrAfter": ends}, restriction)


def _statement(at: str, session_index: str, session_ends_at: str, context_class: str) -> Markup:
    context = element("saml:AuthnContext", NOTHING, worded("saml:AuthnContextClassRef", context_class))
    authenticated = {"AuthnInstant": at, "SessionIndex": session_index, "SessionNotOnOrAfter": session_ends_at}
    return element("saml:AuthnStatement", authenticated, context)


_ASKED_CONFIRMATION: Final = Mould(_confirmation)
_CONDITIONS: Final = Mould(_conditions)
_STATEMENT: Final = Mould(_statement)


# xs:Name (XML 1.0, section 2.3): the characters that may begin a name. Later characters of a name may also be the additional ones.
_BEGINS_NAME: Final = (
    ":A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)


# Compiled at first use, since Python takes long over ranges of Unicode and most installations write no SAML.
@cache
def _xml_name() -> re.Pattern[str]:
    return re.compile(f"[{_BEGINS_NAME}][{_BEGINS_NAME}.0-9\u00b7\u0300-\u036f\u203f\u2040-]*")


def _attribute_format(name: str) -> str:
    """A basic name must be an xs:Name (SAML core, section 8.2.3)."""
    if name.startswith(("urn:", "http://", "https://")):
        return URI_NAME
    return BASIC_NAME if _xml_name().fullmatch(name) else UNSPECIFIED_NAME


def _attribute(name: str, values: Sequence[str]) -> Markup:
    attributes = {"Name": name, "NameFormat": _attribute_format(name)}
    return element("saml:Attribute", attributes, *(worded("saml:AttributeValue", one) for one in values))


def whole(name: str, attributes: Mapping[str, str], content: Sequence[Markup], signer: KeyPair | None) -> Markup:
    """The whole element. With a signer, its signature comes after its first child, the issuer."""
    unsigned = element(name, attributes, *content, declared=True)
    return unsigned if signer is None else put_behind(content[0], signature(unsigned, attributes["ID"], signer), unsigned)


def _in_base64(document: Markup) -> str:
    return b64encode(document.encode()).decode()


def signed_address(destination: str, parameter: str, document: Markup, relay_state: str | None, signer: KeyPair) -> str:
    deflating = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = b64encode(deflating.compress(document.encode()) + deflating.flush()).decode()
    pairs = [(parameter, packed)]
    if relay_state is not None:
        pairs.append(("RelayState", relay_state))
    pairs.append(("SigAlg", RSA_SHA256))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs)
    signed = b64encode(sign_octets(query.encode(), signer)).decode()
    return f"{destination}{'&' if '?' in destination else '?'}{query}&Signature={quote(signed, safe='')}"


def head_attributes(id_: str, at: datetime, destination: str, in_response_to: str | None) -> dict[str, str]:
    attributes = {"ID": id_, "Version": "2.0", "IssueInstant": time_text(at), "Destination": destination}
    if in_response_to is not None:
        attributes["InResponseTo"] = in_response_to
    return attributes


@lru_cache(maxsize=256)
def issuer_element(entity_id: str, *, declared: bool = False) -> Markup:
    return worded("saml:Issuer", entity_id, declared=declared)


_SUCCESS: Final = element("samlp:Status", NOTHING, element("samlp:StatusCode", {"Value": Status.SUCCESS.value}))


def _status(status: Status, message: str) -> Markup:
    if status is Status.SUCCESS:
        return _SUCCESS
    above = Status.SUCCESS if status is Status.PARTIAL_LOGOUT else status.under
    code = element("samlp:StatusCode", {"Value": above.value}, element("samlp:StatusCode", {"Value": status.value}))
    return element("samlp:Status", NOTHING, code, *([worded("samlp:StatusMessage", message)] if message else []))


def _name_id(name_id: NameId | DirectoryNameId, audience: str | None = None, *, declared: bool = False) -> Markup:
    if isinstance(name_id, DirectoryNameId):
        said = {"Format": name_id.format, "NameQualifier": name_id.name_qualifier, "SPNameQualifier": name_id.sp_name_qualifier}
        return worded("saml:NameID", name_id.text, {key: value for key, value in said.items() if value is not None}, declared=declared)
    attributes = {"Format": name_id.format.value}
    if audience is not None and name_id.format.short in {"persistent", "transient"}:
        attributes["SPNameQualifier"] = audience
    return worded("saml:NameID", name_id.text, attributes, declared=declared)


def endpoint(name: str, binding: str, location: str) -> Markup:
    return element(name, {"Binding": binding, "Location": location})


def time_text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


# Directories take the first method that they know.
_ENCRYPTION: Final = tuple(
    element("md:EncryptionMethod", {"Algorithm": uri}) for uri in (f"{XENC11}aes256-gcm", f"{XENC11}aes128-gcm", f"{XENC}rsa-oaep-mgf1p")
)


def write_authn_request(request: OurAuthnRequest, signer: KeyPair, *, relay_state: str | None) -> str:
    attributes = head_attributes(request.id, request.issued_at, request.destination, None) | {
        "AssertionConsumerServiceURL": request.acs_url,
        "ProtocolBinding": POST_BINDING,
    }
    # Some directories misread a false one.
    if request.force:
        attributes["ForceAuthn"] = "true"
    if request.passive:
        attributes["IsPassive"] = "true"
    content = [issuer_element(request.issuer, declared=True)]
    if request.name_id_format is not None:
        content.append(element("samlp:NameIDPolicy", {"AllowCreate": "true", "Format": request.name_id_format}))
    if request.context is not None:
        classes = (worded("saml:AuthnContextClassRef", one, declared=True) for one in request.context.classes)
        content.append(element("samlp:RequestedAuthnContext", {"Comparison": request.context.comparison}, *classes))
    return signed_address(request.destination, "SAMLRequest", whole("samlp:AuthnRequest", attributes, content, None), relay_state, signer)


def write_service_provider(metadata: ServiceProviderMetadata, signer: KeyPair | None) -> bytes:
    attributes = {"entityID": metadata.entity_id, "ID": metadata.id}
    if metadata.valid_until is not None:
        attributes["validUntil"] = time_text(metadata.valid_until)
    keys = [_key("signing", one) for one in metadata.signing_certificates]
    keys += [_key("encryption", one, *_ENCRYPTION) for one in metadata.encryption_certificates]
    logout = [endpoint("md:SingleLogoutService", binding, metadata.slo_url) for binding in (REDIRECT_BINDING, POST_BINDING)]
    formats = [worded("md:NameIDFormat", one) for one in metadata.name_id_formats]
    consumer = element(
        "md:AssertionConsumerService",
        {"Binding": POST_BINDING, "Location": metadata.acs_url, "index": "0", "isDefault": "true"},
    )
    wants = {"AuthnRequestsSigned": "true", "WantAssertionsSigned": "true", "protocolSupportEnumeration": PROTOCOL}
    descriptor = element("md:SPSSODescriptor", wants, *keys, *logout, *formats, consumer)
    return metadata_document(element("md:EntityDescriptor", attributes, descriptor, declared=True), metadata.id, signer)


def _key(use: str, certificate: str, *methods: Markup) -> Markup:
    return element("md:KeyDescriptor", {"use": use}, key_info(certificate, declared=True), *methods)
