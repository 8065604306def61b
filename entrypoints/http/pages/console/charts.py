"""Charts, drawn on the server as SVG, with their figures as a table beside them. Nothing in a chart moves, and no script draws it."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from core.frozen import Frozen
from entrypoints.http.pages.console.visit import PageVisit
from ports.texts import Text

WIDTH: Final = 920
HEIGHT: Final = 200
# The room for the labels of the axes, and for the newest value at the end of the line.
_LEFT: Final = 40
_RIGHT: Final = 48
_TOP: Final = 12
_BOTTOM: Final = 24
_LABELS: Final = 5
_SHORTEST: Final = 7
_LONGEST: Final = 30
# The height of a line of a bar chart: its words, and two bars beneath.
_BAR: Final = 60
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


def chart_of_days(visit: PageVisit, counts: Mapping[date, int], failures: Mapping[date, int], since: date) -> LineChart:
    """Sign-ins of up to thirty days, with failed attempts from the first day on of which all are known. A day of which nothing is
    said stands in the chart with zero. The chart begins a day before the first event, and has a week at least.
    """
    today = visit.postern.foundation.clock.now().date()
    days = _days(today, (*counts, *failures))
    beside = {day: failures.get(day, 0) for day in days if day >= since}
    return line_chart([(day, counts.get(day, 0)) for day in days], visit.text, beside)


def chart_of_growth(visit: PageVisit, total: int, came: Mapping[date, int], since: date) -> LineChart | None:
    """How many there were at the end of each day: as many as today without those that came later. None if nobody knows of two days."""
    today = visit.postern.foundation.clock.now().date()
    days = [day for day in _days(today, list(came)) if day >= since]
    figures = list[tuple[date, int]]()
    for day in reversed(days):
        figures.insert(0, (day, max(total, 0)))
        total -= came.get(day, 0)
    return line_chart(figures, visit.text) if len(figures) > 1 else None


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


def _days(today: date, eventful: Sequence[date]) -> Sequence[date]:
    """The shortest span that shows the first event, the oldest day first."""
    past = [day for day in eventful if day <= today]
    span = min(max((today - min(past)).days + 2 if past else 0, _SHORTEST), _LONGEST)
    return [today - timedelta(days=back) for back in range(span - 1, -1, -1)]


def line_chart(figures: Sequence[tuple[date, int]], text: Text, beside: Mapping[date, int] = NONE) -> LineChart:
    """The figures are of days in a row, the oldest first, two at least. `beside` are those of a second line, on the last of these days."""
    most = _rounded_up(max([value for _, value in figures] + [*beside.values()]))
    width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def place(number: int, value: int) -> tuple[float, float]:
        return round(_LEFT + width * number / (len(figures) - 1), 1), round(_TOP + height * (1 - value / most), 1)

    points = [place(number, value) for number, (_, value) in enumerate(figures)]
    second = [place(number, beside[day]) for number, (day, _) in enumerate(figures) if day in beside]
    step = max((len(figures) - 1) // (_LABELS - 1), 1)
    labelled = range(len(figures) - 1, -1, -step)
    first = labelled[-1]
    return LineChart(
        line=_points(points),
        days=[Mark(points[number][0], _day(figures[number][0], text, with_month=number == first)) for number in labelled],
        values=[Mark(_TOP + height, "0"), Mark(_TOP + height / 2, f"{most // 2}"), Mark(_TOP, f"{most}")],
        end=points[-1],
        newest=figures[-1][1],
        figures=figures,
        beside=_points(second),
        beside_end=second[-1] if second else (0, 0),
        beside_figures=beside,
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


def _day(day: date, text: Text, *, with_month: bool) -> str:
    named = f"{text(f'console.weekday.{day.isoweekday()}')} {day.day}"
    return f"{named} {text(f'console.month.{day.month}')}" if with_month else named
