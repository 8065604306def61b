"""Reads tables (CSV), row by row, with a bound on what stands in memory."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO, Final

from adapters.imports.documents import BrokenFile
from adapters.imports.files import BytesRead, Line, lines, made
from core.domain.platform.imports.records import Found, ImportedPerson, UnreadableRecord
from core.frozen import Frozen
from ports.jobs import Advance

LONGEST: Final = 1 << 20
_CUT: Final = "unexpected end of data"
"""Our reader of CSV says so of a quotation mark that nothing closes."""
_LONGEST_FIELD: Final = 1 << 17
"""Also the most that an open quotation mark can swallow."""


class BrokenTable(Exception):
    """The table cannot be read. The text says why, in one line."""


class EmptyTable(BrokenTable):
    pass


class Row(Frozen):
    number: int
    """The line at which the row ends."""
    cells: Mapping[str, str] | None
    fault: str = ""


class Unnamed(Frozen):
    """The columns of a table whose first line names none. Each row has the first `least` of them; some versions write more."""

    columns: Sequence[str]
    least: int


def count_rows(path: Path, delimiter: str, advance: Advance, unnamed: Unnamed | None = None) -> int:
    """The number of rows beneath the names. Raises `BrokenFile` for a table that ends in the middle: its last line has no end, which cells
    that were cut look like, too.
    """
    with path.open("rb") as file:
        table = PeopleTable(file, delimiter, unnamed)
        count = sum(1 for _ in table.rows())
        size = file.tell()
        if not size:
            raise BrokenFile(path, "it is empty", 1, 0)
        file.seek(-1, SEEK_END)
        advance(size)
        if file.read() != b"\n":
            raise BrokenFile(path, "the last line has no end. If the file is whole, add a line break", table.number, size)
    if table.ends_in_cell:
        raise BrokenFile(path, "it ends in the middle of a cell", table.number, size)
    return count


class PeopleTable:
    def __init__(self, file: BinaryIO, delimiter: str, unnamed: Unnamed | None = None) -> None:
        """Reads the names of the columns, where the table has them. Raises `BrokenTable`."""
        csv.field_size_limit(_LONGEST_FIELD)
        self.number = 0
        self.ends_in_cell = False
        self._too_long = False
        self._rows = csv.reader(self._texts(lines(file, LONGEST)), delimiter=delimiter, strict=True)
        self._unnamed = unnamed
        if unnamed is not None:
            self.columns = tuple(unnamed.columns)
            return
        try:
            self.columns = tuple(name.strip().removeprefix("\ufeff") for name in next(self._rows))
        except StopIteration:
            raise EmptyTable("it is empty") from None
        except csv.Error as error:
            raise BrokenTable(f"The names of the columns cannot be read: {error}") from None
        if len(set(self.columns)) < len(self.columns):
            raise BrokenTable("Two columns have the same name")

    def rows(self) -> Iterator[Row]:
        while True:
            try:
                cells = next(self._rows)
            except StopIteration:
                return
            except csv.Error as error:
                self.ends_in_cell = str(error) == _CUT
                yield Row(self.number, None, f"the row cannot be read: {error}")
                continue
            if self._too_long:
                self._too_long = False
                yield Row(self.number, None, f"the line has more than {LONGEST} bytes")
            elif self._unnamed is not None and len(cells) >= self._unnamed.least:
                yield Row(self.number, dict(zip(self.columns, cells, strict=False)))
            elif len(cells) != len(self.columns):
                yield Row(self.number, None, f"the row has {len(cells)} cells, and not {len(self.columns)}")
            else:
                yield Row(self.number, dict(zip(self.columns, cells, strict=True)))

    def _texts(self, found: Iterator[Line]) -> Iterator[str]:
        for line in found:
            self.number = line.number
            self._too_long = line.content is None
            yield "\n" if line.content is None else line.content.decode("utf-8", "replace")


def people_of_rows(
    table: PeopleTable, name: str, person: Callable[[Mapping[str, str], str], ImportedPerson], read: BytesRead
) -> Iterator[Found]:
    """`name` is the file's, or empty where it need not be told."""
    for row in table.rows():
        place = f"{name}, line {row.number}".removeprefix(", ")
        read.add(sum(map(len, (row.cells or {}).values())))
        yield UnreadableRecord(place, row.fault) if row.cells is None else made(person, row.cells, place)
