"""Read what the metadata of service providers and directories have in common."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from adapters.saml.names import DS, METADATA
from adapters.saml.parsing import parsed
from core.domain.errors import BadRequest
from core.domain.saml import LONGEST_METADATA, MessageRefused, moment

Element = Any


def parsed_metadata(document: bytes, whose: str) -> Element:
    """The root. `whose` metadata it should be, for people. Raises `BadRequest`."""
    if len(document) > LONGEST_METADATA:
        raise BadRequest(
            f"metadata: more than {LONGEST_METADATA >> 10} KiB", words="metadata_long", values={"most": LONGEST_METADATA >> 10}
        )
    try:
        return parsed(document, message=False)
    except MessageRefused as refusal:
        raise BadRequest(
            f"metadata: {refusal.reason}. Upload {whose} metadata as XML in UTF-8, without a document type", words="metadata_unreadable"
        ) from None


def ends_of(provider: Element) -> Iterator[datetime]:
    """The times when the metadata end: `validUntil` of the provider's element and of each element around it."""
    for one in (provider, *provider.iterancestors()):
        text = one.get("validUntil")
        if text is None:
            continue
        at = moment(text.strip())
        if at is None:
            raise BadRequest("metadata: validUntil is no time in UTC, like 2026-01-31T12:00:00Z", words="metadata_unreadable")
        yield at


def name_id_formats_of(provider: Element) -> tuple[str, ...]:
    return tuple("".join(one.itertext()).strip() for one in provider.findall(f"{{{METADATA}}}NameIDFormat"))


def certificates_of(provider: Element, use: str) -> Sequence[str]:
    """The certificates for this use, in base64, each once. A descriptor without a use is for both."""
    found = [
        "".join("".join(one.itertext()).split())
        for descriptor in provider.findall(f"{{{METADATA}}}KeyDescriptor")
        if descriptor.get("use", use) == use
        for one in descriptor.findall(f"{{{DS}}}KeyInfo/{{{DS}}}X509Data/{{{DS}}}X509Certificate")
    ]
    return tuple(dict.fromkeys(found))
