"""Check the signatures of JSON Web Tokens that others have signed, with their public keys (RFC 7515, RFC 7517).

A token names its key, and has no other say in its verification: keys inside a token are never used, and the key decides which algorithms
are accepted. All keys are public keys, so the algorithms of HMAC are never accepted.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import jwt
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from adapters.crypto.jwt_options import SIGNATURE_ALONE

ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
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


def signed_claims(token: str, key: Mapping[str, Any], algorithms: Mapping[str, Sequence[str]] = ALGORITHMS) -> Mapping[str, Any]:
    """The claims of a token that this key has signed. `algorithms` says which algorithms each kind of key may be used with. Raises
    `NotSigned`.
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
