"""Signing keys and a clock for tests of tokens. The keys are made once, since finding RSA primes takes long."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from threading import Thread

import trio

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.crypto.signing_keys import CryptoKeyMaker, KeyCache
from core.domain.formats import Json
from core.domain.tokens import KeyPurpose, KeyState, SigningKey
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ISSUER = "https://id.example.org"
RING = AesGcmKeyRing([EncryptionKey("test", b"k" * 32)])


@dataclass
class SettableClock:
    at: datetime = NOW

    def now(self) -> datetime:
        return self.at

    def advance(self, by: timedelta) -> None:
        self.at += by


@dataclass
class StoredKeys:
    """Stands for the database behind a `KeyCache`. It counts reads, takes a while for each read, and can fail."""

    keys: list[SigningKey]
    reads: int = 0
    takes: float = 0.0
    fault: Exception | None = None
    monotonic: list[float] = field(default_factory=lambda: [1000.0])

    async def load(self) -> Sequence[SigningKey]:
        self.reads += 1
        await trio.sleep(self.takes)
        if self.fault is not None:
            raise self.fault
        return list(self.keys)

    def cache(self) -> KeyCache:
        return KeyCache(self.load, RING, monotonic=lambda: self.monotonic[0])

    def pass_time(self, seconds: float) -> None:
        self.monotonic[0] += seconds


@cache
def next_key(purpose: KeyPurpose, number: int = 0) -> SigningKey:
    """The same key for the same arguments."""
    del number

    made: list[SigningKey] = []

    async def make() -> None:
        made.append(await CryptoKeyMaker(RING).make(purpose, NOW))

    # In another thread, because this thread may be running a test's own loop.
    thread = Thread(target=trio.run, args=(make,))
    thread.start()
    thread.join()
    return made[0]


class ShelvedKeys:
    """Hands out keys that earlier tests have made. Within one test it never hands out the same key twice."""

    def __init__(self, first: int = 1) -> None:
        self._first = first
        self._taken: Counter[KeyPurpose] = Counter()

    async def make(self, purpose: KeyPurpose, created_at: datetime) -> SigningKey:
        await trio.lowlevel.checkpoint()
        number = self._first + self._taken[purpose]
        self._taken[purpose] += 1
        return replace(next_key(purpose, number), created_at=created_at)


def current_key(purpose: KeyPurpose, number: int = 0) -> SigningKey:
    return replace(next_key(purpose, number), state=KeyState.CURRENT, activated_at=NOW)


def outgoing_key(purpose: KeyPurpose, retires_at: datetime, number: int = 0) -> SigningKey:
    return replace(current_key(purpose, number), state=KeyState.OUTGOING, retires_at=retires_at)


def access_claims(**changes: Json) -> dict[str, Json]:
    """The claims of a good access token; a change to None leaves the claim out."""
    issued = int(NOW.timestamp())
    claims: dict[str, Json] = {
        "iss": ISSUER,
        "sub": "0198c2a0-0000-7000-8000-000000000001",
        "aud": "platform",
        "exp": issued + 900,
        "iat": issued,
        "jti": "kmE1xJ2GQ5u3Zr8w",
        "sid": "0198c2a0-0000-7000-8000-000000000002",
        "email": "ada@example.org",
        "is_platform_owner": False,
        "token_use": "access",
        "amr": ["pwd"],
    }
    return {name: value for name, value in (claims | changes).items() if value is not None}
