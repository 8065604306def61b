"""Hashes and verifies passwords with Argon2id, and delays refusals so that their time reveals nothing."""

import os
import re
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from hmac import compare_digest
from math import ceil
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, TypeVar

import structlog
import trio

from adapters.crypto.hashing_threads import HashingThreads, give_back
from adapters.crypto.password_digests import binding, digest_of, require_runnable
from core.domain.errors import Overloaded
from core.domain.identity.accounts import LONGEST_PASSWORD
from core.domain.identity.foreign_hashes.hashes import ForeignHash, HashRefused, decoy_of, is_foreign, read_stored
from core.domain.identity.sign_in import Priority
from core.domain.normal_forms import normalized
from core.domain.secrets import Password
from core.frozen import Frozen, replace
from ports.crypto import Examined
from ports.metrics import Metrics
from ports.record import NO_SPAN, SpanKind, current_span

log = structlog.get_logger()
T = TypeVar("T")


# A check may take a little longer than any before it. If it takes longer still, its refusal comes after twice the time, so that its exact
# duration never shows.
_MARGIN: Final = 1.25
# So many seconds are the most that one check counts for, however busy the machine was.
_REFUSAL_PACE_LONGEST: Final = 4.0
_OURS: Final = ""


class RefusalPace:
    """Decides how long a refused password takes while imported hashes of other systems remain: for every address as long as for the slowest
    of them.

    The longest checks of late, by what they checked. It knows only one process's checks; each process has measured its own.
    """

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}

    def keep(self, shapes: Collection[str]) -> None:
        """Forgets the shapes that no stored hash has any more."""
        self._longest = {shape: seconds for shape, seconds in self._longest.items() if shape in shapes or shape == _OURS}
        if self._longest.keys() == {_OURS}:
            self._longest.clear()

    def knows(self, shape: str) -> bool:
        return shape in self._longest

    def end_of(self, began: float, seconds: float, shape: str | None) -> float | None:
        """The moment before which a refusal is not told, for a check that began then. `shape` is None for a hash of ours, and for none.
        Returns None when no other hashes remain.
        """
        if shape is None and not self._longest:
            return None
        if shape is not None and shape not in self._longest:
            self._learn(shape, seconds)
        step = _MARGIN * max(self._longest.values())
        self._learn(_OURS if shape is None else shape, seconds)
        return began + step * max(1, ceil(seconds / step))

    def _learn(self, shape: str, seconds: float) -> None:
        before = self._longest.get(shape, 0.0)
        # What made one check slow passes, and so it is forgotten slowly.
        self._longest[shape] = min(_REFUSAL_PACE_LONGEST, max(seconds, before - (before - seconds) / 64))


__all__ = ["Argon2Parameters", "Argon2Passwords", "binding", "rate", "usable_cores"]


# The last in the queue waits about a second on two cores. A waiting password costs a few kilobytes, a running hash `memory_kib`.
MOST_QUEUED: Final = 256
_SPAN: Final = "hash password"
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_VERSION: Final = 19
_VERSIONS: Final = (16, _VERSION)  # RFC 9106's version is 19, the one before it 16. The library accepts any number for either.
_ENCODED: Final = re.compile(
    r"\$argon2id\$v=(?P<version>[0-9]{1,3})\$m=(?P<memory>[0-9]{1,10}),t=(?P<iterations>[0-9]{1,10}),p=(?P<lanes>[0-9]{1,10})"
    r"\$(?P<salt>[A-Za-z0-9+/]+)\$(?P<digest>[A-Za-z0-9+/]+)"
)
# A stored hash itself says how much work its check takes. Hashes that ask for more than these limits are not checked, because no sensible
# setting wrote them.
_MOST_MEMORY_KIB: Final = 1024 * 1024
_MOST_ITERATIONS: Final = 100
_MOST_LANES: Final = 64

# The longest password takes the longest time.
_LONGEST: Final = Password("\U0001f511" * 128)

P = ParamSpec("P")


class Argon2Parameters(Frozen):
    """The defaults are OWASP's first choice. More memory, iterations or lanes make each guess more expensive, and each sign-in too."""

    memory_kib: int = 19456
    iterations: int = 2
    lanes: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= _MOST_LANES:
            raise ValueError(f"Argon2 takes 1 to {_MOST_LANES} lanes, not {self.lanes}")
        if not 1 <= self.iterations <= _MOST_ITERATIONS:
            raise ValueError(f"Argon2 takes 1 to {_MOST_ITERATIONS} iterations here, not {self.iterations}")
        if not 8 * self.lanes <= self.memory_kib <= _MOST_MEMORY_KIB:
            raise ValueError(f"Argon2 takes {8 * self.lanes} to {_MOST_MEMORY_KIB} KiB of memory here, not {self.memory_kib}")


class Argon2Passwords:
    """At most `workers` hashes run at a time and `most_queued` more wait, so memory is bounded by `workers` times `memory_kib`, and by
    `workers` times 128 MiB while hashes of other systems remain.

    The queue has a quarter more places for callers from familiar addresses, and another quarter for callers with a stronger proof. So these
    callers get in even when strangers fill the queue. They do not wait for all strangers either, because the three groups take turns.

    A cancelled caller that waits leaves the queue at once. A cancelled caller whose hash is being computed waits for the end of the hash,
    because the thread cannot be stopped and its memory must stay counted.

    A password is hashed as it was typed, except that it is normalized to Unicode's NFC form, as RFC 8265 (OpaqueString) asks: keyboards
    compose accented letters in different ways that users cannot see. Nothing else is changed: no compatibility mapping, no trimming, no
    truncation. NUL and unpaired surrogates are characters like any other.
    """

    def __init__(self, parameters: Argon2Parameters, workers: int | None, metrics: Metrics, *, most_queued: int = MOST_QUEUED) -> None:
        self._parameters = parameters
        self._workers = workers if workers is not None else usable_cores()
        self._most_queued = most_queued
        self._kept = ceil(most_queued / 4)
        self._metrics = metrics
        self._argon2 = _library()
        self._threads = HashingThreads(self._workers, lines=len(Priority))
        self._pace = RefusalPace()
        self._inside = 0
        self._seconds = 0.02
        self._decoy = self._encode(secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_HASH_BYTES))

    def close(self) -> None:
        """End the threads."""
        self._threads.close()

    async def hash(self, password: Password, priority: Priority = Priority.STRANGER) -> str:
        return (await self._work(priority, self._argon2.hash, password, self._parameters)).result

    async def renew(self, encoded: str, password: Password, priority: Priority = Priority.STRANGER) -> str:
        # The salt follows from the hash before, so that of two sign-ins at once both make the same.
        salt = sha256(b"renewed\0" + encoded.encode()).digest()[:_SALT_BYTES]
        return (await self._work(priority, self._argon2.hash, password, self._parameters, salt)).result

    async def verify(self, encoded: str | None, password: Password, priority: Priority = Priority.STRANGER) -> bool:
        return (await self.examine(encoded, password, priority)).matches

    async def examine(self, encoded: str | None, password: Password, priority: Priority = Priority.STRANGER) -> Examined:
        if len(password.reveal()) > LONGEST_PASSWORD:
            # Nobody has it. What is checked in its place takes as long, and is nobody's either.
            encoded, password = None, _LONGEST
        if encoded is not None and is_foreign(encoded):
            foreign = _readable(encoded)
            if foreign is not None:
                return await self._examine_foreign(foreign, password, priority)
        known = encoded if encoded is not None and _is_sound(encoded) else None
        done = await self._work(priority, self._argon2.verify, known or self._decoy, password, self._decoy)
        if encoded is not None and (known is None or done.result is None):
            log.error("password_hash_corrupted")
        return Examined(known is not None and done.result is True, self._pace.end_of(done.began, done.seconds, None))

    async def _examine_foreign(self, foreign: ForeignHash, password: Password, priority: Priority) -> Examined:
        done = await self._work(priority, self._argon2.verify_foreign, foreign, password)
        if done.result is None:
            log.error("password_hash_corrupted")
        return Examined(done.result is True, self._pace.end_of(done.began, done.seconds, foreign.shape))

    async def hold_back(self, examined: Examined) -> None:
        if examined.not_before is not None:
            await trio.sleep(max(0.0, examined.not_before - time.perf_counter()))

    async def expect(self, shapes: Collection[str]) -> None:
        self._pace.keep(shapes)
        for shape in shapes:
            if not self._pace.knows(shape):
                with suppress(HashRefused):
                    decoy = decoy_of(shape)
                    kept = replace(decoy, digest=None, wrapping=self._decoy) if decoy.is_fast else decoy
                    await self._examine_foreign(kept, _LONGEST, Priority.STRANGER)
        if shapes:
            await self.examine(None, _LONGEST)

    async def stored(self, hashes: Sequence[ForeignHash]) -> Sequence[str]:
        texts = [""] * len(hashes)
        waiting = iter(enumerate(hashes))

        async def keep_next() -> None:
            for place, foreign in waiting:
                texts[place] = (await self._wrapped(foreign)).stored()

        async with trio.open_nursery() as nursery:
            for _ in range(self._workers):
                nursery.start_soon(keep_next)
        return texts

    async def _wrapped(self, foreign: ForeignHash) -> ForeignHash:
        if foreign.digest is None or not foreign.is_fast:
            return foreign
        done = await self._work(Priority.STRANGER, self._argon2.hash_bytes, foreign.digest, self._parameters, None)
        return replace(foreign, digest=None, wrapping=done.result)

    def is_outdated(self, encoded: str) -> bool:
        found = _ENCODED.fullmatch(encoded)
        wanted = _ENCODED.fullmatch(self._decoy)
        return found is None or wanted is None or _shape(found) != _shape(wanted)

    async def _work(self, priority: Priority, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "_Done[T]":
        if self._inside >= self._workers + self._most_queued + priority * self._kept:
            raise Overloaded(
                retry_after=max(1.0, ceil(self._most_queued * self._seconds / self._workers)), detail="the hashing queue is full"
            )
        asked = began = time.perf_counter()

        def timed() -> T:
            nonlocal began
            began = time.perf_counter()
            return function(*args, **kwargs)

        open_span = current_span.get()
        self._move(1)
        try:
            with NO_SPAN if open_span is None else open_span.child(SpanKind.INTERNAL, _SPAN) as span:
                result = await self._threads.run(timed, priority)
                if span is not None:
                    span.own = (("postern.hash.wait_us", round((began - asked) * 1e6)),)
        finally:
            self._move(-1)
        took = time.perf_counter() - began
        self._seconds += (took - self._seconds) / 16
        self._metrics.password_hashed(took, began - asked)
        return _Done(result, began, took)

    def _move(self, by: int) -> None:
        self._inside += by
        self._metrics.hashing_queue(max(0, self._inside - self._workers))

    def _encode(self, salt: bytes, digest: bytes) -> str:
        costs = self._parameters
        return f"$argon2id$v={_VERSION}$m={costs.memory_kib},t={costs.iterations},p={costs.lanes}${_unpadded(salt)}${_unpadded(digest)}"


class _Done(Frozen, Generic[T]):
    """The result of a function in a thread, with when it began and how long it took, in seconds."""

    result: T
    began: float
    seconds: float


class _Argon2:
    """The library. It is loaded after a check that this processor can run it. Its methods block, but do not hold the interpreter's lock."""

    def __init__(self) -> None:
        require_runnable()
        from argon2 import exceptions, low_level  # noqa: PLC0415 - loading a build for another processor can end the process

        self._low_level: Any = low_level
        self._mismatch: type[Exception] = exceptions.VerifyMismatchError
        self._failure: type[Exception] = exceptions.VerificationError
        self._error: type[Exception] = exceptions.HashingError

    def hash(self, password: Password, costs: Argon2Parameters, salt: bytes | None = None) -> str:
        return self.hash_bytes(_as_bytes(password), costs, salt)

    def hash_bytes(self, secret: bytes, costs: Argon2Parameters, salt: bytes | None) -> str:
        encoded: bytes = self._low_level.hash_secret(
            secret,
            os.urandom(_SALT_BYTES) if salt is None else salt,
            time_cost=costs.iterations,
            memory_cost=costs.memory_kib,
            parallelism=costs.lanes,
            hash_len=_HASH_BYTES,
            type=self._low_level.Type.ID,
        )
        return encoded.decode("ascii")

    def verify(self, encoded: str, password: Password, decoy: str) -> bool | None:
        """Whether the password matches. None when the library cannot read the hash: then the decoy is checked instead, so that the call
        takes as long as for a good hash.
        """
        try:
            return self._matches(encoded, password)
        except self._failure:
            self._matches(decoy, password)
            return None

    def verify_foreign(self, foreign: ForeignHash, password: Password) -> bool | None:
        """Whether the password matches. None when a library cannot compute the hash."""
        try:
            made = digest_of(password, foreign)
            return compare_digest(made, foreign.digest) if foreign.digest is not None else self._wraps(foreign.wrapping or "", made)
        except (self._failure, self._error, ValueError, MemoryError):
            return None

    def _wraps(self, encoded: str, digest: bytes) -> bool:
        return _is_sound(encoded) and self._is_of(encoded, digest)

    def _matches(self, encoded: str, password: Password) -> bool:
        return self._is_of(encoded, _as_bytes(password))

    def _is_of(self, encoded: str, secret: bytes) -> bool:
        try:
            return bool(self._low_level.verify_secret(encoded.encode("ascii"), secret, self._low_level.Type.ID))
        except self._mismatch:
            return False


@cache
def _library() -> _Argon2:
    """The library, once for the process, because finding out the installed build reads and parses files."""
    return _Argon2()


def rate(seconds: float = 0.5, parameters: Argon2Parameters | None = None) -> float:
    """How many verifications one core does in a second of processor time. Blocks for about `seconds`, and leaves no memory behind."""
    argon2 = _library()
    password = Password("a password of ordinary length")
    encoded = argon2.hash(password, parameters or Argon2Parameters())
    began, done = time.thread_time(), 0
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline or not done:
        argon2.verify(encoded, password, encoded)
        done += 1
    found = done / (time.thread_time() - began)
    give_back()
    return found


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """How many cores this process may use. Affinity limits them, and the container's quota, which affinity does not show."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text(encoding="ascii").split()
        return max(1, min(cores, ceil(int(allowed) / int(period))))
    except (OSError, ValueError):  # There is no such file, or it says "max".
        return cores


def _as_bytes(password: Password) -> bytes:
    """Raises `NotNormalized` for a password that is longer than any."""
    return normalized(password.reveal(), "NFC", LONGEST_PASSWORD, any_marks=True).encode("utf-8", "surrogatepass")


def _readable(encoded: str) -> ForeignHash | None:
    try:
        return read_stored(encoded)
    except HashRefused:
        return None


def _is_sound(encoded: str) -> bool:
    found = _ENCODED.fullmatch(encoded)
    return (
        found is not None
        and int(found["version"]) in _VERSIONS
        and int(found["memory"]) <= _MOST_MEMORY_KIB
        and int(found["iterations"]) <= _MOST_ITERATIONS
        and int(found["lanes"]) <= _MOST_LANES
    )


def _shape(encoded: re.Match[str]) -> tuple[int, int, int, int, int, int]:
    return (
        int(encoded["version"]),
        int(encoded["memory"]),
        int(encoded["iterations"]),
        int(encoded["lanes"]),
        len(encoded["salt"]),
        len(encoded["digest"]),
    )


def _unpadded(raw: bytes) -> str:
    return b64encode(raw).rstrip(b"=").decode()
