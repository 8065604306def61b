"""Tables as files (CSV) that a spreadsheet may open."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Final

# A spreadsheet takes a cell that begins so for a formula, and runs it. Some take the wide, small, raised and lowered forms for the same.
_SIGNS: Final = "=+@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207c\u207a\u207b\u208c\u208a\u208b\ufb29\u2212-"
# Spreadsheets of many countries separate cells by semicolons, whatever separates them here. Then a cell also begins within one of ours, and
# quotes in its middle count for nothing.
_FORMULA: Final = re.compile(rf'((?:^|[,;])[\s"]*)(?=[{_SIGNS}])')
# Whoever separates by tabs, or takes a line for a row, would begin a cell there.
_BREAKS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def table_line(cells: Sequence[str]) -> str:
    """A line of the file. A formula gets an apostrophe in front, wherever a spreadsheet may begin a cell. Tabs and line breaks in a cell
    become spaces.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_FORMULA.sub(r"\1'", _BREAKS.sub(" ", cell)) for cell in cells])
    return out.getvalue()
