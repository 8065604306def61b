"""What the machine knows: the clock, ids, randomness, and the names of time zones (IANA)."""

import os
import random
import re
import secrets
import string
import time
from datetime import UTC, datetime
from threading import Lock
from typing import Final
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from core.domain.secrets import Password, Secret, Token

PASSWORD_LENGTH: Final = 20
# A person reads the password off a screen once, so letters that look alike (0 O 1 l I) are left out. 20 characters of these 55 are 115
# bits.
PASSWORD_ALPHABET: Final = "".join(sorted((set(string.ascii_letters) | set(string.digits)) - set("01OIloi")))

_NAME_ALPHABET: Final = string.ascii_lowercase + string.digits
_NAME_LENGTH: Final = 6
_BASE62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
# 62 to the 43rd is just above 2 to the 256th.
_BASE62_LENGTH: Final = 43

_NOISE_BYTES: Final = 10
_NOISE_AT_ONCE: Final = 400
_COUNTER_BITS: Final = 26
_RANDOM_BITS: Final = 48


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class _Noise:
    """Random numbers for ids. Every request takes a number, so the kernel is asked for a block of numbers at a time. Secrets do not come
    from such a block: each secret is asked of the kernel alone, so that no secret is in memory before its use.
    """

    def __init__(self) -> None:
        self._block = b""
        self._at = 0
        self._process = 0

    def draw(self) -> int:
        """The caller holds a lock, so that only one thread draws at a time."""
        # A forked process has a copy of its parent's block, and must not make the same ids.
        if self._at == len(self._block) or self._process != os.getpid():
            self._block, self._at, self._process = os.urandom(_NOISE_BYTES * _NOISE_AT_ONCE), 0, os.getpid()
        self._at += _NOISE_BYTES
        return int.from_bytes(self._block[self._at - _NOISE_BYTES : self._at])


class SystemIds:
    """UUIDv7 (RFC 9562 section 5.7, method 1): milliseconds, a counter that starts again at random each millisecond, and 48 random bits.

    The ids of one process ascend strictly, even when the clock is set back, because lists are paged by these ids.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._noise = _Noise()
        self._milliseconds = 0
        self._counter = 0

    def new(self) -> UUID:
        now = time.time_ns() // 1_000_000
        with self._lock:
            noise = self._noise.draw()
            if now > self._milliseconds:
                self._milliseconds = now
                # The top bit stays free, so that at least 2^25 ids fit into the millisecond.
                self._counter = noise >> _RANDOM_BITS & (1 << _COUNTER_BITS - 1) - 1
            else:
                self._counter += 1
                if self._counter >> _COUNTER_BITS:
                    self._milliseconds += 1
                    self._counter = 0
            milliseconds, counter = self._milliseconds, self._counter
        value = (
            milliseconds << 80 | 0x7 << 76 | counter >> 14 << 64 | 0b10 << 62 | (counter & 0x3FFF) << 48 | noise & (1 << _RANDOM_BITS) - 1
        )
        return UUID(int=value)


class SystemSecrets:
    def token(self) -> Token:
        return Token(secrets.token_urlsafe(32))

    def mailed_token(self) -> Token:
        return Token(str(uuid4()))

    def key(self, kind: str) -> Token:
        name = "".join(secrets.choice(_NAME_ALPHABET) for _ in range(_NAME_LENGTH))
        number, digits = int.from_bytes(secrets.token_bytes(32)), ""
        for _ in range(_BASE62_LENGTH):
            number, digit = divmod(number, len(_BASE62))
            digits += _BASE62[digit]
        return Token(f"{kind}_{name}_{digits}")

    def key_bytes(self, length: int) -> bytes:
        return secrets.token_bytes(length)

    def letters(self, alphabet: str, length: int) -> Secret:
        return Secret("".join(secrets.choice(alphabet) for _ in range(length)))

    def password(self) -> Password:
        return Password(self.letters(PASSWORD_ALPHABET, PASSWORD_LENGTH).reveal())

    def spread(self) -> float:
        return random.random()  # noqa: S311 - spreads retries; nobody gains by guessing the number


# Directories of the database have further files, such as `posix/Europe/Vienna` and `localtime`. Their names begin with small letters.
_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")
_NO_PLACE: Final = "Factory"


def is_time_zone(name: str) -> bool:
    """Whether the database has the zone. Reads one small file, and only the first time."""
    if not _NAME.fullmatch(name) or name == _NO_PLACE:
        return False
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # no such zone is a KeyError; a directory is an OSError
        return False
    return True
