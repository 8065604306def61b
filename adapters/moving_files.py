"""The file in which an organization travels: compressed lines of JSON, sealed for the installation that receives it.

    ["head", {…}]                    what it is, who made it, and the schema of its rows
    ["part", "roles"]                the rows of one table follow, each an object on a line of its own
    {"id": …, "org_id": …, …}
    ["end", {…}]                     how many rows each part has, and the SHA-256 of their lines

Reading holds a few hundred rows at a time. The file never names a place on a disk. Everything in it may be hostile: sizes are bounded, and
whatever is wrong is an `UnfitFile` with one line.
"""

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from adapters.crypto.recipients import OpeningFile, RecipientKey, RecipientSecrets, SealingFile
from core.domain.platform.moving import FORMAT, AuditProof, FileEnd, FileHead, FilePart, UnfitFile
from core.frozen import Frozen
from ports.crypto import CannotOpen

Row = dict[str, msgspec.Raw]
T = TypeVar("T")

# A picture of 256 KiB is the largest value that a row may have, and it is written in hexadecimal digits.
LONGEST_LINE: Final = 4 << 20
_ROWS_AT_ONCE: Final = 500
_BYTES_AT_ONCE: Final = 4 << 20
# Rows compress to a tenth or so. A file that becomes far larger than that was made to.
_MOST_GROWTH: Final = 200
_ALWAYS_ALLOWED: Final = 16 << 20
_MOST_PARTS: Final = 500
_NAME: Final = re.compile(r"[a-z_]{1,63}")
_MODE: Final = 0o600


class FileExists(Exception):
    """The message is one sentence for the operator."""


class RowBatch(Frozen):
    part: str
    rows: Sequence[Row]


class FileWriter:
    """Writes beside the file's place, and gives the file its name when everything is on the disk. So there is no file that was cut off."""

    def __init__(self, path: Path, recipient: RecipientKey) -> None:
        if path.exists():
            raise FileExists(f"{path} is there already: name another file")
        self._path = path
        self._unfinished = path.with_name(f"{path.name}.unfinished")
        self._unfinished.unlink(missing_ok=True)
        self._file = os.fdopen(os.open(self._unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb")
        try:
            self._sealed = SealingFile(self._file, recipient)
        except BaseException:
            self.abandon()
            raise
        self._lines = gzip.GzipFile(fileobj=self._sealed, mode="wb", mtime=0)
        self._head = ""
        self._parts: list[FilePart] = []
        self._digest = sha256()
        self._rows = 0
        self._part: str | None = None

    def head(self, head: FileHead) -> None:
        line = _line("head", head)
        self._head = sha256(line).hexdigest()
        self._lines.write(line)

    def part(self, name: str) -> None:
        self._end_part()
        self._part, self._rows, self._digest = name, 0, sha256()
        self._lines.write(_line("part", name))

    def rows(self, rows: Sequence[bytes]) -> None:
        for row in rows:
            line = row + b"\n"
            if len(line) > LONGEST_LINE:
                raise UnfitFile(f"A row of {self._part} is longer than {LONGEST_LINE >> 20} MiB")
            self._digest.update(line)
            self._lines.write(line)
        self._rows += len(rows)

    @property
    def parts(self) -> Sequence[FilePart]:
        return self._parts

    def seal(self, audit: AuditProof) -> str:
        """Ends the file, and returns its digest. It still has no name."""
        self._end_part()
        line = _line("end", FileEnd(self._head, tuple(self._parts), audit))
        self._lines.write(line)
        self._lines.close()
        self._sealed.finish()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return sha256(line).hexdigest()

    def publish(self) -> None:
        self._unfinished.rename(self._path)

    def abandon(self) -> None:
        """Removes what has no name yet. May be called at any time."""
        self._file.close()
        self._unfinished.unlink(missing_ok=True)

    def _end_part(self) -> None:
        if self._part is not None:
            self._parts.append(FilePart(self._part, self._rows, self._digest.hexdigest()))
            self._part = None


class FileReader:
    """Reads a file from its beginning to its end. Raises `UnfitFile` wherever something is wrong."""

    def __init__(self, path: Path, secrets: RecipientSecrets) -> None:
        self._file = path.open("rb")
        self._most = _ALWAYS_ALLOWED + _MOST_GROWTH * path.stat().st_size
        self._read = 0
        try:
            with _refusing():
                self._lines = gzip.GzipFile(fileobj=io.BufferedReader(OpeningFile(self._file, secrets)), mode="rb")
                first = self._next()
            self.head = _value(first, "head", FileHead)
        except BaseException:
            self._file.close()
            raise
        if self.head.format > FORMAT:
            self._file.close()
            raise UnfitFile(f"The file has format {self.head.format}, and this Postern reads format {FORMAT}")
        if self.head.format < FORMAT or not self.head.migrations:
            self._file.close()
            raise UnfitFile(
                "The file does not say which migrations its columns come from: an older Postern has written it. "
                "Bring both installations to the same release, and export again"
            )
        self._head = sha256(first).hexdigest()
        self._found: list[FilePart] = []
        self._part: str | None = None
        self._rows = 0
        self._digest = sha256()
        self._told: FileEnd | None = None
        self._seal = ""

    @property
    def end(self) -> FileEnd:
        """What the file says of its parts. Only after the last batch."""
        if self._told is None:
            raise UnfitFile("The file has no end")
        return self._told

    @property
    def digest(self) -> str:
        """The file's digest, as the export printed it. Only after the last batch."""
        return self._seal

    def batches(self) -> Iterator[RowBatch]:
        rows: list[Row] = []
        size = 0
        while self._told is None:
            line = self._next()
            if line.startswith(b"{"):
                rows.append(self._row(line))
                size += len(line)
            if rows and (not line.startswith(b"{") or len(rows) == _ROWS_AT_ONCE or size > _BYTES_AT_ONCE):
                yield RowBatch(self._part or "", rows)
                rows, size = [], 0
            if not line.startswith(b"{"):
                self._turn(line)
        with _refusing():
            if self._lines.read(1):
                raise UnfitFile("The file goes on behind its end")

    def close(self) -> None:
        self._file.close()

    def _row(self, line: bytes) -> Row:
        if self._part is None:
            raise UnfitFile("The file has a row before its first part")
        self._rows += 1
        self._digest.update(line)
        row: Row = _decoded(line, Row, f"Row {self._rows} of {self._part}")
        return row

    def _turn(self, line: bytes) -> None:
        if self._part is not None:
            self._found.append(FilePart(self._part, self._rows, self._digest.hexdigest()))
        if not line.startswith(b'["part"'):
            told = _value(line, "end", FileEnd)
            if told.head != self._head or told.parts != tuple(self._found):
                raise UnfitFile(f"The file is not whole: {_difference(told, self._head, self._found)}")
            self._told, self._seal = told, sha256(line).hexdigest()
            return
        self._part, self._rows, self._digest = _value(line, "part", str), 0, sha256()
        if not _NAME.fullmatch(self._part):
            raise UnfitFile("A part of the file has no name of a table")
        if len(self._found) >= _MOST_PARTS or any(part.name == self._part for part in self._found):
            raise UnfitFile("The file has a part twice, or far too many")

    def _next(self) -> bytes:
        with _refusing():
            line = self._lines.readline(LONGEST_LINE + 1)
        self._read += len(line)
        if len(line) > LONGEST_LINE:
            raise UnfitFile(f"A line of the file is longer than {LONGEST_LINE >> 20} MiB")
        if self._read > self._most:
            raise UnfitFile("The file becomes far larger than what it was made of")
        if not line.endswith(b"\n"):
            raise UnfitFile("The file has no end")
        return line


class _refusing:  # noqa: N801 - it reads as a statement: `with _refusing():`
    """Says in one line what the layers below find wrong."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, CannotOpen):
            raise UnfitFile(f"The file cannot be opened: {error}") from None
        if isinstance(error, (gzip.BadGzipFile, EOFError, zlib.error)):
            raise UnfitFile("The file cannot be opened: its compression is broken") from None


def _line(word: str, value: Any) -> bytes:
    return msgspec.json.encode([word, value]) + b"\n"


def _value(line: bytes, word: str, kind: type[T]) -> T:
    found, value = _decoded(line, tuple[str, msgspec.Raw], f"The line for {word!r}")
    if found != word:
        raise UnfitFile(f"The file has another line where {word!r} is due")
    read: T = _decoded(bytes(value), kind, f"The line for {word!r}")
    return read


def _decoded(text: bytes, kind: Any, what: str) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnfitFile(f"{what} is not of the form that it must have") from None


def _difference(told: FileEnd, head: str, found: Sequence[FilePart]) -> str:
    if told.head != head:
        return "its first line was altered"
    by_name: Mapping[str, FilePart] = {part.name: part for part in found}
    for part in told.parts:
        here = by_name.get(part.name)
        if here is None:
            return f"{part.name[:60]!r} is missing"
        if here != part:
            return f"{part.name[:60]!r} was altered, or lacks rows"
    return "its parts are not those, or not in the order, that its end names"
