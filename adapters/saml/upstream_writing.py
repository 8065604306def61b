"""Writes the documents of a service provider as text, in their canonical form."""

from typing import Final

from adapters.saml.canonical import Markup, element, worded
from adapters.saml.names import POST_BINDING, PROTOCOL, REDIRECT_BINDING, XENC, XENC11
from adapters.saml.signing import key_info
from adapters.saml.writing import endpoint, head_attributes, issuer_element, metadata_document, signed_address, time_text, whole
from core.domain.identity.upstream.saml.assertions import OurAuthnRequest, ServiceProviderMetadata
from core.domain.saml import KeyPair

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
