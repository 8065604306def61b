"""Signs the heads of exported chains. The key is derived from a random secret of the installation, so every process has the same key, and
the key never changes. No token is signed with this key, so that a program that checks only a signature cannot take a head for a token.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, derive_private_key
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from adapters.crypto.signing_keys import base64url, public_jwk, thumbprint
from core.domain.formats import Json
from ports.crypto import ServerSecrets

PURPOSE: Final = "siem_heads"
TYPE: Final = "postern-head+jwt"
# The number of points of P-256 (FIPS 186-5). A private key is at least 1, and less than this.
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_ES256: Final = ECDSA(SHA256())
_NUMBER: Final = 32


class Es256HeadSigner:
    """Implements `ports.crypto.HeadSigner`."""

    def __init__(self, server_secrets: ServerSecrets) -> None:
        self._server_secrets = server_secrets
        self._key: EllipticCurvePrivateKey | None = None

    async def sign(self, claims: Mapping[str, Json]) -> str:
        key = await self._private_key()
        header = {"alg": "ES256", "kid": thumbprint(public_jwk(key)), "typ": TYPE}
        signed = base64url(msgspec.json.encode(header)) + b"." + base64url(msgspec.json.encode(claims))
        r, s = decode_dss_signature(key.sign(signed, _ES256))
        return (signed + b"." + base64url(r.to_bytes(_NUMBER) + s.to_bytes(_NUMBER))).decode()

    async def public_key(self) -> Mapping[str, Json]:
        jwk = public_jwk(await self._private_key())
        return {**jwk, "kid": thumbprint(jwk), "use": "sig", "alg": "ES256"}

    async def _private_key(self) -> EllipticCurvePrivateKey:
        if self._key is None:
            secret = int.from_bytes(await self._server_secrets.get(PURPOSE))
            self._key = derive_private_key(secret % (_ORDER - 1) + 1, SECP256R1())
        return self._key
