"""Hybrid keys: HPKE in base mode with KEM 0x647A (X-Wing), HKDF-SHA256 and AES-256-GCM (RFC 9180; draft-connolly-cfrg-xwing-kem)."""

from hashlib import shake_256
from importlib import import_module
from typing import Any, Final

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from ports.crypto import CannotOpen

SEED_BYTES: Final = 32
PUBLIC_BYTES: Final = 1184 + 32
# What the recipient needs of both (1088 + 32), and a key of 32 bytes with its tag.
SEALED_KEY_BYTES: Final = 1088 + 32 + 32 + 16
_ML_KEM_SEED_BYTES: Final = 64
_ML_KEM_PUBLIC_BYTES: Final = 1184


class NoHybridKeys(Exception):
    """The installed build of the library has no ML-KEM. It is loaded at first use. The message is one sentence for the operator."""


def public_half(seed: bytes) -> bytes:
    """Raises `NoHybridKeys`.

    X-Wing is X25519 together with ML-KEM-768: whoever records a sealed file today opens it later only by breaking both. The private half is
    the draft's seed of 32 bytes, from which SHAKE256 makes the seeds of ML-KEM and of X25519.
    """
    ml_kem, x25519 = _private_halves(seed)
    public: bytes = ml_kem.public_key().public_bytes_raw()
    return public + x25519.public_key().public_bytes_raw()


def seal_key(key: bytes, recipient: bytes, info: bytes) -> bytes:
    """Raises `NoHybridKeys`, and `ValueError` for a public half that is none.

    HPKE seals one key of 32 bytes and nothing else.
    """
    if len(recipient) != PUBLIC_BYTES:
        raise ValueError("not a hybrid key")
    hpke, ml_kem = _library()
    x25519 = X25519PublicKey.from_public_bytes(recipient[_ML_KEM_PUBLIC_BYTES:])
    try:
        public = hpke.MLKEM768X25519PublicKey(ml_kem.MLKEM768PublicKey.from_public_bytes(recipient[:_ML_KEM_PUBLIC_BYTES]), x25519)
        sealed: bytes = _suite(hpke).encrypt(key, public, info=info)
    except UnsupportedAlgorithm:
        raise _no_hybrid_keys() from None
    return sealed


def open_key(sealed: bytes, seed: bytes, info: bytes) -> bytes:
    """Raises `NoHybridKeys`, and `CannotOpen` for what was altered or sealed for another key."""
    hpke, _ = _library()
    try:
        private = hpke.MLKEM768X25519PrivateKey(*_private_halves(seed))
        key: bytes = _suite(hpke).decrypt(sealed, private, info=info)
    except (InvalidTag, ValueError):
        raise CannotOpen("altered, or sealed for another key") from None
    return key


def _private_halves(seed: bytes) -> tuple[Any, X25519PrivateKey]:
    """Section 5.2 of the draft, expandDecapsulationKey."""
    expanded = shake_256(seed).digest(_ML_KEM_SEED_BYTES + 32)
    _, ml_kem = _library()
    try:
        private = ml_kem.MLKEM768PrivateKey.from_seed_bytes(expanded[:_ML_KEM_SEED_BYTES])
    except UnsupportedAlgorithm:
        raise _no_hybrid_keys() from None
    return private, X25519PrivateKey.from_private_bytes(expanded[_ML_KEM_SEED_BYTES:])


def _suite(hpke: Any) -> Any:
    return hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


def _library() -> tuple[Any, Any]:
    """The modules `hpke` and `mlkem`. Raises `NoHybridKeys`."""
    try:
        hpke = import_module("cryptography.hazmat.primitives.hpke")
        ml_kem = import_module("cryptography.hazmat.primitives.asymmetric.mlkem")
    except (ImportError, AttributeError):  # an OpenSSL without ML-KEM leaves the names of `hpke` out
        raise _no_hybrid_keys() from None
    if not hasattr(hpke.KEM, "MLKEM768_X25519"):
        raise _no_hybrid_keys()
    return hpke, ml_kem


def _no_hybrid_keys() -> NoHybridKeys:
    return NoHybridKeys(
        "This build of the Python library `cryptography` has no ML-KEM. Install the version that Postern locks, or use X25519"
    )
