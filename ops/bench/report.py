"""Figures, their bars, the printed table, and the description of the machine."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
HEADER: Final = ("case", "what", "figure", "bar", "held")


@dataclass(frozen=True, slots=True)
class Bar:
    """The limit of a figure: at most this much, or at least."""

    limit: float
    at_least: bool = False

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {number(self.limit)}"


def at_most(limit: float) -> Bar:
    return Bar(limit)


def at_least(limit: float) -> Bar:
    return Bar(limit, at_least=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. Without a bar it is only for information."""

    what: str
    value: float
    unit: str = ""
    bar: Bar | None = None
    beside: str = ""
    """In words, what the run measured beside the figure."""

    @property
    def shown(self) -> str:
        shown = f"{number(self.value)} {self.unit}".rstrip()
        return f"{shown} ({self.beside})" if self.beside else shown

    @property
    def held(self) -> bool:
        return self.bar is None or self.bar.holds(self.value)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: its figures, or the reason why there are none."""

    case: str
    figures: Sequence[Figure] = ()
    skipped: str | None = None
    failed: str | None = None

    @property
    def held(self) -> bool:
        return self.failed is None and all(figure.held for figure in self.figures)


def number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value)}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """A row of the table for each figure, or one row that says why there are no figures."""
    if outcome.skipped is not None:
        return [(outcome.case, f"skipped: {outcome.skipped}", "", "", "")]
    if outcome.failed is not None:
        return [(outcome.case, f"failed: {outcome.failed}", "", "", "**no**")]
    return [
        (
            outcome.case,
            figure.what,
            figure.shown,
            str(figure.bar or ""),
            "" if figure.bar is None else "yes" if figure.held else "**no**",
        )
        for figure in outcome.figures
    ]


def table(outcomes: Sequence[Outcome]) -> str:
    return aligned([HEADER, *(row for outcome in outcomes for row in rows(outcome))])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that is also readable as plain text. The first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def machine() -> str:
    """The machine and its software, without which a figure means nothing."""
    return f"{hardware()}, {platform.system()} {platform.release()}, Python {platform.python_version()}"


def hardware() -> str:
    """The processor, its cores, the memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def commit() -> str:
    """Its short id. A plus behind it says that something was changed since, and not committed."""
    if shutil.which("git") is None:
        return "unknown"

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{'+' if changed else ''}"


def busyness() -> float:
    """How many tasks wanted a processor in the last minute. If the number is not near zero before a run, the figures are worthless."""
    return os.getloadavg()[0]


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
