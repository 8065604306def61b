"""A password hash of another system, with everything that its check needs, and the bounds of what is ever checked."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self

from core.frozen import Frozen

PREFIX: Final = "$foreign$"
# The longest text of a hash, ours and others', that anybody looks at.
LONGEST_TEXT: Final = 2048


class HashRefused(Exception):
    """The hash is not kept. The text is one line for the person who brings it, and holds nothing of the hash but its numbers."""


class HashKind(StrEnum):
    BCRYPT = "bcrypt"
    BCRYPT_SHA256 = "bcrypt-sha256"
    """bcrypt of the password's SHA-256 in hexadecimal digits, as Django makes it."""
    BCRYPT_HMAC_SHA256 = "bcrypt-hmac-sha256"
    """bcrypt of the password's HMAC-SHA256 in base64, with the salt as the key, as passlib makes it."""
    BCRYPT_HMAC_SHA384 = "bcrypt-hmac-sha384"
    """bcrypt of the password's HMAC-SHA384 in base64, with a key that is the same everywhere, as WordPress makes it."""
    PBKDF2_SHA1 = "pbkdf2-sha1"
    PBKDF2_SHA256 = "pbkdf2-sha256"
    PBKDF2_SHA512 = "pbkdf2-sha512"
    SCRYPT = "scrypt"
    SCRYPT_STREAM = "scrypt-stream"
    """Firebase's: the digest is what AES-256 in counter mode, keyed by scrypt's result, adds to a text."""
    SCRYPT_HEADER = "scrypt-header"
    """The form of a file that scrypt has encrypted: the digest is the HMAC of the file's header, keyed by half of scrypt's result."""
    ARGON2I = "argon2i"
    ARGON2D = "argon2d"
    ARGON2ID = "argon2id"
    SHA256_CRYPT = "sha256-crypt"
    SHA512_CRYPT = "sha512-crypt"
    SSHA = "ssha"
    SSHA256 = "ssha256"
    SSHA512 = "ssha512"
    PHPASS = "phpass"
    """MD5, again and again. It is kept only wrapped, as all that are fast."""


class _Bounds(Frozen):
    """The least and the most of each parameter, of the salt's bytes and of the digest's."""

    parameters: Mapping[str, tuple[int, int]]
    digest: tuple[int, int]
    salt: tuple[int, int] = (1, 256)


# About two seconds of one idle core is the most that any of these takes.
_MOST_MEMORY_KIB: Final = 128 * 1024
_MOST_BLOCKS_OF_SCRYPT: Final = 2**21
_MOST_KIB_OF_ARGON2: Final = 1024 * 1024

_BCRYPT: Final = _Bounds({"r": (4, 14)}, (23, 23), (16, 16))
_SCRYPT: Final = {"ln": (1, 20), "r": (1, 64), "p": (1, 64), "l": (16, 512)}
_ARGON2: Final = _Bounds({"v": (16, 19), "m": (8, _MOST_MEMORY_KIB), "t": (1, 100), "p": (1, 64), "l": (12, 512)}, (12, 512), (8, 256))


def _pbkdf2(width: int) -> _Bounds:
    """Only the first block of a longer digest is kept: it is computed for itself, and is as hard to guess."""
    return _Bounds({"i": (1, 2_000_000), "l": (16, width)}, (16, width))


def _sha_crypt(width: int) -> _Bounds:
    return _Bounds({"i": (1000, 700_000)}, (width, width), (1, 16))


BOUNDS: Final[Mapping[HashKind, _Bounds]] = {
    HashKind.BCRYPT: _BCRYPT,
    HashKind.BCRYPT_SHA256: _BCRYPT,
    HashKind.BCRYPT_HMAC_SHA256: _BCRYPT,
    HashKind.BCRYPT_HMAC_SHA384: _BCRYPT,
    HashKind.PBKDF2_SHA1: _pbkdf2(20),
    HashKind.PBKDF2_SHA256: _pbkdf2(32),
    HashKind.PBKDF2_SHA512: _pbkdf2(64),
    HashKind.SCRYPT: _Bounds(_SCRYPT, (16, 512)),
    HashKind.SCRYPT_STREAM: _Bounds(_SCRYPT, (16, 512)),
    HashKind.SCRYPT_HEADER: _Bounds({name: _SCRYPT[name] for name in ("ln", "r", "p")}, (32, 32), (32, 32)),
    HashKind.ARGON2I: _ARGON2,
    HashKind.ARGON2D: _ARGON2,
    HashKind.ARGON2ID: _ARGON2,
    HashKind.SHA256_CRYPT: _sha_crypt(32),
    HashKind.SHA512_CRYPT: _sha_crypt(64),
    HashKind.SSHA: _Bounds({}, (20, 20)),
    HashKind.SSHA256: _Bounds({}, (32, 32)),
    HashKind.SSHA512: _Bounds({}, (64, 64)),
    # passlib makes 2¹⁹ rounds: 0.6 s of a core. Twice as many would still be under two seconds, and nobody makes them.
    HashKind.PHPASS: _Bounds({"ln": (7, 19)}, (16, 16), (8, 8)),
}

# The words for parameters in refusals.
_WORDS: Final = {"i": "iterations", "m": "KiB of memory", "t": "passes", "p": "lanes", "l": "bytes of digest", "v": "as its version"}

# Cheaper hashes than these are wrapped while they are imported. The numbers are OWASP's least ones, or as much work as our own hash.
_LEAST: Final[Mapping[HashKind, int]] = {
    HashKind.BCRYPT: 10,
    HashKind.BCRYPT_SHA256: 10,
    HashKind.BCRYPT_HMAC_SHA256: 10,
    HashKind.BCRYPT_HMAC_SHA384: 10,
    HashKind.PBKDF2_SHA1: 1_300_000,
    HashKind.PBKDF2_SHA256: 600_000,
    HashKind.PBKDF2_SHA512: 210_000,
    HashKind.SCRYPT: 2**17,
    HashKind.SCRYPT_STREAM: 2**17,
    HashKind.SCRYPT_HEADER: 2**17,
    HashKind.ARGON2I: 3 * 12_288,
    HashKind.ARGON2D: 5 * 7168,
    HashKind.ARGON2ID: 5 * 7168,
    HashKind.SHA256_CRYPT: 500_000,
    HashKind.SHA512_CRYPT: 200_000,
}


class ForeignHash(Frozen, kw_only=True):
    """One text stores it, in the column of our own hashes: `$foreign$<kind>$<parameters>$<salt>$<digest>`. Parameters are `name=number`,
    joined by commas, in the order of `BOUNDS`. Salt and digest are base64 without padding. A wrapped hash has, in the place of the digest,
    the Argon2id hash of the digest: `$foreign$<kind>$<parameters>$<salt>$argon2id$v=19$m=…,t=…,p=…$<salt>$<digest>`.

    `digest` is None where the hash is wrapped: then `wrapping` is the Argon2id hash of the digest.
    """

    kind: HashKind
    parameters: Mapping[str, int]
    salt: bytes
    digest: bytes | None
    wrapping: str | None = None

    @classmethod
    def of(cls, kind: HashKind, parameters: Mapping[str, int], salt: bytes, digest: bytes) -> Self:
        """Raises `HashRefused` for what is out of bounds."""
        bounds = BOUNDS[kind]
        if "l" in bounds.parameters:
            if kind in _CUT:
                digest = digest[: bounds.digest[1]]
            parameters = {**parameters, "l": len(digest)}
        made = cls(kind=kind, parameters={name: parameters[name] for name in bounds.parameters}, salt=salt, digest=digest)
        _require_bounded(made)
        return made

    @property
    def shape(self) -> str:
        """The kind and the parameters, which say how long a check takes."""
        return f"{self.kind.value}${','.join(f'{name}={number}' for name, number in self.parameters.items())}"

    @property
    def is_fast(self) -> bool:
        """Whether guessing would be cheap for somebody who has the database, so that the hash is kept only wrapped."""
        least, numbers = _LEAST.get(self.kind), self.parameters
        if least is None:
            return True
        if self.kind in _SCRYPTS:
            return _blocks(numbers) < least
        if self.kind in _ARGON2S:
            return numbers["m"] * numbers["t"] < least or numbers["m"] < 7168
        return numbers["r" if "r" in numbers else "i"] < least

    def stored(self) -> str:
        kept = self.wrapping[1:] if self.wrapping is not None else unpadded(self.digest or b"")
        return f"{PREFIX}{self.shape}${unpadded(self.salt)}${kept}"


def is_foreign(encoded: str) -> bool:
    """Whether a text of the password's column keeps a hash of another system."""
    return encoded.startswith(PREFIX)


def read_stored(encoded: str) -> ForeignHash:
    """Reads what `ForeignHash.stored` wrote. Raises `HashRefused`, also for what is out of bounds."""
    found = _STORED.fullmatch(encoded) if len(encoded) <= LONGEST_TEXT else None
    kind = None if found is None else _KINDS.get(found["kind"])
    if found is None or kind is None:
        raise HashRefused("The stored hash cannot be read")
    numbers = {name: int(number) for name, _, number in (part.partition("=") for part in found["parameters"].split(",") if part)}
    if [*numbers] != [*BOUNDS[kind].parameters]:
        raise HashRefused("The stored hash cannot be read")
    kept = found["digest"]
    read = ForeignHash(
        kind=kind,
        parameters=numbers,
        salt=from_base64(found["salt"]),
        digest=None if kept.startswith("argon2id$") else from_base64(kept),
        wrapping=f"${kept}" if kept.startswith("argon2id$") else None,
    )
    _require_bounded(read)
    return read


def decoy_of(shape: str) -> ForeignHash:
    """A hash of this shape that no password has. Raises `HashRefused`."""
    kind = _KINDS.get(shape.partition("$")[0])
    length = 16 if kind is None else BOUNDS[kind].digest[0]
    salt = bytes(16 if kind is None else min(max(16, BOUNDS[kind].salt[0]), BOUNDS[kind].salt[1]))
    found = _LENGTH.search(shape)
    if found is not None and len(found[1]) < 4:
        length = min(int(found[1]), 512)
    return read_stored(f"{PREFIX}{shape}${unpadded(salt)}${unpadded(bytes(length))}")


def unpadded(raw: bytes) -> str:
    return b64encode(raw).rstrip(b"=").decode()


def from_base64(text: str) -> bytes:
    """Reads standard base64, padded or not. Raises `HashRefused`."""
    try:
        return b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (Error, ValueError):
        raise HashRefused("The hash is not in base64") from None


_STORED: Final = re.compile(
    r"\$foreign\$(?P<kind>[a-z0-9-]{1,20})\$(?P<parameters>(?:[a-z]{1,2}=[0-9]{1,10})?(?:,[a-z]{1,2}=[0-9]{1,10}){0,4})"
    r"\$(?P<salt>[A-Za-z0-9+/]+)\$(?P<digest>[A-Za-z0-9+/]+|argon2id\$v=[0-9]{1,3}\$[a-z0-9=,]{1,60}\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+)"
)
_LENGTH: Final = re.compile(r"\bl=([0-9]+)\Z")
_KINDS: Final[Mapping[str, HashKind]] = {kind.value: kind for kind in HashKind}
_CUT: Final = frozenset({HashKind.PBKDF2_SHA1, HashKind.PBKDF2_SHA256, HashKind.PBKDF2_SHA512})
_SCRYPTS: Final = frozenset({HashKind.SCRYPT, HashKind.SCRYPT_STREAM, HashKind.SCRYPT_HEADER})
_ARGON2S: Final = frozenset({HashKind.ARGON2I, HashKind.ARGON2D, HashKind.ARGON2ID})


def _require_bounded(made: ForeignHash) -> None:
    bounds, numbers = BOUNDS[made.kind], made.parameters
    for name, (least, most) in bounds.parameters.items():
        if name == "l":
            continue
        if not least <= numbers[name] <= most:
            words = _word(made.kind, name)
            raise HashRefused(f"The {made.kind.value} hash has {_described(numbers[name])} {words}; Postern checks {least} to {most}")
    _require_length(made, "bytes of salt", len(made.salt), bounds.salt)
    length = numbers.get("l", bounds.digest[0])
    _require_length(made, "bytes of digest", length, bounds.digest)
    if made.digest is not None:
        _require_length(made, "bytes of digest", len(made.digest), (length, length))
    if made.kind in _SCRYPTS:
        _require_most(made, "KiB of memory", numbers["r"] * 2 ** numbers["ln"] // 8, _MOST_MEMORY_KIB)
        _require_most(made, "blocks", _blocks(numbers), _MOST_BLOCKS_OF_SCRYPT)
        if numbers["ln"] >= 16 * numbers["r"]:
            raise HashRefused(f"The {made.kind.value} hash has parameters that scrypt does not have")
    if made.kind in _ARGON2S:
        if numbers["v"] not in {16, 19} or numbers["m"] < 8 * numbers["p"]:
            raise HashRefused(f"The {made.kind.value} hash has parameters that Argon2 does not have")
        _require_most(made, "KiB in all passes", numbers["m"] * numbers["t"], _MOST_KIB_OF_ARGON2)


def _require_length(made: ForeignHash, words: str, length: int, bounds: tuple[int, int]) -> None:
    least, most = bounds
    if not least <= length <= most:
        allowed = str(least) if least == most else f"{least} to {most}"
        raise HashRefused(f"The {made.kind.value} hash has {length} {words}; Postern checks {allowed}")


def _require_most(made: ForeignHash, words: str, number: int, most: int) -> None:
    if number > most:
        raise HashRefused(f"The {made.kind.value} hash asks for {_described(number)} {words}; Postern checks at most {most}")


def _word(kind: HashKind, name: str) -> str:
    if name == "r":
        return "as the size of a block" if kind in _SCRYPTS else "as its cost"
    return "as the logarithm of its cost" if name == "ln" else _WORDS[name]


def _described(number: int) -> str:
    return str(number) if abs(number) < 10**12 else "too many"


def _blocks(numbers: Mapping[str, int]) -> int:
    return int(2 ** numbers["ln"]) * numbers["r"] * numbers["p"]
