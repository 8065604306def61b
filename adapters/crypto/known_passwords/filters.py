"""The filter of breached passwords: one file that says of a hash whether it stands in the lists that the file was made of.

After a page with the header come blocks of a page each, and a hash sets six bits of one block. Its first four bytes name the block, so
that ordered lists are written in order; six words of two bytes name the bits. All numbers are big-endian. About three in a thousand
hashes of no list are taken for one.
"""

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

from adapters.crypto.known_passwords.md4 import md4
from core.domain.secrets import Password
from core.frozen import Frozen

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
