"""Read the metadata of directories."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from adapters.saml.accepted import OF_DIRECTORIES
from adapters.saml.certificate_reading import WeakKey, directory_certificate, known_certificate
from adapters.saml.metadata_reading import certificates_of, ends_of, name_id_formats_of, parsed_metadata
from adapters.saml.names import METADATA, POST_BINDING, PROTOCOL, REDIRECT_BINDING
from adapters.saml.parsing import boolean_of
from adapters.saml.signatures import SIGNATURE, require_form, require_unique_ids, verifies
from core.domain.errors import BadRequest
from core.domain.identity.upstream.saml.assertions import MOST_CERTIFICATES, DirectoryCertificate, DirectoryEndpoint, DirectoryMetadata
from core.domain.saml import MessageRefused, SamlBinding, entity_id

Element = Any
_ENTITY: Final = f"{{{METADATA}}}EntityDescriptor"
_ENTITIES: Final = f"{{{METADATA}}}EntitiesDescriptor"
_PROVIDER: Final = f"{{{METADATA}}}IDPSSODescriptor"
_OTHER_SIDE: Final = f"{{{METADATA}}}SPSSODescriptor"
_MOST_ENTITIES: Final = 2000
_MOST_NAMED: Final = 5
_LONGEST_URL: Final = 2048
_BINDINGS: Final = {REDIRECT_BINDING: SamlBinding.REDIRECT, POST_BINDING: SamlBinding.POST}
# xs:duration, without negative ones.
_DURATION: Final = re.compile(
    r"P(?=.)(?:(\d{1,4})Y)?(?:(\d{1,5})M)?(?:(\d{1,6})D)?(?:T(?=.)(?:(\d{1,7})H)?(?:(\d{1,8})M)?(?:(\d{1,9})(?:\.\d+)?S)?)?"
)
_LENGTHS: Final = tuple(timedelta(seconds=one) for one in (365 * 86_400, 30 * 86_400, 86_400, 3600, 60, 1))


def read_directory(document: bytes, known: Sequence[str] = ()) -> DirectoryMetadata:
    """Raises `BadRequest`."""
    root = parsed_metadata(document, "the directory's")
    entity = _entity(root)
    provider = _provider(entity)
    named = entity_id(entity.get("entityID") or "")
    sign_in = tuple(_endpoints(provider, "SingleSignOnService"))
    if not sign_in:
        raise BadRequest(
            "metadata: there is no SingleSignOnService by HTTP-Redirect or HTTP-POST. Turn one on in the directory",
            words="metadata_no_redirect",
        )
    signing = certificates_of(provider, "signing")
    if not signing:
        raise BadRequest(
            "metadata: there is no certificate for signatures. Let the directory publish it, or paste it by itself",
            words="metadata_no_certificate",
        )
    if len(signing) > MOST_CERTIFICATES:
        raise BadRequest(f"metadata: at most {MOST_CERTIFICATES} certificates for signatures", words="metadata_too_much")
    return DirectoryMetadata(
        entity_id=named,
        sign_in=sign_in,
        sign_out=tuple(_endpoints(provider, "SingleLogoutService")),
        signing_certificates=_strong(signing) or (directory_certificate(signing[0]),),
        encryption_certificates=_strong(certificates_of(provider, "encryption")[:MOST_CERTIFICATES]),
        name_id_formats=name_id_formats_of(provider),
        wants_requests_signed=boolean_of(provider, "WantAuthnRequestsSigned") is True,
        valid_until=min(ends_of(provider), default=None),
        cache_for=min(_durations(provider), default=None),
        signed_by=_signed_by(root, entity, known),
        is_signed=any(one.find(SIGNATURE) is not None for one in {root, entity}),
    )


def _entity(root: Element) -> Element:
    """The one entity that is a directory."""
    if root.tag == _ENTITY:
        return root
    if root.tag != _ENTITIES:
        raise BadRequest(
            "metadata: this is no metadata of SAML. Download them from the directory, and upload the file as it is",
            words="metadata_unreadable",
        )
    entities = list(_all_entities(root))
    found = [one for one in entities if one.find(_PROVIDER) is not None]
    if len(found) == 1:
        return found[0]
    if not found:
        raise BadRequest(
            "metadata: none of the entities is a directory (IDPSSODescriptor). Upload the directory's own metadata",
            words="metadata_of_application",
        )
    names = ", ".join(one.get("entityID", "") for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    raise BadRequest(f"metadata: there are {len(found)} directories: {names}{more}. Upload the metadata of one", words="metadata_several")


def _all_entities(root: Element) -> Iterator[Element]:
    """The entities, also of lists within the list."""
    for count, one in enumerate(root.iter(_ENTITY)):
        if count >= _MOST_ENTITIES:
            raise BadRequest(
                f"metadata: more than {_MOST_ENTITIES} entities. Upload the metadata of one directory", words="metadata_several"
            )
        if all(around.tag == _ENTITIES for around in one.iterancestors()):
            yield one


def _provider(entity: Element) -> Element:
    providers = entity.findall(_PROVIDER)
    ours = [one for one in providers if PROTOCOL in one.get("protocolSupportEnumeration", "").split()]
    if len(ours) == 1:
        return ours[0]
    if ours:
        raise BadRequest("metadata: there must be one IDPSSODescriptor for SAML 2.0", words="metadata_unreadable")
    if providers:
        raise BadRequest(
            f"metadata: the directory does not speak SAML 2.0: its protocolSupportEnumeration must list {PROTOCOL}", words="metadata_saml_1"
        )
    if entity.find(_OTHER_SIDE) is not None:
        raise BadRequest(
            "metadata: these are the metadata of an application (SPSSODescriptor). Upload those of the directory",
            words="metadata_of_application",
        )
    raise BadRequest(
        "metadata: there is no directory (IDPSSODescriptor). Upload the metadata of the directory for sign-in by SAML 2.0",
        words="metadata_of_application",
    )


def _endpoints(provider: Element, name: str) -> Iterator[DirectoryEndpoint]:
    """The first endpoint of each binding that we speak."""
    seen = set()
    for one in provider.findall(f"{{{METADATA}}}{name}"):
        binding = _BINDINGS.get(one.get("Binding", ""))
        if binding is None or binding in seen:
            continue
        seen.add(binding)
        response = one.get("ResponseLocation")
        yield DirectoryEndpoint(binding, _url(one.get("Location", ""), name), None if response is None else _url(response, name))


def _url(text: str, name: str) -> str:
    """An address that a browser is sent to."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"https", "http"} and bool(parts.hostname) and not parts.username and not parts.fragment
    except ValueError:
        usable = False
    if not usable or len(text) > _LONGEST_URL or not text.isascii() or not text.isprintable() or " " in text:
        raise BadRequest(
            f"metadata: the Location of a {name} is no web address of up to {_LONGEST_URL} characters", words="metadata_unreadable"
        )
    return text


def _strong(certificates: Sequence[str]) -> tuple[DirectoryCertificate, ...]:
    """The certificates whose keys are strong enough. Directories go on publishing old ones."""
    found = []
    for one in certificates:
        with suppress(WeakKey):
            found.append(directory_certificate(one))
    return tuple(found)


def _durations(provider: Element) -> Iterator[timedelta]:
    for one in (provider, *provider.iterancestors()):
        text = one.get("cacheDuration")
        if text is None:
            continue
        found = _DURATION.fullmatch(text.strip())
        if found is None or not text.isascii():
            raise BadRequest(
                "metadata: cacheDuration is no duration, like P1D or PT8H. Correct it in the directory", words="metadata_unreadable"
            )
        yield sum((int(count) * length for count, length in zip(found.groups("0"), _LENGTHS, strict=True)), timedelta())


def _signed_by(root: Element, entity: Element, known: Sequence[str]) -> str | None:
    """The fingerprint of the known certificate that verifies a signature over the entity or over the whole document."""
    for one in dict.fromkeys((root, entity)):
        signatures = one.findall(SIGNATURE)
        if len(signatures) != 1:
            continue
        try:
            require_form(signatures[0], OF_DIRECTORIES)
            require_unique_ids(root)
        except MessageRefused:
            continue
        for pem in known:
            certificate = known_certificate(pem)
            if not certificate.is_weak and verifies(signatures[0], pem):
                return certificate.fingerprint
    return None
