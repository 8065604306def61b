"""A SAML service provider's addresses and certificates in a document. The endpoint takes them as the service provider's metadata, so the
document's fields are written as such metadata.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import Annotated, Any, Final

import msgspec

from core.domain.saml import SamlBinding
from entrypoints.http.machinery.fields import example
from entrypoints.http.routes.configuration.kinds import Fields

_BINDINGS: Final = {
    SamlBinding.POST: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST",
    SamlBinding.REDIRECT: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect",
}
_ARMOUR: Final = re.compile(r"-----(?:BEGIN|END) CERTIFICATE-----|\s+")
_LINE: Final = 64
_Pem = Annotated[str, example("-----BEGIN CERTIFICATE-----\nMIIC…\n-----END CERTIFICATE-----\n")]


class AcsAddress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address at which the service provider receives assertions."""

    index: int
    """The number by which requests may name this address."""
    url: str
    """The address."""
    is_default: bool = False
    """Whether assertions go here if a request names no address."""


class SamlServiceProvider(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses and certificates of a service provider."""

    entity_id: Annotated[str, example("https://crm.example.com/saml")]
    """The service provider's entity id, as in `saml`."""
    acs_endpoints: Sequence[AcsAddress]
    """All addresses that requests may name, by HTTP-POST."""
    slo_url: Annotated[str, example("https://crm.example.com/saml/slo")] | None = None
    """The service provider's address for sign-outs."""
    slo_response_url: str | None = None
    """The address for answers to sign-outs, if it is another one."""
    slo_binding: SamlBinding = SamlBinding.POST
    """The binding of both: `post` or `redirect`."""
    signing_certificates: Sequence[_Pem] = ()
    """The certificates in PEM by which the service provider signs its requests."""
    encryption_certificate: _Pem | None = None
    """The certificate in PEM that assertions are encrypted for. None: they are not encrypted."""


def metadata(fields: Fields) -> bytes:
    """The fields as metadata (SAML metadata, section 2.4.4)."""
    parts = [_key("signing", one) for one in fields.get("signing_certificates") or ()]
    if fields.get("encryption_certificate") is not None:
        parts.append(_key("encryption", fields["encryption_certificate"]))
    if fields.get("slo_url") is not None:
        binding = _BINDINGS[SamlBinding(fields.get("slo_binding") or SamlBinding.POST)]
        answers = "" if fields.get("slo_response_url") is None else f' ResponseLocation="{escape(fields["slo_response_url"])}"'
        parts.append(f'<md:SingleLogoutService Binding="{binding}" Location="{escape(fields["slo_url"])}"{answers}/>')
    for one in fields["acs_endpoints"]:
        named = f'Location="{escape(one["url"])}" index="{one["index"]}"'
        default = ' isDefault="true"' if one.get("is_default") else ""
        parts.append(f'<md:AssertionConsumerService Binding="{_BINDINGS[SamlBinding.POST]}" {named}{default}/>')
    return (
        f'<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#"'
        f' entityID="{escape(fields["entity_id"])}">'
        f'<md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">{"".join(parts)}</md:SPSSODescriptor>'
        "</md:EntityDescriptor>"
    ).encode()


def _key(use: str, pem: str) -> str:
    text = escape(_ARMOUR.sub("", pem))
    data = f"<ds:X509Data><ds:X509Certificate>{text}</ds:X509Certificate></ds:X509Data>"
    return f'<md:KeyDescriptor use="{use}"><ds:KeyInfo>{data}</ds:KeyInfo></md:KeyDescriptor>'


def stored_pem(pem: Any) -> str:
    """The certificate as it is stored, whatever its lines were."""
    text = _ARMOUR.sub("", pem)
    lines = "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"


def stored_endpoints(endpoints: Any) -> list[dict[str, Any]]:
    return [{"index": one["index"], "url": one["url"], "is_default": one.get("is_default") is True} for one in endpoints]
