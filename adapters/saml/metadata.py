"""Read the metadata of service providers and of directories, and the certificates of others: only the key and the dates count."""

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Certificate, InvalidVersion, load_der_x509_certificate, load_pem_x509_certificate

from adapters.saml.parsing import SIGNATURE, boolean_of, parsed, require_form, require_unique_ids, verifies
from adapters.saml.signing import DS, METADATA, OF_DIRECTORIES, POST_BINDING, PROTOCOL, REDIRECT_BINDING
from core.domain.errors import BadRequest
from core.domain.federation.saml.configurations import AcsEndpoint, Understood
from core.domain.identity.upstream.saml.assertions import MOST_CERTIFICATES, DirectoryCertificate, DirectoryEndpoint, DirectoryMetadata
from core.domain.saml import LONGEST_CERTIFICATE, LONGEST_METADATA, MessageRefused, SamlBinding, entity_id, moment
from core.frozen import Frozen

_SMALLEST_KEY: Final = 2048
_LARGEST_KEY: Final = 16_384
_SMALLEST_CURVE: Final = 256
_LONGEST_SUBJECT: Final = 200
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"


class WeakKey(BadRequest):
    """The key of a certificate is too short, or of a kind that is not taken."""


class TrustedCertificate(Frozen, kw_only=True):
    """A certificate of a connection, when an answer is verified."""

    pem: str
    fingerprint: str
    valid_from: datetime
    valid_until: datetime
    is_weak: bool


def rsa_certificate(base64: str) -> str:
    """An RSA certificate in metadata, as PEM. Raises `BadRequest`, also for keys that OpenSSL loads and never uses."""
    certificate = _loaded(base64, "metadata")
    key = certificate.public_key()
    if not isinstance(key, RSAPublicKey) or not _SMALLEST_KEY <= key.key_size <= _LARGEST_KEY:
        raise BadRequest(
            f"metadata: certificates must be for RSA keys of {_SMALLEST_KEY} to {_LARGEST_KEY} bits",
            words="certificate_key",
            values={"least": _SMALLEST_KEY, "most": _LARGEST_KEY},
        )
    return certificate.public_bytes(Encoding.PEM).decode()


def directory_certificate(base64: str, where: str = "metadata") -> DirectoryCertificate:
    """A certificate of a directory. `where` it stands, for the message. Raises `BadRequest` and `WeakKey`."""
    certificate = _loaded(base64, where)
    if _is_weak(certificate):
        raise WeakKey(
            f"{where}: a certificate must be for an RSA key of {_SMALLEST_KEY} to {_LARGEST_KEY} bits, or an elliptic curve of"
            f" {_SMALLEST_CURVE} bits or more. Make a new certificate in the directory"
        )
    subject = certificate.subject.rfc4514_string()
    return DirectoryCertificate(
        pem=certificate.public_bytes(Encoding.PEM).decode(),
        fingerprint=sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
        subject="".join(one if one.isprintable() else "\ufffd" for one in subject[:_LONGEST_SUBJECT]),
        valid_from=certificate.not_valid_before_utc,
        valid_until=certificate.not_valid_after_utc,
    )


def pasted_certificate(text: str) -> DirectoryCertificate:
    """A certificate in PEM or bare base64, with any line breaks. Raises `BadRequest`."""
    if len(text) > LONGEST_CERTIFICATE:
        raise BadRequest(
            f"certificate: more than {LONGEST_CERTIFICATE >> 10} KiB. Paste one certificate",
            words="certificate_long",
            values={"most": LONGEST_CERTIFICATE >> 10},
        )
    if "PRIVATE KEY" in text:
        raise BadRequest(
            "certificate: this is a private key. Nobody but the directory may have it: make a new one there, and paste its certificate",
            words="certificate_private",
        )
    if text.count(_BEGIN) > 1:
        raise BadRequest("certificate: there are several. Paste one certificate at a time", words="certificate_several")
    # Forms and files lose line breaks, or write them as two characters.
    bare = text.replace("\\n", "\n").replace("\\r", "\n")
    if _BEGIN in bare:
        bare = bare.partition(_BEGIN)[2].partition(_END)[0]
    return directory_certificate("".join(bare.split()), "certificate")


def _loaded(base64: str, where: str) -> Certificate:
    try:
        certificate = load_der_x509_certificate(b64decode(base64, validate=True))
        certificate.public_key()
        certificate.subject.rfc4514_string()
    except (ValueError, InvalidVersion, UnsupportedAlgorithm):
        raise BadRequest(f"{where}: a certificate cannot be read", words="certificate_unreadable") from None
    return certificate


def _is_weak(certificate: Certificate) -> bool:
    key = certificate.public_key()
    if isinstance(key, RSAPublicKey):
        return not _SMALLEST_KEY <= key.key_size <= _LARGEST_KEY
    return not isinstance(key, EllipticCurvePublicKey) or key.curve.key_size < _SMALLEST_CURVE


@lru_cache(maxsize=64)
def known_certificate(pem: str) -> TrustedCertificate:
    """A certificate that is stored for a connection."""
    certificate = load_pem_x509_certificate(pem.encode())
    return TrustedCertificate(
        pem=pem,
        fingerprint=sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
        valid_from=certificate.not_valid_before_utc.astimezone(UTC),
        valid_until=certificate.not_valid_after_utc.astimezone(UTC),
        is_weak=_is_weak(certificate),
    )


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


_LARGEST_INDEX: Final = 65_535


def read_metadata(document: bytes) -> Understood:
    """Raises `BadRequest`."""
    provider = _service_provider(parsed_metadata(document, "the service provider's"))
    entity = provider.getparent()
    certificates = {use: [rsa_certificate(one) for one in certificates_of(provider, use)] for use in ("signing", "encryption")}
    logout, binding = _logout(provider)
    return Understood(
        entity_id=entity.get("entityID") or "",
        acs_endpoints=tuple(_acs_endpoints(provider)),
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


def _acs_endpoints(provider: Element) -> list[AcsEndpoint]:
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
    sign_in = tuple(_directory_endpoints(provider, "SingleSignOnService"))
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
        sign_out=tuple(_directory_endpoints(provider, "SingleLogoutService")),
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


def _directory_endpoints(provider: Element, name: str) -> Iterator[DirectoryEndpoint]:
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
