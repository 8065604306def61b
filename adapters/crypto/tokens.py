"""Signs and verifies JSON Web Tokens with the installation's own keys, also the assertions for applications behind proxies."""

import json
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from adapters.crypto.signing_keys import KeyCache, VerificationKey, base64url, es256, rs256
from core.domain.errors import TokenExpired, TokenInvalid
from core.domain.formats import Json
from core.domain.identifiers import KeyId
from core.domain.tokens import KeyPurpose, TokenAlgorithm
from core.frozen import Frozen
from ports.crypto import TokenSigner
from ports.system import Clock

LARGEST_TOKEN: Final = 8 * 1024
# The clocks of several machines differ a little. A token from further in the future is not ours.
LEEWAY: Final = timedelta(seconds=30)
REQUIRED_CLAIMS: Final = ("exp", "iat", "iss", "sub")
_HEADER: Final = frozenset({"alg", "kid", "typ"})
_TYPE: Final = "JWT"
_TYPE_FOR_APPLICATIONS: Final = "at+jwt"
# We only send these out. No caller sends one back, so the verifier refuses their types.
_TYPE_OF_LOGOUTS: Final = "logout+jwt"
_TYPE_OF_SIGNALS: Final = "secevent+jwt"
_TYPE_FOR_PROXIES: Final = "proxy+jwt"
_TYPES: Final = frozenset({_TYPE, _TYPE_FOR_APPLICATIONS})
# The cache has two generations of this size, some 20 MB when full.
_CACHE_GENERATION: Final = 5_000
# PyJWT verifies the signature and the issuer. Times are checked here, by the clock that the rest of the product uses.
_OPTIONS: Final[Any] = {
    "require": list(REQUIRED_CLAIMS),
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "strict_aud": False,
}


class JwtSigner:
    """Signing stays on the event loop's thread, because even RS256 with 2048 bits takes only a quarter of a millisecond. The library
    releases the interpreter's lock meanwhile, but the way to a thread and back costs more than an ES256 signature, and as much as a quarter
    of an RS256 signature. The claims are our own, so the signer does not check them.
    """

    def __init__(self, keys: KeyCache) -> None:
        self._keys = keys

    async def sign_access(self, claims: Mapping[str, Json]) -> str:
        return await self._sign(KeyPurpose.ACCESS, claims)

    async def sign_for_application(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm) -> str:
        purpose = KeyPurpose.ACCESS if algorithm is TokenAlgorithm.ES256 else KeyPurpose.ACCESS_RS256
        return await self._sign(purpose, claims, _TYPE_FOR_APPLICATIONS)

    async def sign_id(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm = TokenAlgorithm.RS256) -> str:
        return await self._sign(_purpose_of(algorithm), claims)

    async def sign_logout(self, claims: Mapping[str, Json], algorithm: TokenAlgorithm = TokenAlgorithm.RS256) -> str:
        return await self._sign(_purpose_of(algorithm), claims, _TYPE_OF_LOGOUTS)

    async def sign_signal(self, claims: Mapping[str, Json]) -> str:
        return await self._sign(KeyPurpose.ID, claims, _TYPE_OF_SIGNALS)

    async def sign_proxy(self, claims: Mapping[str, Json]) -> str:
        return await self._sign(KeyPurpose.ACCESS, claims, _TYPE_FOR_PROXIES)

    async def _sign(self, purpose: KeyPurpose, claims: Mapping[str, Json], token_type: str = _TYPE) -> str:
        key, private_key = await self._keys.signing_key(purpose)
        signed = _header(purpose.algorithm, key, token_type) + b"." + base64url(_encode_claims(claims))
        signature = es256(private_key, signed) if isinstance(private_key, EllipticCurvePrivateKey) else rs256(private_key, signed)
        return (signed + b"." + base64url(signature)).decode("ascii")


def _purpose_of(algorithm: TokenAlgorithm) -> KeyPurpose:
    return KeyPurpose.ID if algorithm is TokenAlgorithm.RS256 else KeyPurpose.ID_ES256


@lru_cache(maxsize=16)
def _header(algorithm: str, key: KeyId, token_type: str) -> bytes:
    return base64url(msgspec.json.encode({"alg": algorithm, "kid": key, "typ": token_type}))


_encode_claims: Final = msgspec.json.Encoder().encode


class _Verified(Frozen):
    claims: Mapping[str, Json]
    key: KeyId
    expires_at: datetime


class JwtVerifier:
    """Recently verified tokens are cached in memory. The header of a token of ours has exactly `alg`, `kid` and `typ`. A header with
    anything else (`jwk`, `jku`, `x5u`, `x5c`, `crit`, `b64`, `zip`, …) is refused, so a token has no say in how it is verified. `kid` picks
    one of our keys, and the key, not the token, decides the algorithm (RFC 8725 sections 3.1, 3.5 and 3.10).
    """

    def __init__(self, keys: KeyCache, issuer: str, clock: Clock, cache_generation: int = _CACHE_GENERATION) -> None:
        self._keys = keys
        self._issuer = issuer
        self._clock = clock
        self._recent = _TwoGenerations(cache_generation)

    async def verify_access(self, token: str) -> Mapping[str, Json]:
        claims = await self.verify_issued(token)
        if "sid" not in claims:
            raise TokenInvalid(detail="the token has no session")
        return claims

    async def verify_issued(self, token: str) -> Mapping[str, Json]:
        if len(token) > LARGEST_TOKEN:
            raise TokenInvalid(detail="larger than any token of ours")
        try:
            # The cache knows a token by its digest, so that a dump of the memory holds no list of usable tokens.
            digest = sha256(token.encode("ascii")).digest()
        except UnicodeEncodeError:
            raise TokenInvalid(detail="not ASCII") from None
        now = self._clock.now()
        verified = self._recent.get(digest)
        if verified is not None:
            key = self._keys.known_access_key(verified.key) or await self._keys.access_key(verified.key)
            _require_key_in_force(key, now)
            if now >= verified.expires_at:
                raise TokenExpired
            return verified.claims
        key = await self._keys.access_key(_named_key(token))
        verified = self._verify(token, _require_key_in_force(key, now), now)
        # Only good tokens are kept, so that a flood of bad tokens does not push good ones out.
        self._recent.put(digest, verified)
        return verified.claims

    async def verify_id(self, token: str) -> Mapping[str, Json]:
        if len(token) > LARGEST_TOKEN or not token.isascii():
            raise TokenInvalid(detail="no ID token of ours")
        # Retired keys are accepted as well: an application sends back the ID token that it got at the sign-in, perhaps months ago.
        return self._decoded(token, _require_key(await self._keys.id_key(_named_key(token))))

    def _decoded(self, token: str, key: VerificationKey) -> Mapping[str, Any]:
        _require_one_text(token)
        try:
            # Only the key's own algorithm is allowed. PyJWT refuses a token whose header names another algorithm.
            claims: Mapping[str, Any] = jwt.decode(token, key.public_key, algorithms=[key.algorithm], issuer=self._issuer, options=_OPTIONS)
        except jwt.PyJWTError as error:
            raise TokenInvalid(detail=str(error)) from error
        return claims

    def _verify(self, token: str, key: VerificationKey, now: datetime) -> _Verified:
        claims = self._decoded(token, key)
        expires_at = _moment(claims, "exp")
        if _moment(claims, "iat") > now + LEEWAY:
            raise TokenInvalid(detail="issued in the future")
        if "nbf" in claims and _moment(claims, "nbf") > now + LEEWAY:
            raise TokenInvalid(detail="not valid yet")
        if now >= expires_at:
            raise TokenExpired
        return _Verified(MappingProxyType({name: _frozen(value) for name, value in claims.items()}), key.id, expires_at)


def _require_one_text(token: str) -> None:
    """A token has one text. The signature is of the header and the claims as they are written, but its own text could be written in several
    ways: with padding, with spaces, or with other bits in the last letter (RFC 7515 section 2, RFC 4648 section 3.5).
    """
    signature = token.rpartition(".")[2].encode()
    try:
        written = base64url(urlsafe_b64decode(signature + b"=" * (-len(signature) % 4)))
    except ValueError as error:
        raise TokenInvalid(detail="its signature cannot be read") from error
    if written != signature:
        raise TokenInvalid(detail="its signature is written in another way than ours")


class _TwoGenerations:
    """A bounded cache. Entries that were used since the last change of generations survive the next change. Two generations cost less than
    a true least-recently-used order, and serve as well for many tokens that come again and again.
    """

    __slots__ = ("_new", "_old", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._new: dict[bytes, _Verified] = {}
        self._old: dict[bytes, _Verified] = {}

    def get(self, digest: bytes) -> _Verified | None:
        found = self._new.get(digest)
        if found is None:
            found = self._old.pop(digest, None)
            if found is not None:
                self.put(digest, found)
        return found

    def put(self, digest: bytes, verified: _Verified) -> None:
        if len(self._new) >= self._size:
            self._old, self._new = self._new, {}
        self._new[digest] = verified

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


def _require_key(key: VerificationKey | None) -> VerificationKey:
    if key is None:
        raise TokenInvalid(detail="no key of this installation for such tokens has this id")
    return key


def _require_key_in_force(found: VerificationKey | None, now: datetime) -> VerificationKey:
    key = _require_key(found)
    if key.retires_at is not None and now >= key.retires_at:
        raise TokenInvalid(detail="the key is retired")
    return key


def _named_key(token: str) -> str:
    """The key id in the token's header. The header must have exactly the members that our own headers have."""
    encoded = token.partition(".")[0]
    try:
        # `urlsafe_b64decode` skips characters outside its alphabet. PyJWT, which reads the same bytes again, does not.
        header = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (NotBase64, ValueError, RecursionError):
        raise TokenInvalid(detail="the header cannot be read") from None
    if not isinstance(header, dict) or not _HEADER.issuperset(header):
        raise TokenInvalid(detail="the header says more than ours do")
    name = header.get("kid")
    if not isinstance(name, str) or header.get("typ") not in _TYPES:
        raise TokenInvalid(detail="the header lacks what ours have")
    return name


def _moment(claims: Mapping[str, Any], name: str) -> datetime:
    value = claims[name]
    if type(value) is not int:
        raise TokenInvalid(detail=f"{name} is not a whole number")
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        raise TokenInvalid(detail=f"{name} is no moment in time") from None


def _frozen(value: Any) -> Json:
    """The value as one that cannot be changed, because every request with this token shares the claims."""
    if isinstance(value, dict):
        return MappingProxyType({name: _frozen(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(inner) for inner in value)
    return value  # type: ignore[no-any-return]  # a scalar, by the rules of JSON


# Of the sixty seconds that an assertion lives, the application has at least thirty.
TOLD_AGAIN_FOR: Final = timedelta(seconds=30)
_MOST: Final = 5_000
_TIMES: Final = frozenset({"iat", "exp"})


class RememberedAssertions:
    """Implements `ports.federation.oauth.ProxyAssertions`.

    A page of an application behind a proxy makes dozens of requests at once, and each gets the same: an assertion that was signed a moment
    ago is sent again.
    """

    def __init__(self, signer: TokenSigner, most: int = _MOST) -> None:
        self._signer = signer
        self._most = most
        self._signed: OrderedDict[bytes, tuple[str, datetime]] = OrderedDict()

    async def signed(self, claims: Mapping[str, Json], now: datetime) -> str:
        said = msgspec.json.encode({name: value for name, value in claims.items() if name not in _TIMES})
        known = self._signed.get(said)
        if known is not None and timedelta() <= now - known[1] < TOLD_AGAIN_FOR:
            return known[0]
        token = await self._signer.sign_proxy(claims)
        self._signed[said] = token, now
        self._signed.move_to_end(said)
        if len(self._signed) > self._most:
            self._signed.popitem(last=False)
        return token
