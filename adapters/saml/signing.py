"""Sign our own documents. They are written in canonical form, so XML Signature needs only a digest over the text, and an RSA signature over
a few lines that contain the digest. xmlsec verifies the signatures of others. For our own signatures it would parse, copy and canonicalize
the document each time, which takes as long as the signature itself.
"""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from adapters.saml.canonical import NOTHING, Markup, Mould, element, worded
from adapters.saml.names import ENVELOPED, EXCLUSIVE, RSA_SHA256, SHA256
from core.domain.saml import KeyPair

# `ENVELOPED` means that the digest does not cover the signature. The digest is taken before the signature is put into the document.
_METHODS: Final = (
    element("ds:CanonicalizationMethod", {"Algorithm": EXCLUSIVE}),
    element("ds:SignatureMethod", {"Algorithm": RSA_SHA256}),
)
_TRANSFORMS: Final = element(
    "ds:Transforms", NOTHING, element("ds:Transform", {"Algorithm": ENVELOPED}), element("ds:Transform", {"Algorithm": EXCLUSIVE})
)
_DIGEST: Final = element("ds:DigestMethod", {"Algorithm": SHA256})


def _signed_info(reference: str, digest: str, *, alone: bool) -> Markup:
    of = element("ds:Reference", {"URI": reference}, _TRANSFORMS, _DIGEST, worded("ds:DigestValue", digest))
    return element("ds:SignedInfo", NOTHING, *_METHODS, of, declared=alone)


# `SignedInfo` is signed as a document of its own, with its namespace declared. In the document, the element around it declares the
# namespace.
_ALONE: Final = Mould(lambda reference, digest: _signed_info(reference, digest, alone=True))
_WITHIN: Final = Mould(lambda reference, digest: _signed_info(reference, digest, alone=False))


def signature(over: Markup, its_id: str, signer: KeyPair) -> Markup:
    """The signature over the whole element `over`. The caller puts the signature into that element."""
    reference, digest = f"#{its_id}", b64encode(sha256(over.encode()).digest()).decode()
    value = worded("ds:SignatureValue", b64encode(sign_octets(_ALONE(reference, digest).encode(), signer)).decode())
    within = _WITHIN(reference, digest)
    return element("ds:Signature", NOTHING, within, value, key_info(signer.certificate, declared=False), declared=True)


def sign_octets(octets: bytes, signer: KeyPair) -> bytes:
    return private_key(signer.key.reveal()).sign(octets, padding.PKCS1v15(), hashes.SHA256())


@lru_cache(maxsize=64)
def key_info(certificate: str, *, declared: bool) -> Markup:
    bare = "".join(line for line in certificate.splitlines() if line and not line.startswith("-----"))
    data = element("ds:X509Data", NOTHING, worded("ds:X509Certificate", bare))
    return element("ds:KeyInfo", NOTHING, data, declared=declared)


# The first signature with a loaded key takes twice as long as later ones. The cache holds as many keys as sign in a busy minute.
@lru_cache(maxsize=64)
def private_key(pem: str) -> RSAPrivateKey:
    # `certificates.py` made the key, and it was kept sealed, so its primes need no further check, which would take some thirty
    # milliseconds.
    key = load_pem_private_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)  # noqa: S101 - `certificates.py` makes no other
    return key
