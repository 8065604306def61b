"""Read the metadata of service providers."""

from typing import Any, Final

from adapters.saml.certificate_reading import rsa_certificate
from adapters.saml.metadata_reading import certificates_of, ends_of, name_id_formats_of, parsed_metadata
from adapters.saml.names import METADATA, POST_BINDING, PROTOCOL, REDIRECT_BINDING
from adapters.saml.parsing import boolean_of
from core.domain.errors import BadRequest
from core.domain.federation.saml.configurations import AcsEndpoint, Understood
from core.domain.saml import SamlBinding

Element = Any
_LARGEST_INDEX: Final = 65_535


def read_metadata(document: bytes) -> Understood:
    """Raises `BadRequest`."""
    provider = _service_provider(parsed_metadata(document, "the service provider's"))
    entity = provider.getparent()
    certificates = {use: [rsa_certificate(one) for one in certificates_of(provider, use)] for use in ("signing", "encryption")}
    logout, binding = _logout(provider)
    return Understood(
        entity_id=entity.get("entityID") or "",
        acs_endpoints=tuple(_endpoints(provider)),
        valid_until=min(ends_of(provider), default=None),
        slo_url=None if logout is None else logout.get("Location"),
        slo_response_url=None if logout is None else logout.get("ResponseLocation"),
        slo_binding=binding,
        name_id_formats=name_id_formats_of(provider),
        signing_certificates=tuple(dict.fromkeys(certificates["signing"])),
        encryption_certificate=next(iter(certificates["encryption"]), None),
        requests_signed=boolean_of(provider, "AuthnRequestsSigned") is True,
        wants_assertions_signed=boolean_of(provider, "WantAssertionsSigned") is True,
    )


def _service_provider(root: Element) -> Element:
    entities = [root] if root.tag == f"{{{METADATA}}}EntityDescriptor" else root.findall(f"{{{METADATA}}}EntityDescriptor")
    providers = [one for entity in entities for one in entity.findall(f"{{{METADATA}}}SPSSODescriptor")]
    ours = [one for one in providers if PROTOCOL in one.get("protocolSupportEnumeration", "").split()]
    if providers and not ours:
        raise BadRequest(
            f"metadata: there must be an SPSSODescriptor whose protocolSupportEnumeration lists {PROTOCOL}", words="metadata_unreadable"
        )
    if len(ours) != 1:
        raise BadRequest("metadata: there must be one EntityDescriptor with one SPSSODescriptor for SAML 2.0", words="metadata_unreadable")
    return ours[0]


def _endpoints(provider: Element) -> list[AcsEndpoint]:
    found = []
    for position, one in enumerate(provider.findall(f"{{{METADATA}}}AssertionConsumerService")):
        if one.get("Binding") != POST_BINDING:
            continue
        index = one.get("index", str(position)).strip()
        if not (index.isascii() and index.isdigit() and len(index) <= 5 and int(index) <= _LARGEST_INDEX):
            raise BadRequest(
                f"metadata: the index of an AssertionConsumerService is a number up to {_LARGEST_INDEX}", words="metadata_unreadable"
            )
        found.append(AcsEndpoint(int(index), one.get("Location") or "", is_default=boolean_of(one, "isDefault")))
    return found


def _logout(provider: Element) -> tuple[Element | None, SamlBinding]:
    """The endpoint for logout messages and its binding. POST is preferred, because its messages are not limited by the length of a URL."""
    services = {one.get("Binding"): one for one in reversed(provider.findall(f"{{{METADATA}}}SingleLogoutService"))}
    if POST_BINDING in services:
        return services[POST_BINDING], SamlBinding.POST
    return services.get(REDIRECT_BINDING), SamlBinding.REDIRECT if REDIRECT_BINDING in services else SamlBinding.POST
