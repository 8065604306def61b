"""Builds a filter of breached passwords from public lists of hashes: a hash in hexadecimal digits on each line, perhaps with a count."""

import gzip
import mmap
import os
import struct
import sys
import tempfile
import zlib
from binascii import Error as NotHexadecimal
from binascii import unhexlify
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import IO, Final, cast

from adapters.crypto.known_passwords.filters import BLOCK, HASH, FilterHead, ListedHash, blocks_for, digest_of
from ports.jobs import Advance

_GZIP: Final = b"\x1f\x8b"
_CHUNK: Final = 1 << 20
# After so many hashes the pages of the new file are given back: each hash has touched one at most, so 128 MiB.
_HASHES_BETWEEN: Final = 1 << 15
_AFTER_A_HASH: Final = frozenset((b":", b"\n", b"\r", b" ", b"\t", b""))
_LONGEST_LINE: Final = 512


class NoListOfHashes(Exception):
    """The message names the file, the line if there is one, and the reason."""


def build_filter(lists: Sequence[Path], out: Path, day: date, advance: Advance) -> FilterHead:
    """Writes the filter beside `out` first, and then in its place. `advance` hears of lines that were read, twice of each. Raises
    `NoListOfHashes`, `OSError`.

    The lists are read twice, first for how many lines they have. Memory stays small however long they are, ordered or not: the pages of the
    new file are given back to the system again and again, and it writes them when it likes.
    """
    kind, lines = _counted(lists, advance)
    with _beside(out) as (file, name):
        blocks = blocks_for(lines)
        size = BLOCK * (1 + blocks)
        os.ftruncate(file, size)
        if sys.platform != "darwin":  # it cannot
            # The place on the disk, too: a page of the map that gets none ends the process.
            os.posix_fallocate(file, 0, size)
        with mmap.mmap(file, size) as pages:
            count = sum(_add(pages, blocks, path, kind, advance) for path in lists)
            pages.flush()
        head = FilterHead(kind, day, count, blocks)
        os.pwrite(file, head.packed(digest_of(file, head)), 0)
        os.fchmod(file, 0o644)  # the lists are public, and the one who serves is often somebody else
        os.fsync(file)
        name.replace(out)
    return head


@contextmanager
def _beside(out: Path) -> Iterator[tuple[int, Path]]:
    """A new file that is gone again unless it has got its place."""
    file, text = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    try:
        yield file, Path(text)
    finally:
        os.close(file)
        Path(text).unlink(missing_ok=True)


def _counted(lists: Sequence[Path], advance: Advance) -> tuple[ListedHash, int]:
    """The kind of all lists, and at least as many lines as they have."""
    kinds: dict[ListedHash, Path] = {}
    lines = 0
    for path in lists:
        if not path.is_file():
            raise NoListOfHashes(f"{path}: is no file that can be read twice")
        with _read(path) as text:
            line = text.readline(_LONGEST_LINE)
            kind = _kind(path, line)
            kinds.setdefault(kind, path)
            lines += 1
            number = 1 + line.endswith(b"\n")
            while chunk := text.read(_CHUNK):
                found = chunk.count(b"\n")
                if not found and len(chunk) == _CHUNK:
                    # A line without an end would be read into memory as a whole.
                    raise NoListOfHashes(f"{path}, line {number}: is no hash of {kind.digits} digits")
                number += found
                lines += found
                advance(found)
            lines += 1  # the last line may have no end
    if len(kinds) > 1:
        first, other = kinds.values()
        raise NoListOfHashes(f"{other}: has hashes of another kind than {first}: a filter has one kind")
    return next(iter(kinds)), lines


def _kind(path: Path, line: bytes) -> ListedHash:
    digits = line.split(b":")[0].strip()
    for kind in ListedHash:
        if len(digits) == kind.digits:
            return kind
    raise NoListOfHashes(f"{path}, line 1: is no hash of 40 digits (SHA-1) or 32 (NTLM)")


def _add(pages: mmap.mmap, blocks: int, path: Path, kind: ListedHash, advance: Advance) -> int:
    """Sets the bits of all hashes of a list, and returns how many it has."""
    digits, unpack, number = kind.digits, HASH.unpack_from, 0
    blank = 0
    with _read(path) as text:
        for number, line in enumerate(text, 1):
            try:
                first, *words = unpack(unhexlify(line[:digits]))
            except (NotHexadecimal, struct.error):
                if not line.strip():
                    blank += 1
                    continue
                raise NoListOfHashes(f"{path}, line {number}: is no hash of {digits} digits") from None
            if line[digits : digits + 1] not in _AFTER_A_HASH or len(line) < digits:
                raise NoListOfHashes(f"{path}, line {number}: is no hash of {digits} digits")
            at = BLOCK + (first * blocks >> 32) * BLOCK
            for word in words:
                pages[at + (word >> 3 & 0xFFF)] |= 1 << (word & 7)
            if not number % _HASHES_BETWEEN:
                pages.madvise(mmap.MADV_DONTNEED)
                advance(_HASHES_BETWEEN)
    return number - blank


@contextmanager
def _read(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
        file.seek(0)
        if not zipped:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as text:
            try:
                yield cast("IO[bytes]", text)
            except (EOFError, OSError, zlib.error) as error:
                raise NoListOfHashes(f"{path}: is no whole gzip file: {error}") from None
