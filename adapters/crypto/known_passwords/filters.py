"""The filter file of breached passwords that the operator names."""

import hashlib
import os
import stat
import struct
import sys
from collections.abc import Callable, Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from struct import Struct
from typing import Final

import structlog
import trio

from core.domain.secrets import Password
from core.frozen import Frozen
from ports.crypto import ListedPasswords

log = structlog.get_logger()


_BLOCK: Final = Struct("<16I")
_STATE: Final = Struct("<4I")
_WORD: Final = 0xFFFFFFFF
_BEGINNING: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_SECOND: Final = 0x5A827999
_THIRD: Final = 0x6ED9EBA1
# Each round's order of the words of a block, and by how much each step rotates.
_ROUNDS: Final = (
    (tuple(range(16)), (3, 7, 11, 19)),
    ((0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), (3, 5, 9, 13)),
    ((0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15), (3, 9, 11, 15)),
)
_FIRST_STEPS, _SECOND_STEPS, _THIRD_STEPS = (
    tuple((word, shifts[step % 4], 32 - shifts[step % 4]) for step, word in enumerate(order)) for order, shifts in _ROUNDS
)


def md4(text: bytes) -> bytes:
    """MD4 as RFC 1320 describes it. Lists of NTLM hashes are made with it, and OpenSSL no longer offers it. It protects nothing here."""
    padded = text + b"\x80" + bytes(-(len(text) + 9) % 64) + (8 * len(text)).to_bytes(8, "little")
    state = _BEGINNING
    for at in range(0, len(padded), 64):
        state = _mixed(state, _BLOCK.unpack_from(padded, at))
    return _STATE.pack(*state)


def _mixed(state: tuple[int, int, int, int], words: tuple[int, ...]) -> tuple[int, int, int, int]:
    a, b, c, d = state
    for word, left, right in _FIRST_STEPS:
        mixed = (a + (d ^ (b & (c ^ d))) + words[word]) & _WORD
        a, b, c, d = d, (mixed << left | mixed >> right) & _WORD, b, c
    for word, left, right in _SECOND_STEPS:
        mixed = (a + (b & c | b & d | c & d) + words[word] + _SECOND) & _WORD
        a, b, c, d = d, (mixed << left | mixed >> right) & _WORD, b, c
    for word, left, right in _THIRD_STEPS:
        mixed = (a + (b ^ c ^ d) + words[word] + _THIRD) & _WORD
        a, b, c, d = d, (mixed << left | mixed >> right) & _WORD, b, c
    return tuple((old + new) & _WORD for old, new in zip(state, (a, b, c, d), strict=True))  # type: ignore[return-value]  # four of four


BLOCK: Final = 4096
HASH: Final = Struct(">I6H")
"""What counts of a hash: its first 16 bytes."""
_BITS_OF_A_HASH: Final = 12.5
_MAGIC: Final = b"postern-password"
_VERSION: Final = 1
_HEAD: Final = Struct(">16sH4s10sQI")
_DIGEST_SIZE: Final = 32
_CHUNK: Final = 1 << 20


class ListedHash(StrEnum):
    """How the hashes of a list were made."""

    SHA1 = "sha1"
    NTLM = "ntlm"

    @property
    def digits(self) -> int:
        return 40 if self is ListedHash.SHA1 else 32


class FilterUnusable(Exception):
    """The message completes a sentence that begins with the file."""


class FilterHead(Frozen):
    kind: ListedHash
    day: date
    """When the lists were read."""
    count: int
    blocks: int

    @property
    def size(self) -> int:
        """Of the whole file."""
        return BLOCK * (1 + self.blocks)

    def packed(self, digest: bytes) -> bytes:
        head = _HEAD.pack(_MAGIC, _VERSION, self.kind.value.encode(), self.day.isoformat().encode(), self.count, self.blocks)
        return (head + digest).ljust(BLOCK, b"\0")


def blocks_for(count: int) -> int:
    return max(1, -int(-count * _BITS_OF_A_HASH // (8 * BLOCK)))


def head_of(page: bytes) -> FilterHead:
    """Raises `FilterUnusable`."""
    try:
        magic, version, kind, day, count, blocks = _HEAD.unpack_from(page)
    except struct.error:
        raise FilterUnusable("is too short for a filter of passwords") from None
    if magic != _MAGIC:
        raise FilterUnusable("is no filter of passwords: make one with `postern passwords build`")
    if version != _VERSION:
        raise FilterUnusable(f"has version {version} of the format, and this Postern reads version {_VERSION}: build it again")
    try:
        head = FilterHead(ListedHash(kind.decode()), date.fromisoformat(day.decode()), count, blocks)
    except ValueError:
        raise FilterUnusable("has a damaged header") from None
    if not blocks:
        raise FilterUnusable("has a damaged header")
    return head


def digest_of(file: int, head: FilterHead) -> bytes:
    """The digest of an open filter: everything but the digest itself."""
    digest = hashlib.sha256(head.packed(bytes(_DIGEST_SIZE)))
    at = BLOCK
    while chunk := os.pread(file, _CHUNK, at):
        digest.update(chunk)
        at += len(chunk)
    return digest.digest()


class FileState(Frozen):
    """What tells one content of a file from another without reading it."""

    device: int
    number: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileState":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class PasswordFilter:
    """An opened and verified filter. Each question reads one page, which processes share in the system's cache. It is read, and not mapped:
    a page of a map that somebody cuts off, or that the disk does not give, ends the process. A file that is written over, rather than
    exchanged, knows nothing from then on.

    The file tells of a hash whether it is in the lists that the file was made of. After a page with the header come blocks of a page each,
    and a hash sets six bits of one block. Its first four bytes name the block, so that ordered lists are written in order; six words of two
    bytes name the bits. All numbers are big-endian. About three in a thousand hashes of no list are taken for one.
    """

    def __init__(self, file: int, head: FilterHead, state: FileState) -> None:
        self.head = head
        self.state = state
        self._file: int | None = file
        if sys.platform != "darwin":  # it has no such word
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        self._hash = _HASHES[head.kind]

    def contains(self, password: Password) -> bool:
        return self.contains_hash(self._hash(password.reveal()))

    def contains_hash(self, digest: bytes) -> bool:
        first, *words = HASH.unpack_from(digest)
        try:
            page = os.pread(self._open(), BLOCK, BLOCK + (first * self.head.blocks >> 32) * BLOCK)
        except OSError:
            return False
        # Only now: what is written over after the look does not change what was read.
        return self.is_unchanged() and all(page[word >> 3 & 0xFFF] >> (word & 7) & 1 for word in words)

    def is_unchanged(self) -> bool:
        status = os.fstat(self._open())
        return status.st_size == self.state.size and status.st_mtime_ns == self.state.changed

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        # A filter whose place another has taken.
        self.close()

    def _open(self) -> int:
        if self._file is None:
            raise ValueError("The filter is closed")
        return self._file


def open_filter(path: Path) -> PasswordFilter:
    """Reads the whole file once. Raises `FilterUnusable`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise FilterUnusable(f"cannot be read: {error.strerror}") from None
    try:
        return _opened(file)
    except OSError as error:
        os.close(file)
        raise FilterUnusable(f"cannot be read: {error.strerror}") from None
    except FilterUnusable:
        os.close(file)
        raise


def filter_head(path: Path) -> FilterHead:
    """The header alone, by one read. Raises `FilterUnusable`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return _whole(file, os.fstat(file))[0]
        finally:
            os.close(file)
    except OSError as error:
        raise FilterUnusable(f"cannot be read: {error.strerror}") from None


def _opened(file: int) -> PasswordFilter:
    status = os.fstat(file)
    head, digest = _whole(file, status)
    if digest_of(file, head) != digest:
        raise FilterUnusable("is damaged: its digest is another")
    if FileState.of(os.fstat(file)) != FileState.of(status):
        raise FilterUnusable("changes while it is read: put a new one in its place by renaming")
    return PasswordFilter(file, head, FileState.of(status))


def _whole(file: int, status: os.stat_result) -> tuple[FilterHead, bytes]:
    """The header and the digest of a file of the right size."""
    if not stat.S_ISREG(status.st_mode):
        raise FilterUnusable("is no file")
    page = os.pread(file, BLOCK, 0)
    head = head_of(page)
    if status.st_size != head.size:
        raise FilterUnusable(f"has {status.st_size} bytes, and its header says {head.size}: it is cut off, or damaged")
    return head, page[_HEAD.size : _HEAD.size + _DIGEST_SIZE]


def _sha1(text: str) -> bytes:
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()


def _ntlm(text: str) -> bytes:
    return md4(text.encode("utf-16-le", "surrogatepass"))


_HASHES: Final[Mapping[ListedHash, Callable[[str], bytes]]] = {ListedHash.SHA1: _sha1, ListedHash.NTLM: _ntlm}


class NoBreachedPasswords:
    """Implements `ports.crypto.BreachedPasswords` for an installation with neither a filter nor a service."""

    async def contains(self, password: Password) -> bool:  # noqa: ARG002 - the port's
        return False


class WatchedFilter:
    """Implements `ports.crypto.BreachedPasswords` and `WatchedFile`.

    A new file under the configured name takes effect without a restart, once it has been verified; until then, and if it is invalid, the
    one before stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._current: PasswordFilter | None = None
        self._seen: FileState | str | None = None
        """What the last look found: a content, or the reason why there is none. Each is logged once."""
        self._limiter = trio.CapacityLimiter(1)

    async def contains(self, password: Password) -> bool:
        if self._seen is None:
            await self.look()  # the first question waits until the file is read; a command has no watcher
        current = self._current
        return current is not None and current.contains(password)

    async def look(self) -> ListedPasswords | None:
        await trio.to_thread.run_sync(self._look, limiter=self._limiter)
        current = self._current
        if current is None or not current.is_unchanged():
            return None
        return ListedPasswords(current.head.count, current.head.day)

    def _look(self) -> None:
        try:
            state = FileState.of(os.stat(self._path))  # noqa: PTH116 - in a thread
        except OSError as error:
            self._refuse(f"cannot be read: {error.strerror}", f"cannot be read: {error.strerror}")
            return
        if state == self._seen:
            return
        try:
            opened = open_filter(self._path)
        except FilterUnusable as refusal:
            self._refuse(state, str(refusal))
            return
        self._current, self._seen = opened, opened.state
        log.info(
            "password_filter_opened",
            file=str(self._path),
            hashes=opened.head.count,
            kind=opened.head.kind.value,
            day=opened.head.day.isoformat(),
        )

    def _refuse(self, seen: FileState | str, reason: str) -> None:
        if seen != self._seen:
            self._seen = seen
            # One that was written over knows nothing any more.
            kept = self._current is not None and self._current.is_unchanged()
            log.error("password_filter_refused", file=str(self._path), reason=reason, kept=kept)
