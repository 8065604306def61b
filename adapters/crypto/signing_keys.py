"""Signing keys: generated, cached for the signer and the verifier, and the key that signs exported chains and evidence."""

import hashlib
import json
from binascii import b2a_base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
import structlog
import trio
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
)
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from adapters.crypto.key_pairs import PairsAhead, PrivateKey
from core.domain.errors import Overloaded, Unavailable
from core.domain.formats import Json
from core.domain.identifiers import KeyId
from core.domain.tokens import KeyPurpose, KeyState, SigningKey, TokenAlgorithm, in_state, signing_key_context
from core.frozen import Frozen
from ports.crypto import CannotOpen, KeyRing, ServerSecrets

log = structlog.get_logger()


# In seconds. Known keys that are older than this are read again, so a rotation reaches every process within this time. Until then a process
# signs with the outgoing key, which every verifier knows.
_RENEW_AFTER: Final = 30.0
# In seconds. An unknown key id causes a query only after this pause, and a failed reading is tried again after this pause. So a flood of
# made-up ids costs one query in this time.
_ASK_AGAIN_AFTER: Final = 5.0
READING_TAKES_AT_MOST: Final = 3.0
# The members of a public JWK that the thumbprint covers, by type (RFC 7638 section 3.2).
_THUMBPRINT_MEMBERS: Final = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n")}

PublicKey = EllipticCurvePublicKey | RSAPublicKey


class CryptoKeyMaker:
    """Generates key pairs.

    Access tokens are signed with ES256, because ES256 is small and quick. ID tokens are signed with RS256, because every relying party must
    support RS256 (OpenID Connect Core section 15.1). A service can choose ES256 for its ID tokens.
    """

    def __init__(self, keyring: KeyRing, ahead: PairsAhead | None = None) -> None:
        self._keyring = keyring
        self._ahead = ahead or PairsAhead()
        # Finding two primes takes a good part of a second. One pair at a time is plenty.
        self._limiter = trio.CapacityLimiter(1)

    async def make(self, purpose: KeyPurpose, created_at: datetime) -> SigningKey:
        pair = await trio.to_thread.run_sync(self._ahead.take, purpose, limiter=self._limiter)
        jwk = public_jwk(pair)
        key = KeyId(thumbprint(jwk))
        private = pair.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return SigningKey(
            id=key,
            purpose=purpose,
            state=KeyState.NEXT,
            public_jwk={**jwk, "kid": key, "use": "sig", "alg": purpose.algorithm},
            sealed_private_key=self._keyring.seal(private, signing_key_context(key)),
            created_at=created_at,
            activated_at=None,
            retires_at=None,
        )


class VerificationKey(Frozen):
    id: KeyId
    algorithm: str
    public_key: PublicKey
    retires_at: datetime | None


class _SigningHalf(Frozen):
    id: KeyId
    private_key: PrivateKey


class _Known(Frozen):
    """One reading of the stored keys."""

    stored: Sequence[SigningKey]
    current: Mapping[KeyPurpose, SigningKey]
    access: Mapping[str, VerificationKey]
    id_tokens: Mapping[str, VerificationKey]


class KeyCache:
    """The stored signing keys in this process's memory. The keys are read at their first use, every half minute while in use, and when a
    token names an unknown key. One task reads at a time; other tasks continue with the known keys. While the database is away, the known
    keys still serve.
    """

    def __init__(
        self, load: Callable[[], Awaitable[Sequence[SigningKey]]], keyring: KeyRing, monotonic: Callable[[], float] = trio.current_time
    ) -> None:
        self._load = load
        self._keyring = keyring
        self._monotonic = monotonic
        self._known: _Known | None = None
        self._halves: dict[KeyId, _SigningHalf] = {}
        self._reading = trio.Lock()
        self._readings_ended = 0
        self._renew_at = 0.0
        self._asked_at = float("-inf")
        self._unseal_limiter = trio.CapacityLimiter(1)

    async def all(self) -> Sequence[SigningKey]:
        return (await self._current()).stored

    def expire(self) -> None:
        self._renew_at = 0.0
        self._asked_at = float("-inf")

    def known_access_key(self, key: str) -> VerificationKey | None:
        """The key, without waiting. None when the key is unknown, or when the keys are due to be read again: then the caller asks
        `access_key`.
        """
        if self._known is None or self._monotonic() >= self._renew_at:
            return None
        return self._known.access.get(key)

    async def access_key(self, key: str) -> VerificationKey | None:
        """The key that verifies access tokens with this id. For an unknown id the keys are read again, at most once in a few seconds. None
        when no stored key has the id.
        """
        known = await self._current()
        if key not in known.access and (self._reading.locked() or self._monotonic() - self._asked_at >= _ASK_AGAIN_AFTER):
            known = await self._read()
        return known.access.get(key)

    async def id_key(self, key: str) -> VerificationKey | None:
        """The key that verifies ID tokens with this id, as far as this process knows the keys."""
        return (await self._current()).id_tokens.get(key)

    async def signing_key(self, purpose: KeyPurpose) -> tuple[KeyId, PrivateKey]:
        """The current key of the purpose. Raises `Unavailable` while no key is current."""
        key = (await self._current()).current.get(purpose)
        if key is None:
            raise Unavailable(retry_after=_ASK_AGAIN_AFTER, detail=f"no current {purpose.value} key is stored")
        half = self._halves.get(key.id)
        if half is None:
            half = await self._unseal(key)
        return half.id, half.private_key

    async def _unseal(self, key: SigningKey) -> _SigningHalf:
        try:
            private = self._keyring.open(key.sealed_private_key, signing_key_context(key.id))
        except CannotOpen as error:
            log.error("signing_key_unreadable", key=key.id, purpose=key.purpose.value, error=str(error))  # noqa: TRY400 - the reason says it all
            raise Unavailable(retry_after=_ASK_AGAIN_AFTER, detail=f"the current {key.purpose.value} key cannot be opened") from error
        pair = await trio.to_thread.run_sync(_load_private_key, private, limiter=self._unseal_limiter)
        half = _SigningHalf(key.id, pair)
        current = {known.id for known in self._known.current.values()} if self._known is not None else set()
        # Private halves that no longer sign are dropped from memory.
        self._halves = {id_: other for id_, other in self._halves.items() if id_ in current} | {key.id: half}
        return half

    async def _current(self) -> _Known:
        known = self._known
        if known is None:
            return await self._read()
        if self._monotonic() < self._renew_at or self._reading.locked():
            return known
        return await self._read()

    async def _read(self) -> _Known:
        """Read the stored keys, or wait for the task that reads them. While the database is away, the keys known before stay."""
        ended = self._readings_ended
        async with self._reading:
            if self._readings_ended == ended:
                await self._read_now()
            # Otherwise another task read them while this one waited, with or without success.
        if self._known is None:
            raise Unavailable(retry_after=_ASK_AGAIN_AFTER, detail="the signing keys were never read")
        return self._known

    async def _read_now(self) -> None:
        started = self._asked_at = self._monotonic()
        # Set before the answer comes, so that a call of `expire` during the reading is not lost.
        self._renew_at = started + _RENEW_AFTER
        try:
            with trio.fail_after(READING_TAKES_AT_MOST):
                self._known = _understand(await self._load())
        except (Unavailable, Overloaded, trio.TooSlowError) as error:
            self._renew_at = self._monotonic() + _ASK_AGAIN_AFTER
            log.warning("signing_keys_not_renewed", error=type(error).__name__)
        except BaseException:
            self._renew_at = 0.0  # The reading was cancelled or failed, so the next task reads again.
            raise
        self._readings_ended += 1


def base64url(data: bytes) -> bytes:
    """Base64url without padding (RFC 7515)."""
    return b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=")


_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


def thumbprint(jwk: Mapping[str, Json]) -> str:
    """The thumbprint of a public key (RFC 7638). Every program computes the same thumbprint for a key."""
    members = {name: jwk[name] for name in _THUMBPRINT_MEMBERS[str(jwk["kty"])]}
    canonical = json.dumps(members, separators=(",", ":"), sort_keys=True).encode()
    return base64url(hashlib.sha256(canonical).digest()).decode()


def public_jwk(pair: PrivateKey) -> dict[str, Json]:
    if isinstance(pair, EllipticCurvePrivateKey):
        jwk = ECAlgorithm.to_jwk(pair.public_key(), as_dict=True)
    else:
        jwk = RSAAlgorithm.to_jwk(pair.public_key(), as_dict=True)
    return {name: jwk[name] for name in _THUMBPRINT_MEMBERS[jwk["kty"]]}  # Without `key_ops`, since `use` says the same.


def _load_private_key(private: bytes) -> PrivateKey:
    # AES-GCM has vouched for every byte, so the primes need not be checked again.
    pair = load_der_private_key(private, password=None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(pair, EllipticCurvePrivateKey | RSAPrivateKey):
        raise TypeError(f"a signing key of an unknown kind: {type(pair).__name__}")
    return pair


def _understand(stored: Sequence[SigningKey]) -> _Known:
    access: dict[str, VerificationKey] = {}
    id_tokens: dict[str, VerificationKey] = {}
    for key in stored:
        algorithm = RSAAlgorithm if key.purpose.algorithm is TokenAlgorithm.RS256 else ECAlgorithm
        public = algorithm.from_jwk(json.dumps(key.public_jwk))
        if not isinstance(public, EllipticCurvePublicKey | RSAPublicKey):
            raise TypeError(f"the published half of {key.id} is not a public key")
        group = access if key.purpose.is_access else id_tokens
        group[key.id] = VerificationKey(key.id, key.purpose.algorithm, public, key.retires_at)
    current = {purpose: one for purpose in KeyPurpose if (one := in_state(stored, purpose, KeyState.CURRENT)) is not None}
    return _Known(tuple(stored), current, access, id_tokens)


# A digest of our own: the library would look up the algorithm of each, which costs more than the digest.
_HASHED: Final = Prehashed(SHA256())
_ES256: Final = ECDSA(_HASHED)
_RS256_PADDING: Final = PKCS1v15()
_NUMBER: Final = 32


def es256(key: EllipticCurvePrivateKey, signed: bytes) -> bytes:
    """The signature of a token: of its header, a dot and its claims."""
    # RFC 7518 section 3.4: both numbers in full length, one after the other.
    r, s = decode_dss_signature(key.sign(hashlib.sha256(signed).digest(), _ES256))
    return r.to_bytes(_NUMBER) + s.to_bytes(_NUMBER)


def rs256(key: RSAPrivateKey, signed: bytes) -> bytes:
    """As `es256`."""
    return key.sign(hashlib.sha256(signed).digest(), _RS256_PADDING, _HASHED)


HEAD_PURPOSE: Final = "siem_heads"
HEAD_TYPE: Final = "postern-head+jwt"
EVIDENCE_TYPE: Final = "postern-evidence+jwt"
# The number of points of P-256 (FIPS 186-5). A private key is at least 1, and less than this.
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class Es256HeadSigner:
    """Implements `ports.crypto.HeadSigner`.

    Signs the heads of exported chains and evidence, each with a type of its own. The key is derived from a random secret of the
    installation, so every process has the same key, and the key never changes. No token is signed with this key, so that a program that
    checks only a signature cannot take a head or evidence for a token.
    """

    def __init__(self, server_secrets: ServerSecrets) -> None:
        self._server_secrets = server_secrets
        self._key: EllipticCurvePrivateKey | None = None

    async def sign(self, claims: Mapping[str, Json]) -> str:
        return await self._signed(HEAD_TYPE, claims)

    async def sign_evidence(self, claims: Mapping[str, Json]) -> str:
        return await self._signed(EVIDENCE_TYPE, claims)

    async def _signed(self, kind: str, claims: Mapping[str, Json]) -> str:
        key = await self._private_key()
        header = {"alg": "ES256", "kid": thumbprint(public_jwk(key)), "typ": kind}
        signed = base64url(msgspec.json.encode(header)) + b"." + base64url(msgspec.json.encode(claims))
        return (signed + b"." + base64url(es256(key, signed))).decode()

    async def public_key(self) -> Mapping[str, Json]:
        jwk = public_jwk(await self._private_key())
        return {**jwk, "kid": thumbprint(jwk), "use": "sig", "alg": "ES256"}

    async def _private_key(self) -> EllipticCurvePrivateKey:
        if self._key is None:
            secret = int.from_bytes(await self._server_secrets.get(HEAD_PURPOSE))
            self._key = derive_private_key(secret % (_ORDER - 1) + 1, SECP256R1())
        return self._key
