"""Verify tokens with the keys that their issuers publish: ID tokens of providers, and assertions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import trio
from jwt.utils import base64url_decode

from adapters.crypto.jwk_signatures import ALGORITHMS, NotSigned, chosen_key, signed_claims
from adapters.upstream.calls import Calls, has_too_many_values
from adapters.upstream.remembered import FRESH_FOR, PublishedAnswers
from core.domain.identity.upstream.claims import NotVouched
from core.domain.identity.upstream.jwt_assertions import SignedToken

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
Keys = Sequence[Mapping[str, str]]


class UnknownKey(NotVouched):
    """The issuer has no key of this name."""


class NoKeySet(NotVouched):
    """The address answers with something else than a set of keys."""


class ProviderKeys:
    """`limiter` bounds the threads that check signatures. Without a limiter, the event loop checks them."""

    def __init__(self, calls: Calls, limiter: trio.CapacityLimiter | None = None) -> None:
        self._calls = calls
        self._limiter = limiter
        self._sets = PublishedAnswers(self._fetched)

    async def look(self, jwks_url: str, *, at_attempt: bool = False, is_away: bool = True) -> None:
        """Fetch the keys, as `PublishedAnswers.look` does. Raises the error of that call."""
        await self._sets.look(jwks_url, at_attempt=at_attempt, is_away=is_away)

    async def published(self, jwks_url: str) -> Keys:
        """The keys at the address that we can use, as they are now. Raises `NotVouched` and `OAuthError`."""
        return await self._sets.get(jwks_url, not_older_than=0.0)

    async def verified(self, token: str, jwks_url: str) -> Mapping[str, Any]:
        """The claims of a token whose signature is good. Raises `NotVouched` and `OAuthError`."""
        return (await self.signed(token, jwks_url)).claims

    async def signed(self, token: str, jwks_url: str, *, not_again_within: float = -1.0) -> SignedToken:
        """A token whose signature is good. After a call that failed, there is no other call for `not_again_within` seconds. Raises
        `NotVouched` and `OAuthError`.
        """
        header = read_header(token)
        tried: Mapping[str, str] | None = None
        refusal: NotVouched = UnknownKey("no such key")
        for age in (FRESH_FOR, LOOKED_AGAIN_AFTER):
            keys = await self._sets.get(jwks_url, not_older_than=age, not_again_within=not_again_within)
            key = chosen_key(keys, header.get("kid"))
            if key is None or key == tried:
                continue
            try:
                return SignedToken(header.get("typ"), await self.checked(token, key))
            except NotVouched as failed:
                # The provider may have published a new key with the same name. Or the provider has a single key without a name, and has
                # replaced it.
                tried, refusal = key, failed
        raise refusal

    async def checked(self, token: str, key: Mapping[str, Any]) -> Mapping[str, Any]:
        """The claims of a token that this key has signed. Raises `NotVouched`."""
        try:
            if self._limiter is None:
                return signed_claims(token, key)
            return await trio.to_thread.run_sync(signed_claims, token, key, limiter=self._limiter)
        except NotSigned as failed:
            raise NotVouched(f"the token does not verify: {failed}") from None

    async def _fetched(self, url: str) -> Keys:
        published = await self._calls.get(url)
        keys = published.get("keys") if isinstance(published, dict) else None
        if not isinstance(keys, list):
            raise NoKeySet("no set of keys")
        return [kept for one in keys[:MOST_KEYS] if (kept := _kept(one)) is not None]


def read_header(token: str) -> Mapping[str, Any]:
    """The token's header. This function reads loosely, since PyJWT later reads the same bytes strictly. Raises `NotVouched`."""
    if len(token) > LONGEST_TOKEN or not token.isascii():
        raise NotVouched("the token is too long")
    try:
        parts = [base64url_decode(part) for part in token.split(".")[:2]]
        if any(map(has_too_many_values, parts)):
            raise NotVouched("the token says too much")
        header = msgspec.json.decode(parts[0])
    except (ValueError, RecursionError) as error:
        raise NotVouched(f"the token cannot be read: {error}") from None
    if not isinstance(header, dict):
        raise NotVouched("the token has no header")
    if "crit" in header:
        # RFC 7515 section 4.1.11: whoever does not understand all of these members refuses the token.
        raise NotVouched("the token's header demands more than we know")
    return header


def _kept(one: Any) -> Mapping[str, str] | None:
    """The members of a published key that we need, or None if we cannot use the key. Other members, and keys longer than any that we
    accept, would only cost memory and time.
    """
    if not isinstance(one, dict) or one.get("use") == "enc":
        return None
    kept = {name: one[name] for name in _MEMBERS if isinstance(one.get(name), str) and len(one[name]) <= LONGEST_MEMBER}
    is_one = kept.get("kty") in ALGORITHMS and ("kid" in kept or "kid" not in one) and len(kept.get("e", "")) <= LONGEST_EXPONENT
    return kept if is_one else None
