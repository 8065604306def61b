"""Signs what is written here. It is written in its canonical form, so what XML Signature asks for is a digest over the text, and an RSA
signature over a few lines that name that digest. xmlsec, which checks what others have signed, would read, copy and canonicalize the
document for each signature, which takes as long as the signature itself.
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
from ports.federation.saml.documents import PrivateKey

# Before the digest is taken, the signature itself is left out (`ENVELOPED`), as it is not there yet.
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


# It is signed as if it stood alone, with its namespace.
_ALONE: Final = Mould(lambda reference, digest: _signed_info(reference, digest, alone=True))
_WITHIN: Final = Mould(lambda reference, digest: _signed_info(reference, digest, alone=False))


def signature(over: Markup, its_id: str, signer: PrivateKey) -> Markup:
    """Over a whole element, which becomes a part of that element."""
    reference, digest = f"#{its_id}", b64encode(sha256(over.encode()).digest()).decode()
    value = worded("ds:SignatureValue", b64encode(sign_octets(_ALONE(reference, digest).encode(), signer)).decode())
    within = _WITHIN(reference, digest)
    return element("ds:Signature", NOTHING, within, value, key_info(signer.certificate, declared=False), declared=True)


def sign_octets(octets: bytes, signer: PrivateKey) -> bytes:
    return _private_key(signer.key.reveal()).sign(octets, padding.PKCS1v15(), hashes.SHA256())


@lru_cache(maxsize=64)
def key_info(certificate: str, *, declared: bool) -> Markup:
    bare = "".join(line for line in certificate.splitlines() if line and not line.startswith("-----"))
    data = element("ds:X509Data", NOTHING, worded("ds:X509Certificate", bare))
    return element("ds:KeyInfo", NOTHING, data, declared=declared)


# The first signature with it takes twice as long as those that follow. As many as are signed with in a busy minute.
@lru_cache(maxsize=64)
def _private_key(pem: str) -> RSAPrivateKey:
    # It was made here, and sealed: to test its primes once more would take some thirty milliseconds.
    key = load_pem_private_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)  # noqa: S101 - `certificates.py` makes no other
    return key
