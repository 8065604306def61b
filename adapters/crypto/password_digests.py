"""Computes password digests: selects the build of Argon2, and verifies hashes of other systems."""

import hashlib
import hmac
import json
import struct
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

import bcrypt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from core.domain.identity.foreign_hashes.hashes import ForeignHash, HashKind
from core.domain.secrets import Password
from core.frozen import Frozen

DISTRIBUTION: Final = "argon2-cffi-bindings"
BUILD_RECORD: Final = "argon2-build.json"
_PROCESSOR: Final = Path("/proc/cpuinfo")


class BuiltForAnotherProcessor(Exception):
    """The build in use would end the process. The sentence says what to do."""


class Argon2Binding(Frozen):
    """`baseline` is the compiler's name of the processor that the build is for. `native` means the processor of the machine that built it,
    and None means that no record says. `missing` names the instructions that the build needs and this processor lacks. A published wheel is
    for any processor, and slow.

    The published wheel, or a build that `ops/build_argon2.py` made for this machine's processor.
    """

    version: str
    baseline: str | None
    processor: str
    missing: tuple[str, ...]
    is_published: bool = False

    @property
    def mend(self) -> str:
        """The command that builds the same version for this processor. It needs a C compiler."""
        flags = "CFLAGS='-O3 -march=native'"
        return f"{flags} pip install --force-reinstall --no-deps --no-binary {DISTRIBUTION} {DISTRIBUTION}=={self.version}"

    def __str__(self) -> str:
        if self.is_published:
            return f"{DISTRIBUTION} {self.version}, the wheel, for any processor"
        if self.baseline is None:
            return f"{DISTRIBUTION} {self.version}, built by hand"
        built = f"{DISTRIBUTION} {self.version}, built for {self.processor if self.baseline == 'native' else self.baseline}"
        return f"{built}, which has {', '.join(self.missing)}; this processor has not" if self.missing else built


def binding(prefix: Path | None = None, processor: Path = _PROCESSOR) -> Argon2Binding:
    """The installed build. This function only reads files: it does not load the build."""
    installed = distribution(DISTRIBUTION)
    record = _record((prefix or Path(sys.prefix)) / BUILD_RECORD)
    module = next((Path(str(file.locate())) for file in installed.files or () if file.name.startswith("_ffi.")), None)
    # pip may have put the wheel back over a build, and then the build's record is still there. The digest shows whether both belong
    # together.
    if record is None or module is None or record.get("module") != _digest(module):
        return Argon2Binding(installed.version, None, "", (), is_published=_is_published(installed.read_text("WHEEL") or ""))
    present = processor_features(processor)
    missing = tuple(sorted(set(record.get("needs", ())) - present)) if present else ()
    return Argon2Binding(installed.version, str(record.get("baseline")), str(record.get("processor")), missing)


def require_runnable() -> None:
    """Raises `BuiltForAnotherProcessor` instead of the SIGILL that would follow.

    A processor without the instructions of a build ends the process, and people copy virtual environments and images between machines. So
    each build has a record beside it, and the build is loaded only after its record has been compared with this processor.
    """
    try:
        found = binding()
    except PackageNotFoundError:
        return  # The import after this call raises its own error.
    if found.missing:
        raise BuiltForAnotherProcessor(
            f"{found}. Run ops/build_argon2.py in this environment, or reinstall {DISTRIBUTION}, before anything here can hash a password"
        )


def processor_features(processor: Path = _PROCESSOR) -> frozenset[str]:
    """The features of the processor, by the kernel's names. Empty when the system does not list them; then there is nothing to compare."""
    try:
        text = processor.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def _is_published(wheel: str) -> bool:
    """By the tags of the wheel: only a registry's wheel is for many systems."""
    return any(system in wheel for system in ("manylinux", "musllinux", "macosx"))


def _record(path: Path) -> Mapping[str, Any] | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


# OpenSSL asks for a little more memory than scrypt's table.
_SCRYPT_MEMORY: Final = 256 * 1024 * 1024
_LONGEST_FOR_BCRYPT: Final = 72
# A thread that computes SHA-crypt gives the interpreter's lock away after so many rounds, a tenth of a millisecond.
_ROUNDS_AT_A_TIME: Final = 64
_STANDARD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OF_BCRYPT: Final = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_TO_BCRYPT: Final = bytes.maketrans(_STANDARD, _OF_BCRYPT)
_FROM_BCRYPT: Final = bytes.maketrans(_OF_BCRYPT, _STANDARD)
_ARGON2S: Final = {HashKind.ARGON2D: 0, HashKind.ARGON2I: 1, HashKind.ARGON2ID: 2}


def digest_of(password: Password, foreign: ForeignHash) -> bytes:
    """The digest that the right password has. The password is taken as it was typed, as other systems take it.

    Blocks, in a hashing thread, and does not hold the interpreter's lock for long.
    """
    return _DIGESTS[foreign.kind](password.reveal().encode("utf-8", "surrogatepass"), foreign)


def _bcrypt(password: bytes, foreign: ForeignHash) -> bytes:
    # Everybody's bcrypt reads 72 bytes.
    made = bcrypt.hashpw(password[:_LONGEST_FOR_BCRYPT], b"$2b$%02d$%s" % (foreign.parameters["r"], _bcrypt_base64(foreign.salt)))
    return _from_bcrypt_base64(made[-31:])


def _bcrypt_sha256(password: bytes, foreign: ForeignHash) -> bytes:
    return _bcrypt(hashlib.sha256(password).hexdigest().encode(), foreign)


def _bcrypt_hmac_sha256(password: bytes, foreign: ForeignHash) -> bytes:
    return _bcrypt(b64encode(hmac.digest(_bcrypt_base64(foreign.salt), password, "sha256")), foreign)


def _bcrypt_hmac_sha384(password: bytes, foreign: ForeignHash) -> bytes:
    return _bcrypt(b64encode(hmac.digest(b"wp-sha384", password, "sha384")), foreign)


def _pbkdf2(name: str, password: bytes, foreign: ForeignHash) -> bytes:
    return hashlib.pbkdf2_hmac(name, password, foreign.salt, foreign.parameters["i"], foreign.parameters["l"])


def _scrypt(password: bytes, foreign: ForeignHash) -> bytes:
    return _of_scrypt(password, foreign, foreign.parameters["l"])


def _scrypt_stream(password: bytes, foreign: ForeignHash) -> bytes:
    encryptor = Cipher(AES256(_of_scrypt(password, foreign, 32)), CTR(bytes(16))).encryptor()
    return encryptor.update(bytes(foreign.parameters["l"])) + encryptor.finalize()


def _scrypt_header(password: bytes, foreign: ForeignHash) -> bytes:
    numbers = foreign.parameters
    header = struct.pack(">6s2BII", b"scrypt", 0, numbers["ln"], numbers["r"], numbers["p"]) + foreign.salt
    header += hashlib.sha256(header).digest()[:16]
    return hmac.digest(_of_scrypt(password, foreign, 64)[32:], header, "sha256")


def _of_scrypt(password: bytes, foreign: ForeignHash, length: int) -> bytes:
    numbers = foreign.parameters
    return hashlib.scrypt(
        password, salt=foreign.salt, n=2 ** numbers["ln"], r=numbers["r"], p=numbers["p"], maxmem=_SCRYPT_MEMORY, dklen=length
    )


def _argon2(password: bytes, foreign: ForeignHash) -> bytes:
    from argon2 import low_level  # noqa: PLC0415 - loading a build for another processor can end the process

    numbers = foreign.parameters
    made: bytes = low_level.hash_secret_raw(
        password,
        foreign.salt,
        time_cost=numbers["t"],
        memory_cost=numbers["m"],
        parallelism=numbers["p"],
        hash_len=numbers["l"],
        type=low_level.Type(_ARGON2S[foreign.kind]),
        version=numbers["v"],
    )
    return made


def _ssha(name: str, password: bytes, foreign: ForeignHash) -> bytes:
    return hashlib.new(name, password + foreign.salt, usedforsecurity=False).digest()


def _sha_crypt(name: str, password: bytes, foreign: ForeignHash) -> bytes:
    """Drepper's "Unix crypt using SHA-256 and SHA-512", version 0.6."""
    new, salt = partial(hashlib.new, name), foreign.salt
    inner = new(password + salt + password).digest()
    first = new(password + salt + _repeated(inner, len(password)))
    bits = len(password)
    while bits:
        first.update(inner if bits & 1 else password)
        bits >>= 1
    made = first.digest()
    typed = _repeated(new(password * len(password)).digest(), len(password))
    salted = _repeated(new(salt * (16 + made[0])).digest(), len(salt))
    # What a round hashes beside the digest of the round before depends on its number alone, and comes again after 42 rounds.
    around = [
        ((typed if number % 2 else b"", (salted if number % 3 else b"") + (typed if number % 7 else b"") + (b"" if number % 2 else typed)))
        for number in range(42)
    ]
    for number in range(foreign.parameters["i"]):
        before, after = around[number % 42]
        # In odd rounds, the digest comes last.
        made = new(before + after + made if number % 2 else made + after).digest()
        if not number % _ROUNDS_AT_A_TIME:
            time.sleep(0)
    return made


def _phpass(password: bytes, foreign: ForeignHash) -> bytes:
    made = hashlib.md5(foreign.salt + password, usedforsecurity=False).digest()
    for number in range(2 ** foreign.parameters["ln"]):
        made = hashlib.md5(made + password, usedforsecurity=False).digest()
        if not number % _ROUNDS_AT_A_TIME:
            time.sleep(0)
    return made


def _bcrypt_base64(raw: bytes) -> bytes:
    return b64encode(raw).rstrip(b"=").translate(_TO_BCRYPT)


def _from_bcrypt_base64(text: bytes) -> bytes:
    return b64decode(text.translate(_FROM_BCRYPT) + b"=" * (-len(text) % 4))


def _repeated(block: bytes, length: int) -> bytes:
    return (block * (length // len(block) + 1))[:length]


_DIGESTS: Final[Mapping[HashKind, Callable[[bytes, ForeignHash], bytes]]] = {
    HashKind.BCRYPT: _bcrypt,
    HashKind.BCRYPT_SHA256: _bcrypt_sha256,
    HashKind.BCRYPT_HMAC_SHA256: _bcrypt_hmac_sha256,
    HashKind.BCRYPT_HMAC_SHA384: _bcrypt_hmac_sha384,
    HashKind.PBKDF2_SHA1: partial(_pbkdf2, "sha1"),
    HashKind.PBKDF2_SHA256: partial(_pbkdf2, "sha256"),
    HashKind.PBKDF2_SHA512: partial(_pbkdf2, "sha512"),
    HashKind.SCRYPT: _scrypt,
    HashKind.SCRYPT_STREAM: _scrypt_stream,
    HashKind.SCRYPT_HEADER: _scrypt_header,
    HashKind.ARGON2I: _argon2,
    HashKind.ARGON2D: _argon2,
    HashKind.ARGON2ID: _argon2,
    HashKind.SHA256_CRYPT: partial(_sha_crypt, "sha256"),
    HashKind.SHA512_CRYPT: partial(_sha_crypt, "sha512"),
    HashKind.SSHA: partial(_ssha, "sha1"),
    HashKind.SSHA256: partial(_ssha, "sha256"),
    HashKind.SSHA512: partial(_ssha, "sha512"),
    HashKind.PHPASS: _phpass,
}
