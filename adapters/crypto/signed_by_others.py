"""Verifies JSON Web Tokens that clients and browsers sign (RFC 7515, RFC 7517): client assertions, DPoP proofs, and proofs of bound
sessions.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

import jwt
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, SECP384R1, EllipticCurve, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from core.domain.federation.oauth.clients import LONGEST_ASSERTION
from core.domain.federation.oauth.refusals import client_refused
from core.domain.formats import Json
from core.domain.identity.guards.bound_sessions import ALGORITHMS as BINDING_ALGORITHMS
from core.domain.identity.guards.bound_sessions import LONGEST_PROOF as LONGEST_BINDING_PROOF
from core.domain.identity.guards.bound_sessions import BindingProof, BindingProofRefused
from core.domain.key_proofs import ALGORITHMS, LONGEST_PROOF, KeyProofRefused, KeyThumbprint, ReadKeyProof

# The library checks the signature alone. The domain checks the claims, by the clock that the rest of the product uses.
SIGNATURE_ALONE: Final[Any] = {
    "require": [],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


SIGNATURE_ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_READERS: Final[Mapping[str, Any]] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
# Made keys are cached, because making a key of its published form costs as much as a sign-in's statement.
_MOST_READ: Final = 200


class NotSigned(Exception):
    """The token cannot be read, or its signature is not the key's. The message is for the log."""


def chosen_key(keys: Sequence[Mapping[str, Any]], name: Any) -> Mapping[str, Any] | None:
    """The key of this name. A token without a name is accepted only if there is a single key."""
    if name is None:
        return keys[0] if len(keys) == 1 else None
    return next((one for one in keys if one.get("kid") == name), None)


def signed_claims(token: str, key: Mapping[str, Any], algorithms: Mapping[str, Sequence[str]] = SIGNATURE_ALGORITHMS) -> Mapping[str, Any]:
    """The claims of a token that this key has signed. `algorithms` says which algorithms each kind of key may be used with. Raises
    `NotSigned`.

    A token names its key, and has no other say in its verification: keys inside a token are never used, and the key decides which
    algorithms are accepted. All keys are public keys, so the algorithms of HMAC are never accepted.
    """
    allowed = algorithms[key["kty"]]
    named = [key["alg"]] if key.get("alg") in allowed else list(allowed)
    try:
        public = _read(key["kty"], json.dumps(key))
        claims: Mapping[str, Any] = jwt.decode(token, public, algorithms=named, options=SIGNATURE_ALONE)
    # PyJWT raises ValueError for numbers that make no key.
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise NotSigned(str(error)) from None
    return claims


@lru_cache(maxsize=_MOST_READ)
def _read(kind: str, key: str) -> Any:
    return _READERS[kind].from_jwk(key)


class JwtClientAssertions:
    """Implements `ports.federation.oauth.ClientAssertions`. Keys inside the assertion are never used. The assertion's `kid` picks a
    stored key, and the stored key decides which algorithms are accepted.
    """

    def claimed_client(self, assertion: str) -> str:
        if len(assertion) > LONGEST_ASSERTION:
            raise client_refused("the assertion is too long")
        try:
            claims = jwt.decode(assertion, options={"verify_signature": False})
        except (jwt.PyJWTError, RecursionError, UnicodeError) as error:
            raise client_refused(f"the assertion cannot be read: {error}") from None
        return str(claims.get("sub"))

    def verify(self, assertion: str, keys: Mapping[str, Json], algorithms: Mapping[str, Sequence[str]]) -> Mapping[str, Json]:
        stored: Any = keys["keys"]
        try:
            # A client with one key may leave out `kid`. A client with several keys has a name for each, and must send the name.
            key = chosen_key(stored, jwt.get_unverified_header(assertion).get("kid"))
            if key is None:
                raise client_refused("the client has no such key")
            return signed_claims(assertion, key, algorithms)
        except (jwt.PyJWTError, NotSigned, ValueError, RecursionError) as error:
            raise client_refused(f"the assertion does not verify: {error}") from None


_BINDING_TYPE: Final = "dbsc+jwt"
_TYPE: Final = "dpop+jwt"
_PROOF: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
# The members of private and symmetric keys (RFC 7518 section 6, RFC 8037 section 2).
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
# What would name another key than `jwk`, or change how the proof is read (RFC 7515 section 4.1). Other members are ignored.
_MISLEADING: Final = ("jku", "x5u", "x5c", "x5t", "x5t#S256", "crit", "b64", "zip")
_CURVES: Final[Mapping[str, tuple[str, int, Callable[[], EllipticCurve]]]] = {
    "ES256": ("P-256", 32, SECP256R1),
    "ES384": ("P-384", 48, SECP384R1),
}
# In bytes. A smaller RSA key can be broken; a larger one costs too much processor time.
_SMALLEST_MODULUS: Final = 256
_LARGEST_MODULUS: Final = 512
_LARGEST_EXPONENT: Final = 4
_ED25519: Final = 32
_SHA256: Final = SHA256()
_DIGESTS: Final = {"ES256": ECDSA(_SHA256), "ES384": ECDSA(SHA384())}
_PKCS1: Final = PKCS1v15()
# RFC 7518 section 3.5: the salt is as long as the digest.
_PSS: Final = PSS(mgf=MGF1(_SHA256), salt_length=PSS.DIGEST_LENGTH)
# A client shows the same key with each request, and making a key of its numbers costs as much as checking a signature.
_MOST_KEYS: Final = 2_000

_Members = tuple[tuple[str, str], ...]


class JwtKeyProofs:
    """Implements `ports.crypto.KeyProofReader`.

    Reads DPoP proofs (RFC 9449 section 4.3). A proof names its own key, so every bound is checked before anything is computed with the key:
    its kind, its curve, its size, and that each number has one form, so that a key has one thumbprint.
    """

    def read(self, text: str) -> ReadKeyProof:
        found = None if len(text) > LONGEST_PROOF else _PROOF.fullmatch(text)
        if found is None:
            raise KeyProofRefused(f"DPoP: must be one signed JSON Web Token of at most {LONGEST_PROOF >> 10} KiB")
        algorithm, members = _named(found[1])
        try:
            key, thumbprint = _key(algorithm, members)
            _verify(algorithm, key, _bytes(found[3]), text.rpartition(".")[0].encode())
            claims = json.loads(_bytes(found[2]))
        # The library raises ValueError for numbers that make no key, such as a point that is on no curve.
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, RecursionError) as error:
            raise KeyProofRefused("DPoP: the key of the proof has not signed it", detail=str(error)[:200]) from None
        if not isinstance(claims, dict):
            raise KeyProofRefused("DPoP: the proof claims nothing")
        return ReadKeyProof(thumbprint, claims)


class JwtBindingProofs:
    """Implements `ports.crypto.BindingProofReader`.

    Proofs of browsers for their bound sessions (W3C Device Bound Session Credentials). Only the proof of a registration names its key.
    """

    def read(self, text: str) -> BindingProof:
        found = None if len(text) > LONGEST_BINDING_PROOF else _PROOF.fullmatch(text)
        if found is None:
            raise BindingProofRefused("no signed JSON Web Token of an accepted size")
        header, claims = _object(found[1]), _object(found[2])
        algorithm, jwk, challenge = header.get("alg"), header.get("jwk"), claims.get("jti")
        if header.get("typ") != _BINDING_TYPE or algorithm not in BINDING_ALGORITHMS or any(name in header for name in _MISLEADING):
            raise BindingProofRefused("another type, algorithm or kind of key")
        if not isinstance(challenge, str):
            raise BindingProofRefused("no challenge")
        if jwk is None:
            return BindingProof(algorithm, challenge, None)
        if not isinstance(jwk, dict) or not _PRIVATE.isdisjoint(jwk):
            raise BindingProofRefused("no public key")
        try:
            return BindingProof(algorithm, challenge, json.dumps(dict(_members(algorithm, jwk)), separators=(",", ":")))
        except KeyProofRefused as refusal:
            raise BindingProofRefused(refusal.message) from None

    def verify(self, text: str, algorithm: str, public_key: str) -> None:
        signed, _, signature = text.rpartition(".")
        try:
            key, _ = _key(algorithm, tuple(json.loads(public_key).items()))
            _verify(algorithm, key, _bytes(signature), signed.encode())
        # The library raises ValueError for numbers that make no key, such as a point that is on no curve.
        except (InvalidSignature, UnsupportedAlgorithm, ValueError):
            raise BindingProofRefused("the key has not signed it") from None


def _object(encoded: str) -> Mapping[str, Any]:
    try:
        read = json.loads(_bytes(encoded))
    except (ValueError, RecursionError):
        raise BindingProofRefused("not JSON") from None
    if not isinstance(read, dict):
        raise BindingProofRefused("no object")
    return read


def _verify(algorithm: str, key: Any, signature: bytes, signed: bytes) -> None:
    """The library that is asked here does what PyJWT would ask it for, at a third of the price. Raises `InvalidSignature`, `ValueError`."""
    if algorithm in _CURVES:
        _, length, _ = _CURVES[algorithm]
        if len(signature) != 2 * length:
            raise InvalidSignature
        # RFC 7518 section 3.4: both numbers in full length, one after the other.
        numbers = encode_dss_signature(int.from_bytes(signature[:length]), int.from_bytes(signature[length:]))
        key.verify(numbers, signed, _DIGESTS[algorithm])
    elif algorithm == "EdDSA":
        key.verify(signature, signed)
    else:
        key.verify(signature, signed, _PSS if algorithm == "PS256" else _PKCS1, _SHA256)


def _named(encoded: str) -> tuple[str, _Members]:
    """The algorithm, and the members of the key that make its thumbprint, in their order."""
    try:
        header = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        raise KeyProofRefused("DPoP: the header of the proof cannot be read") from None
    if not isinstance(header, dict) or header.get("typ") != _TYPE:
        raise KeyProofRefused(f"DPoP: the header's typ must be {_TYPE}")
    algorithm, jwk = header.get("alg"), header.get("jwk")
    if algorithm not in ALGORITHMS:
        raise KeyProofRefused(f"DPoP: alg must be one of {', '.join(ALGORITHMS)}")
    if any(name in header for name in _MISLEADING):
        raise KeyProofRefused("DPoP: the header names its key in jwk alone")
    if not isinstance(jwk, dict):
        raise KeyProofRefused("DPoP: jwk in the header must be the public key")
    if not _PRIVATE.isdisjoint(jwk):
        raise KeyProofRefused("DPoP: jwk contains a private key: it is known to others now, so make a new one")
    return algorithm, _members(algorithm, jwk)


def _members(algorithm: str, jwk: Mapping[str, Any]) -> _Members:
    kind, curve = jwk.get("kty"), jwk.get("crv")
    if algorithm in _CURVES:
        name, length, _ = _CURVES[algorithm]
        if (kind, curve) == ("EC", name):
            return (("crv", name), ("kty", "EC"), ("x", _number(jwk, "x", length, length)), ("y", _number(jwk, "y", length, length)))
    elif algorithm == "EdDSA":
        if (kind, curve) == ("OKP", "Ed25519"):
            return (("crv", "Ed25519"), ("kty", "OKP"), ("x", _number(jwk, "x", _ED25519, _ED25519)))
    elif kind == "RSA":
        exponent, modulus = _number(jwk, "e", 1, _LARGEST_EXPONENT), _number(jwk, "n", _SMALLEST_MODULUS, _LARGEST_MODULUS)
        return (("e", exponent), ("kty", "RSA"), ("n", modulus))
    raise KeyProofRefused("DPoP: jwk is no key for its alg: EC on P-256 or P-384, Ed25519, or RSA of 2048 to 4096 bits")


def _number(jwk: Mapping[str, Any], name: str, least: int, most: int) -> str:
    """A number in base64url (RFC 7518 section 6), of this many bytes and in its only form."""
    text = jwk.get(name)
    if isinstance(text, str) and len(text) <= 2 * most and text.isascii():
        try:
            number = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            number = b""
        is_short = name in {"n", "e"} and number[:1] == b"\0"
        if least <= len(number) <= most and not is_short and urlsafe_b64encode(number).rstrip(b"=").decode() == text:
            return text
    raise KeyProofRefused(f"DPoP: {name} of jwk does not follow RFC 7518, or its size is not accepted")


@lru_cache(maxsize=_MOST_KEYS)
def _key(algorithm: str, members: _Members) -> tuple[Any, KeyThumbprint]:
    """The key, and its thumbprint (RFC 7638)."""
    named = dict(members)
    written = json.dumps(named, separators=(",", ":")).encode()
    thumbprint = KeyThumbprint(urlsafe_b64encode(sha256(written).digest()).rstrip(b"=").decode())
    if algorithm in _CURVES:
        return EllipticCurvePublicNumbers(_int(named["x"]), _int(named["y"]), _CURVES[algorithm][2]()).public_key(), thumbprint
    if algorithm == "EdDSA":
        return Ed25519PublicKey.from_public_bytes(_bytes(named["x"])), thumbprint
    return RSAPublicNumbers(_int(named["e"]), _int(named["n"])).public_key(), thumbprint


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _int(text: str) -> int:
    return int.from_bytes(_bytes(text))
