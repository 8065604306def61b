"""Where figures are kept: the newest of each case in docs/benchmarks.md, one table a subject; every run in docs/benchmarks-history.md.

The page is its own memory: a run reads it, replaces the rows of its own cases, and leaves the others.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ops.bench.report import HEADER, ROOT, Outcome, aligned, commit, hardware, machine, rows, table

PAGE: Final = ROOT / "docs" / "benchmarks.md"
HISTORY: Final = ROOT / "docs" / "benchmarks-history.md"

SUBJECTS: Final[Mapping[str, Sequence[str]]] = {
    "Beside other servers": ("peers", "providers"),
    "Starting and memory": ("start", "memory"),
    "Requests": ("http", "driver", "processes", "tokens", "pages"),
    "Passwords and signing in": ("argon2", "signin", "loaded", "crowd", "upstream"),
    "Connections": ("connections", "keepalive", "h2"),
    "Faults": ("kill", "postgres", "sigterm"),
    "Many rows": ("users", "tenants", "audit", "exported", "services", "deletion", "sweeper"),
    "Races": ("redeem", "seat", "place"),
    "What time tells": ("timing",),
    "Beside an earlier commit": ("against latency", "against lookups", "against signin"),
}
# The place of a case that no subject names.
OTHERS: Final = "Everything else"

_MACHINE: Final = re.compile(r"^Machine: (.*)\.$", re.MULTILINE)
_Rows = dict[str, list[Sequence[str]]]


def record(outcomes: Sequence[Outcome], busy: float, remark: str = "", *, page: Path = PAGE, history: Path = HISTORY) -> None:
    """Renews the page, and appends the run to the history."""
    now = datetime.now(UTC)
    words = [f"## {now:%Y-%m-%d %H:%M} UTC, commit {commit()}", f"{machine()}. Load average before: {busy:.1f}."]
    if remark:
        words.append(remark)
    words.append(table(outcomes))
    with history.open("a", encoding="utf-8") as file:
        file.write("\n" + "\n\n".join(words) + "\n")
    measured = f"{now:%Y-%m-%d}, {commit()}"
    fresh = {one.case: [(*row, measured) for row in rows(one)] for one in outcomes if one.skipped is None}
    page.write_text(renewed(page.read_text(encoding="utf-8"), fresh, hardware()), encoding="utf-8")


def renewed(text: str, fresh: Mapping[str, Sequence[Sequence[str]]], on: str) -> str:
    """The page with new rows for these cases. It describes one machine: figures of another one are removed."""
    head = text.partition("\n## ")[0].rstrip()
    found = _MACHINE.search(head)
    if found is None:
        head += f"\n\nMachine: {on}."
        kept: _Rows = {}
    else:
        kept = _kept(text) if found[1] == on else {}
        head = head.replace(found[0], f"Machine: {on}.")
    all_rows = {**kept, **fresh}
    named = {case for cases in SUBJECTS.values() for case in cases}
    subjects = {**SUBJECTS, OTHERS: [case for case in all_rows if case not in named]}
    sections = (_section(subject, [case for case in cases if case in all_rows], all_rows) for subject, cases in subjects.items())
    return "\n\n".join([head, *filter(None, sections)]) + "\n"


def _kept(text: str) -> _Rows:
    kept: _Rows = {}
    for line in text.splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if cells[0] != HEADER[0]:
                kept.setdefault(cells[0], []).append(cells)
    return kept


def _section(subject: str, cases: Sequence[str], all_rows: Mapping[str, Sequence[Sequence[str]]]) -> str:
    if not cases:
        return ""
    lines = aligned([(*HEADER, "measured"), *(row for case in cases for row in all_rows[case])])
    return f"## {subject}\n\n`{_command(cases)}`\n\n{lines}"


def _command(cases: Iterable[str]) -> str:
    words = [case.removeprefix("against ") for case in cases]
    against = "against REVISION " if any(case.startswith("against ") for case in cases) else ""
    return f".venv/bin/python -m ops.bench {against}{' '.join(words)}"
