"""docs/benchmarks.md keeps the newest figure of each bar, one table a subject, and begins with what a reader wants of them. Older figures
are in git.

The page is its own memory: a run reads the page, replaces the rows of its own cases, and leaves the other rows. A figure without a bar is
printed and not kept: nobody could tell from it whether something has become worse.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from ops.bench.report import HEADER, ROOT, Figure, Outcome, aligned, commit, hardware, number, rows

PAGE: Final = ROOT / "docs" / "benchmarks.md"

SUBJECTS: Final[Mapping[str, Sequence[str]]] = {
    "Beside other servers": ("peers", "providers"),
    "Starting and memory": ("start", "memory"),
    "Requests": ("http", "driver", "processes", "furnished", "resources", "pages"),
    "Passwords and signing in": ("argon2", "signin", "loaded", "crowd", "upstream"),
    "Connections": ("connections", "keepalive", "h2"),
    "Faults": ("kill", "postgres", "sigterm"),
    "A database that moves": ("failover",),
    "Half an hour of faults": ("endurance",),
    "Many rows": ("users", "tenants", "audit", "exported", "services", "organizations", "console", "deletion", "sweeper"),
    "Races": ("redeem", "seat", "place"),
    "What time tells": ("timing",),
}
# By the subject: its command, if that is not `ops.bench` with the names of the cases.
COMMANDS: Final[Mapping[str, str]] = {
    "A database that moves": "ops.drill failover",
    "Half an hour of faults": "ops.drill endurance",
}
_WHO_AM_I: Final = "Postern's GET /api/user"
_BY_KEY: Final = "Postern's GET /api/service/info by API key"
_BOTH: Final = ", CPU, PostgreSQL's too"
# What the page begins with: against whom, what, and the row that has the figure. The figures there are ratios of processor time.
RIVALS: Final[Sequence[tuple[str, str, str, str]]] = (
    *(
        ("oidc-provider", f"who am I, {at} connections", "peers", f"{at} connections, {_WHO_AM_I} against oidc-provider's userinfo{_BOTH}")
        for at in (16, 64)
    ),
    *(
        ("oidc-provider", what, "providers", f"{what} against oidc-provider, done alike{_BOTH}")
        for what in ("userinfo", "introspection", "client credentials", "code to tokens")
    ),
    ("better-auth", "who am I, 16 connections", "peers", f"16 connections, {_WHO_AM_I} against better-auth's get-session{_BOTH}"),
    (
        "better-auth",
        "an API key, 16 connections",
        "peers",
        f"16 connections, {_BY_KEY} against better-auth's verification of an API key{_BOTH}",
    ),
    ("better-auth", "sign-in with the same Argon2id", "peers", f"sign-ins against better-auth's with the same Argon2id{_BOTH}"),
)
# The table for cases that no subject names.
OTHERS: Final = "Everything else"

# After so many days, a figure is of another program.
LONGEST_AGE: Final = timedelta(days=30)
_FIRST: Final = ("against", "what", "Postern's processor time against theirs, with PostgreSQL's", "measured")
_FIRST_TABLE: Final = re.compile(r"^\| against .*\n(?:\|.*\n)*", re.MULTILINE)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MACHINE: Final = re.compile(r"^Machine: (.*)\.$", re.MULTILINE)
_Rows = dict[str, list[Sequence[str]]]


def record(outcomes: Sequence[Outcome], *, page: Path = PAGE) -> None:
    """Renews the page."""
    measured = f"{datetime.now(UTC):%Y-%m-%d}, {commit()}"
    fresh = {one.case: [(*row, measured) for row in kept_rows(one)] for one in outcomes if one.skipped is None}
    page.write_text(renewed(page.read_text(encoding="utf-8"), fresh, hardware()), encoding="utf-8")


def outdated(text: str, today: date) -> Sequence[str]:
    """Each figure of the page that is older than a month, or has no day, in words."""
    found = []
    for case, rows_of in _kept(text).items():
        for _, what, figure, *_, measured in rows_of:
            day = _DAY.match(measured)
            if day is None or date.fromisoformat(day[0]) < today - LONGEST_AGE:
                found.append(f"{case}, {what}: {figure}, measured {measured or 'nobody knows when'}")
    return found


def kept_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """A row for each bar. Figures that differ only in what stands before their last colon share a row. Counts that are exactly what they
    must be, such as 0 requests that failed, get a row only in a case that has nothing else.
    """
    if outcome.failed is not None:
        return rows(outcome)
    barred = [figure for figure in outcome.figures if figure.bar is not None]
    alike: dict[tuple[str, str], list[Figure]] = {}
    for figure in barred:
        if not _is_exact(figure):
            alike.setdefault((figure.what.rpartition(": ")[2], str(figure.bar)), []).append(figure)
    if barred and not alike:
        return [(outcome.case, f"{len(barred)} counts, each with one right value", "right", "", "yes")]
    return rows(Outcome(outcome.case, [_worst(kind, figures) for (kind, _), figures in alike.items()]))


def _is_exact(figure: Figure) -> bool:
    return figure.bar is not None and not figure.unit and figure.value == figure.bar.limit == int(figure.value)


def _worst(kind: str, figures: Sequence[Figure]) -> Figure:
    """The one that is nearest to the bar, or farthest beyond it, and how the others spread."""
    if len(figures) == 1:
        return figures[0]
    bar = figures[0].bar
    ordered = sorted(figures, key=lambda figure: figure.value, reverse=bar is not None and bar.at_least)
    best, worst = ordered[0], ordered[-1]
    beside = f"from {number(best.value)}" if best.value != worst.value else ""
    if missed := sum(not figure.held for figure in figures):
        beside += f"; {missed} miss, {worst.what.rpartition(': ')[0]} most"
    return Figure(f"{kind}, worst of {len(figures)}", worst.value, worst.unit, bar, beside)


def renewed(text: str, fresh: Mapping[str, Sequence[Sequence[str]]], on: str) -> str:
    """The page with new rows for these cases. The page describes one machine, so it drops the figures of another one."""
    head = text.partition("\n## ")[0].rstrip()
    found = _MACHINE.search(head)
    if found is None:
        head += f"\n\nMachine: {on}."
        kept: _Rows = {}
    else:
        kept = _kept(text) if found[1] == on else {}
        head = head.replace(found[0], f"Machine: {on}.")
    all_rows = {**kept, **fresh}
    head = _FIRST_TABLE.sub(lambda _: _first_table(all_rows), head)
    named = {case for cases in SUBJECTS.values() for case in cases}
    subjects = {**SUBJECTS, OTHERS: [case for case in all_rows if case not in named]}
    sections = (_section(subject, [case for case in cases if case in all_rows], all_rows) for subject, cases in subjects.items())
    return "\n\n".join([head, *filter(None, sections)]) + "\n"


def _kept(text: str) -> _Rows:
    kept: _Rows = {}
    for line in text.partition("\n## ")[2].splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if cells[0] != HEADER[0]:
                kept.setdefault(cells[0], []).append(cells)
    return kept


def _first_table(all_rows: Mapping[str, Sequence[Sequence[str]]]) -> str:
    shown = [_FIRST]
    for against, what, case, of in RIVALS:
        shown += [(against, what, row[2], row[-1]) for row in all_rows.get(case, ()) if row[1] == of]
    return aligned(shown) + "\n"


def _section(subject: str, cases: Sequence[str], all_rows: Mapping[str, Sequence[Sequence[str]]]) -> str:
    if not cases:
        return ""
    lines = aligned([(*HEADER, "measured"), *(row for case in cases for row in all_rows[case])])
    command = COMMANDS.get(subject, f"ops.bench {' '.join(cases)}")
    return f"## {subject}\n\n`.venv/bin/python -m {command}`\n\n{lines}"
