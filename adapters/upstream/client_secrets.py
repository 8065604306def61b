"""Secrets of our client at further providers: kept as they are, or made of a private key for a few minutes, as Apple wants them."""

from datetime import datetime, timedelta
from typing import Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from core.domain.errors import BadRequest
from core.domain.identity.upstream.providers import ClientAtProvider, ClientSecretKind, FurtherSettings
from core.domain.secrets import Secret
from core.frozen import replace

# A clock there that is behind ours must not find the secret made in its future, nor one that is ahead find it ended.
_BEFORE: Final = timedelta(minutes=1)
_LASTS: Final = timedelta(minutes=5)


def made_secret(settings: FurtherSettings, client: ClientAtProvider, now: datetime) -> ClientAtProvider:
    """The client with the secret that goes to the provider. Raises `BadRequest` for a key that is none."""
    if settings.secret_kind is ClientSecretKind.TEXT:
        return client
    claims = {
        "iss": settings.team_id,
        "sub": client.client_id,
        "aud": settings.issuer or settings.token_url,
        "iat": int((now - _BEFORE).timestamp()),
        "exp": int((now + _LASTS).timestamp()),
    }
    signed = jwt.encode(claims, _key(client.secret), algorithm="ES256", headers={"kid": settings.key_id})
    return replace(client, secret=Secret(signed))


def _key(pem: Secret) -> EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise BadRequest("client_secret: no private key of P-256 in PEM, as the file that ends in .p8 has it", words="provider_key")
    return key
