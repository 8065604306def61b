"""Tables as files (CSV) that a spreadsheet may open."""

import csv
import io
from collections.abc import Sequence
from typing import Final

# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


def table_line(cells: Sequence[str]) -> str:
    """A line of the file. A cell that a spreadsheet would take for a formula gets an apostrophe in front."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([f"'{cell}" if cell.startswith(_FORMULAS) else cell for cell in cells])
    return out.getvalue()
