"""The report of an import: as a table on the terminal, and line by line as a file."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from core.domain.formats import table_line
from core.domain.platform.imports.reports import Brought, Outcome, ReportLine, Tally
from entrypoints.cli.output.printing import printable
from entrypoints.failures import StartFailed

_COLUMNS: Final = ("place", "id", "email", "outcome", "account", "notes")
_MOST_SHOWN: Final = 20
_OUTCOMES: Final = {
    Outcome.TAKEN: "with a new account",
    Outcome.MERGED: "an account has the address: it gets nothing but ties",
    Outcome.KNOWN: "an import has taken them before",
    Outcome.LEFT_OUT: "",
}

WriteLines = Callable[[Sequence[ReportLine]], None]


@contextmanager
def report_file(path: Path | None) -> Iterator[WriteLines]:
    """Writes the lines into a new file that only its owner reads: the report names people. Raises `StartFailed`."""
    if path is None:
        yield lambda _lines: None
        return
    written = {".csv": _table, ".ndjson": _objects}.get(path.suffix)
    if written is None:
        raise StartFailed(f"{path}: the name of a report ends with .csv or .ndjson")
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise StartFailed(f"{path} is there already: name another file for the report") from None
    except OSError as error:
        raise StartFailed(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(opened, "w", encoding="utf-8", newline="") as out:
        yield written(out)


def _table(out: TextIO) -> WriteLines:
    out.write(table_line(_COLUMNS))

    def write(lines: Sequence[ReportLine]) -> None:
        out.writelines(table_line([*_cells(one)[:-1], "; ".join(one.notes)]) for one in lines)
        out.flush()

    return write


def _objects(out: TextIO) -> WriteLines:
    def write(lines: Sequence[ReportLine]) -> None:
        for one in lines:
            cells: Mapping[str, Any] = dict(zip(_COLUMNS, (*_cells(one)[:-1], list(one.notes)), strict=True))
            out.write(json.dumps(cells) + "\n")
        out.flush()

    return write


def _cells(line: ReportLine) -> tuple[str, ...]:
    return line.place, line.id, line.email, line.outcome.value, "" if line.account is None else str(line.account), ""


def totals(tally: Tally) -> Mapping[str, Any]:
    """For programs."""
    return {
        "outcomes": {outcome.value: tally.outcomes[outcome] for outcome in Outcome},
        "brought": {part.value: tally.parts[part] for part in Brought if tally.parts[part]},
        "left_out": dict(tally.left_out),
        "stayed_behind": dict(tally.stayed_behind),
    }


def summary(tally: Tally) -> Iterator[str]:
    """The lines of the table."""
    for outcome, words in _OUTCOMES.items():
        yield f"{_number(tally.outcomes[outcome])}  {outcome.value:<9} {words}".rstrip()
    if tally.parts:
        yield ""
        yield "What they bring:"
        yield from (f"{_number(tally.parts[part])}  {part.value}" for part in Brought if tally.parts[part])
    yield from _reasons("Left out:", tally.left_out)
    yield from _reasons("What stays behind of the people above, or is to be known:", tally.stayed_behind)


def _reasons(title: str, counted: Counter[str]) -> Iterator[str]:
    if not counted:
        return
    yield ""
    yield title
    for reason, count in counted.most_common(_MOST_SHOWN):
        yield f"{_number(count)}  {printable(reason, 200)}"
    if len(counted) > _MOST_SHOWN:
        yield f"{'':>12}  {len(counted) - _MOST_SHOWN} further reasons: see the report (--report)"


def _number(count: int) -> str:
    return f"{count:>12,}".replace(",", " ")
