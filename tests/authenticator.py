"""An authenticator of the tests' own. It does what a browser and a security key do, and what a hostile authenticator might do."""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import urandom
from struct import pack
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

ORIGIN = "https://id.example.org"
PRESENT, VERIFIED, ELIGIBLE, BACKED_UP, ATTESTED = 0x01, 0x04, 0x08, 0x10, 0x40
GOOD = PRESENT | VERIFIED
ES256, EDDSA, RS256 = -7, -8, -257

Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def b64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def cbor(value: Any) -> bytes:
    """Encodes a value in CBOR (RFC 8949), as far as an authenticator needs it."""
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    assert isinstance(value, Mapping)
    return _head(5, len(value)) + b"".join(cbor(name) + cbor(inner) for name, inner in value.items())


def _head(kind: int, number: int) -> bytes:
    if number < 24:
        return bytes([kind << 5 | number])
    for more, size, form in ((24, 0x100, ">B"), (25, 0x10000, ">H"), (26, 0x100000000, ">I")):
        if number < size:
            return bytes([kind << 5 | more]) + pack(form, number)
    raise AssertionError(number)


@dataclass
class Passkey:
    """A key in an authenticator. `counts`: whether the authenticator counts signatures."""

    key: Key
    algorithm: int = ES256
    credential_id: bytes = field(default_factory=lambda: urandom(16))
    user_handle: bytes = b""
    aaguid: UUID = field(default_factory=lambda: UUID(int=0))
    flags: int = GOOD
    counts: bool = False
    counter: int = 0
    origin: str = ORIGIN
    relying_party: str = "id.example.org"

    @classmethod
    def made(cls, algorithm: int = ES256, **more: Any) -> "Passkey":
        key: Key
        if algorithm == RS256:
            key = rsa.generate_private_key(65537, 2048)
        elif algorithm == EDDSA:
            key = ed25519.Ed25519PrivateKey.generate()
        else:
            key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, algorithm, **more)

    def cose(self) -> dict[int, Any]:
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            point = self.key.public_key().public_numbers()
            return {1: 2, 3: self.algorithm, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
        if isinstance(self.key, rsa.RSAPrivateKey):
            numbers = self.key.public_key().public_numbers()
            return {1: 3, 3: self.algorithm, -1: numbers.n.to_bytes(self.key.key_size // 8, "big"), -2: numbers.e.to_bytes(3, "big")}
        raw = self.key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return {1: 1, 3: self.algorithm, -1: 6, -2: raw}

    def create(self, options: Mapping[str, Any], *, cose: Mapping[int, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The answer of `navigator.credentials.create`. `more` goes into the client data."""
        self.user_handle = unb64(options["user"]["id"])
        attested = self.aaguid.bytes + pack(">H", len(self.credential_id)) + self.credential_id + cbor(cose or self.cose())
        data = self._data(self.flags | ATTESTED) + attested
        return {
            "id": b64(self.credential_id),
            "rawId": b64(self.credential_id),
            "type": "public-key",
            "response": {
                "clientDataJSON": b64(self._client_data("webauthn.create", options["challenge"], more)),
                "attestationObject": b64(cbor({"fmt": "none", "attStmt": {}, "authData": data})),
                "transports": ["internal", "hybrid"],
            },
            "clientExtensionResults": {"credProps": {"rk": True}},
        }

    def get(self, options: Mapping[str, Any], *, user_handle: bytes | None = b"", **more: Any) -> dict[str, Any]:
        """The answer of `navigator.credentials.get`."""
        if self.counts:
            self.counter += 1
        data = self._data(self.flags)
        client_data = self._client_data("webauthn.get", options["challenge"], more)
        handle = self.user_handle if user_handle == b"" else user_handle
        return {
            "id": b64(self.credential_id),
            "rawId": b64(self.credential_id),
            "type": "public-key",
            "response": {
                "clientDataJSON": b64(client_data),
                "authenticatorData": b64(data),
                "signature": b64(self.sign(data + hashlib.sha256(client_data).digest())),
                **({} if handle is None else {"userHandle": b64(handle)}),
            },
            "clientExtensionResults": {},
        }

    def sign(self, message: bytes) -> bytes:
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            return self.key.sign(message, ec.ECDSA(hashes.SHA256()))
        if isinstance(self.key, rsa.RSAPrivateKey):
            return self.key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        return self.key.sign(message)

    def _data(self, flags: int) -> bytes:
        return hashlib.sha256(self.relying_party.encode()).digest() + pack(">BI", flags, self.counter)

    def _client_data(self, kind: str, challenge: str, more: Mapping[str, Any]) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False, **more}).encode()
