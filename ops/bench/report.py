"""Figures, the bars they are held against, the table that is printed, and the record in docs/benchmarks.md."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
RECORD: Final = ROOT / "docs" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must be: at most, or at least, so much."""

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
    """One measured value. Without a bar it is only worth knowing."""

    what: str
    value: float
    unit: str = ""
    bar: Bar | None = None

    @property
    def held(self) -> bool:
        return self.bar is None or self.bar.holds(self.value)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: its figures, or why there are none."""

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


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [("case", "what", "figure", "bar", "held")]
    for outcome in outcomes:
        if outcome.skipped is not None:
            rows.append((outcome.case, f"skipped: {outcome.skipped}", "", "", ""))
        if outcome.failed is not None:
            rows.append((outcome.case, f"failed: {outcome.failed}", "", "", "**no**"))
        rows += [
            (
                outcome.case,
                figure.what,
                f"{number(figure.value)} {figure.unit}".rstrip(),
                str(figure.bar or ""),
                "" if figure.bar is None else "yes" if figure.held else "**no**",
            )
            for figure in outcome.figures
        ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def machine() -> str:
    """The processor, its cores, the memory, the kernel, Python: what a figure means nothing without."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{' with changes' if changed else ''}"


def busyness() -> float:
    """How many tasks wanted a processor in the last minute: what spoils figures when it is not about nought before a run."""
    return os.getloadavg()[0]


def record(outcomes: Sequence[Outcome], busy: float, remark: str = "", to: Path = RECORD) -> None:
    """Append them to docs/benchmarks.md, newest last."""
    now = datetime.now(UTC)
    words = [f"## {now:%Y-%m-%d %H:%M} UTC, commit {commit()}", f"{machine()}. Load average before: {busy:.1f}."]
    if remark:
        words.append(remark)
    words.append(table(outcomes))
    with to.open("a", encoding="utf-8") as file:
        file.write("\n" + "\n\n".join(words) + "\n")


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
