"""Read certificates of others. Of a certificate, only the key and the dates count."""

from base64 import b64decode
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Certificate, InvalidVersion, load_der_x509_certificate, load_pem_x509_certificate

from core.domain.errors import BadRequest
from core.domain.identity.upstream.saml.assertions import DirectoryCertificate
from core.domain.saml import LONGEST_CERTIFICATE
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
