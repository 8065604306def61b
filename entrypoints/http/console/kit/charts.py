"""Charts, drawn on the server as SVG, with their figures as a table beside them. Nothing in a chart moves, and no script draws it."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from core.frozen import Frozen
from entrypoints.http.console.kit.visit import PageVisit
from ports.texts import Text

WIDTH: Final = 920
HEIGHT: Final = 234
NARROW: Final = 330
"""The width of a chart that shares its row with two others."""
# The room for the labels of the axes, and for the newest value at the end of the line. On a phone the drawing is a third as wide, and its
# words are not.
_LEFT: Final = 72
_RIGHT: Final = 72
_LEFT_OF_NARROW: Final = 40
_RIGHT_OF_NARROW: Final = 48
_TOP: Final = 28
_BOTTOM: Final = 54
DAYS: Final = 30
"""The days of a chart: the titles of the pages say thirty."""
# Days from one label to the next. At fifteen, even a phone has room for the labels of three charts.
_STEP: Final = 7
_STEP_OF_NARROW: Final = 14
# The height of a line of a bar chart: its words, and two bars beneath.
_BAR: Final = 68
NONE: Final[Mapping[date, int]] = MappingProxyType({})


class Mark(NamedTuple):
    """A label of an axis, and its place."""

    place: float
    label: str


class LineChart(Frozen):
    """A line of one value a day."""

    line: str
    """The points of the line, as SVG has them."""
    days: Sequence[Mark]
    values: Sequence[Mark]
    end: tuple[float, float]
    newest: int
    figures: Sequence[tuple[date, int]]
    beside: str = ""
    """The points of a second line, which may begin later."""
    beside_end: tuple[float, float] = (0, 0)
    beside_figures: Mapping[date, int] = NONE
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM

    @property
    def is_narrow(self) -> bool:
        return self.width == NARROW


class Bar(NamedTuple):
    """A line of a bar chart: a way, with its two values."""

    label: str
    top: float
    value: int
    length: float
    beside: int
    beside_length: float


class BarChart(Frozen):
    """Two values of each thing, the longest first."""

    bars: Sequence[Bar]
    height: int
    width: int = WIDTH


def chart_of_days(
    visit: PageVisit, counts: Mapping[date, int], failures: Mapping[date, int], since: date, *, width: int = WIDTH
) -> LineChart:
    """Sign-ins of thirty days, with failed attempts from the first day on of which all are known. A day of which nothing is said stands in
    the chart with zero.
    """
    days = _days(visit)
    beside = {day: failures.get(day, 0) for day in days if day >= since}
    return line_chart([(day, counts.get(day, 0)) for day in days], visit.text, beside, width=width)


def chart_of_growth(visit: PageVisit, total: int, came: Mapping[date, int], since: date) -> LineChart | None:
    """How many there were at the end of each day: as many as today without those that came later. The line begins at the first day that is
    known. None if nobody knows of two days.
    """
    days = [day for day in _days(visit) if day >= since]
    figures = list[tuple[date, int]]()
    for day in reversed(days):
        figures.insert(0, (day, max(total, 0)))
        total -= came.get(day, 0)
    return line_chart(figures, visit.text, width=NARROW) if len(figures) > 1 else None


def bar_chart(figures: Sequence[tuple[str, int, int]]) -> BarChart | None:
    """The figures have a label and two values. None if there are none."""
    if not figures:
        return None
    most = max(max(value, beside) for _, value, beside in figures) or 1
    ordered = sorted(figures, key=lambda one: (-one[1], -one[2], one[0]))
    bars = [
        Bar(label, number * _BAR, value, round(WIDTH * value / most, 1), beside, round(WIDTH * beside / most, 1))
        for number, (label, value, beside) in enumerate(ordered)
    ]
    return BarChart(bars, _BAR * len(bars))


def _days(visit: PageVisit) -> Sequence[date]:
    today = visit.postern.foundation.clock.now().date()
    return [today - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]


def line_chart(figures: Sequence[tuple[date, int]], text: Text, beside: Mapping[date, int] = NONE, *, width: int = WIDTH) -> LineChart:
    """The figures are of days in a row, the oldest first, two at least. `beside` are those of a second line, on the last of these days. The
    axis has thirty days, and ends at the last of the figures.
    """
    most = _rounded_up(max([value for _, value in figures] + [*beside.values()]))
    left, right = (_LEFT, width - _RIGHT) if width == WIDTH else (_LEFT_OF_NARROW, width - _RIGHT_OF_NARROW)
    height = HEIGHT - _TOP - _BOTTOM
    today = figures[-1][0]

    def across(day: date) -> float:
        return round(right - (right - left) * (today - day).days / (DAYS - 1), 1)

    def place(day: date, value: int) -> tuple[float, float]:
        return across(day), round(_TOP + height * (1 - value / most), 1)

    points = [place(day, value) for day, value in figures]
    second = [place(day, beside[day]) for day, _ in figures if day in beside]
    labelled = [today - timedelta(days=back) for back in range(0, DAYS, _STEP if width == WIDTH else _STEP_OF_NARROW)]
    return LineChart(
        line=_points(points),
        days=[Mark(across(day), f"{day.day} {text(f'console.month.{day.month}')}") for day in labelled],
        values=[Mark(_TOP + height, "0"), Mark(_TOP + height / 2, f"{most // 2}"), Mark(_TOP, f"{most}")],
        end=points[-1],
        newest=figures[-1][1],
        figures=figures,
        beside=_points(second),
        beside_end=second[-1] if second else (0, 0),
        beside_figures=beside,
        width=width,
        left=left,
        right=right,
    )


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{across},{down}" for across, down in places)


def _rounded_up(value: int) -> int:
    """The next number of the form 1, 2 or 5 with zeros, from 2 on. The middle of the axis is then a whole number or the half of five."""
    unit = 1
    while True:
        for factor in (2, 4, 10):
            if factor * unit >= value:
                return factor * unit
        unit *= 10
