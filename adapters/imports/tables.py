"""Reads tables (CSV), row by row, with a bound on what stands in memory."""

import csv
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

from adapters.imports.lines import Line, lines
from core.frozen import Frozen

LONGEST: Final = 1 << 20
_LONGEST_FIELD: Final = 1 << 17
"""Also the most that an open quotation mark can swallow."""


class BrokenTable(Exception):
    """The table cannot be read. The text says why, in one line."""


class Row(Frozen):
    number: int
    """The line at which the row ends."""
    cells: Mapping[str, str] | None
    fault: str = ""


class PeopleTable:
    def __init__(self, file: BinaryIO, delimiter: str) -> None:
        """Reads the names of the columns. Raises `BrokenTable`."""
        csv.field_size_limit(_LONGEST_FIELD)
        self._number = 0
        self._too_long = False
        self._rows = csv.reader(self._texts(lines(file, LONGEST)), delimiter=delimiter, strict=True)
        try:
            self.columns = tuple(name.strip().removeprefix("\ufeff") for name in next(self._rows))
        except StopIteration:
            raise BrokenTable("The file is empty") from None
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
                yield Row(self._number, None, f"the row cannot be read: {error}")
                continue
            if self._too_long:
                self._too_long = False
                yield Row(self._number, None, f"the line has more than {LONGEST} bytes")
            elif len(cells) != len(self.columns):
                yield Row(self._number, None, f"the row has {len(cells)} cells, and not {len(self.columns)}")
            else:
                yield Row(self._number, dict(zip(self.columns, cells, strict=True)))

    def _texts(self, found: Iterator[Line]) -> Iterator[str]:
        for line in found:
            self._number = line.number
            self._too_long = line.content is None
            yield "\n" if line.content is None else line.content.decode("utf-8", "replace")
