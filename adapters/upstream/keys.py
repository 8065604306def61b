"""Verify ID tokens with the keys that providers publish. A token names its key, and has no other say in its verification: the key decides
which algorithms are accepted. All keys are public keys, so the algorithms of HMAC are never accepted.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import jwt
import msgspec
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.utils import base64url_decode

from adapters.crypto.jwt_options import SIGNATURE_ALONE
from adapters.upstream.calls import Calls, has_too_many_values
from adapters.upstream.remembered import FRESH_FOR, PublishedAnswers
from core.domain.identity.upstream.claims import NotVouched

LONGEST_TOKEN: Final = 32 << 10
MOST_KEYS: Final = 100
# The modulus of an RSA key of 8192 bits, in base64url.
LONGEST_MEMBER: Final = 1366
# An exponent of four bytes in base64url. With a long exponent, verifying one signature would take ten milliseconds.
LONGEST_EXPONENT: Final = 6
_MEMBERS: Final = ("kty", "kid", "alg", "n", "e", "crv", "x", "y")
# In seconds. A token with an unknown key, or with a signature that does not verify, makes us fetch the keys again, but not more often than
# this.
LOOKED_AGAIN_AFTER: Final = 30.0
_ALGORITHMS: Final[Mapping[str, tuple[Any, tuple[str, ...]]]] = {
    "RSA": (RSAAlgorithm, ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
    "EC": (ECAlgorithm, ("ES256", "ES384", "ES512")),
    "OKP": (OKPAlgorithm, ("EdDSA",)),
}
# Made keys are cached, because making a key of its published form costs as much as a sign-in's statement.
MOST_READ: Final = 200
Keys = Sequence[Mapping[str, str]]


class ProviderKeys:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._sets = PublishedAnswers(self._fetched)

    async def look(self, jwks_url: str, *, at_attempt: bool = False) -> None:
        """Fetch the keys, as `PublishedAnswers.look` does. Raises the error of that call."""
        await self._sets.look(jwks_url, at_attempt=at_attempt)

    async def verified(self, token: str, jwks_url: str) -> Mapping[str, Any]:
        """The claims of a token whose signature is good. Raises `NotVouched` and `OAuthError`."""
        if len(token) > LONGEST_TOKEN or not token.isascii():
            raise NotVouched("the ID token is too long")
        name = _named_key(token)
        tried: Mapping[str, str] | None = None
        refusal = NotVouched("no such key")
        for age in (FRESH_FOR, LOOKED_AGAIN_AFTER):
            key = _chosen(await self._sets.get(jwks_url, not_older_than=age), name)
            if key is None or key == tried:
                continue
            try:
                return _decoded(token, key)
            except NotVouched as failed:
                # The provider may have published a new key with the same name. Or the provider has a single key without a name, and has
                # replaced it.
                tried, refusal = key, failed
        raise refusal

    async def _fetched(self, url: str) -> Keys:
        published = await self._calls.get(url)
        keys = published.get("keys") if isinstance(published, dict) else None
        if not isinstance(keys, list):
            raise NotVouched("no set of keys")
        return [kept for one in keys[:MOST_KEYS] if (kept := _kept(one)) is not None]


def _named_key(token: str) -> Any:
    """The key id in the token's header. This function reads loosely, since PyJWT later reads the same bytes strictly."""
    try:
        parts = [base64url_decode(part) for part in token.split(".")[:2]]
        if any(map(has_too_many_values, parts)):
            raise NotVouched("the ID token says too much")
        header = msgspec.json.decode(parts[0])
    except (ValueError, RecursionError) as error:
        raise NotVouched(f"the ID token cannot be read: {error}") from None
    if not isinstance(header, dict):
        raise NotVouched("the ID token has no header")
    return header.get("kid")


def _kept(one: Any) -> Mapping[str, str] | None:
    """The members of a published key that we need, or None if we cannot use the key. Other members, and keys longer than any that we
    accept, would only cost memory and time.
    """
    if not isinstance(one, dict) or one.get("use") == "enc":
        return None
    kept = {name: one[name] for name in _MEMBERS if isinstance(one.get(name), str) and len(one[name]) <= LONGEST_MEMBER}
    is_one = kept.get("kty") in _ALGORITHMS and ("kid" in kept or "kid" not in one) and len(kept.get("e", "")) <= LONGEST_EXPONENT
    return kept if is_one else None


def _chosen(keys: Keys, name: Any) -> Mapping[str, str] | None:
    """The key of this name. A token without a name is accepted only if the provider publishes a single key."""
    if name is None:
        return keys[0] if len(keys) == 1 else None
    return next((one for one in keys if one.get("kid") == name), None)


def _decoded(token: str, key: Mapping[str, str]) -> Mapping[str, Any]:
    _, allowed = _ALGORITHMS[key["kty"]]
    named = [key["alg"]] if key.get("alg") in allowed else list(allowed)
    try:
        public = _read(key["kty"], json.dumps(key))
        claims: Mapping[str, Any] = jwt.decode(token, public, algorithms=named, options=SIGNATURE_ALONE)
    # PyJWT raises ValueError for numbers that make no key.
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise NotVouched(f"the ID token does not verify: {error}") from None
    return claims


@lru_cache(maxsize=MOST_READ)
def _read(kind: str, key: str) -> Any:
    return _ALGORITHMS[kind][0].from_jwk(key)
