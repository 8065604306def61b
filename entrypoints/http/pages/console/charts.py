"""Charts, drawn on the server as SVG, with their figures as a table beside them. Nothing in a chart moves, and no script draws it."""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from core.frozen import Frozen
from ports.texts import Text

WIDTH: Final = 640
HEIGHT: Final = 160
# The room for the labels of the axes, and for the newest value at the end of the line.
_LEFT: Final = 40
_RIGHT: Final = 48
_TOP: Final = 12
_BOTTOM: Final = 24
_LABELS: Final = 5


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
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def line_chart(figures: Sequence[tuple[date, int]], text: Text) -> LineChart:
    """The figures are of days in a row, the oldest first, two at least."""
    most = _rounded_up(max(value for _, value in figures))
    width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    points = [
        (round(_LEFT + width * number / (len(figures) - 1), 1), round(_TOP + height * (1 - value / most), 1))
        for number, (_, value) in enumerate(figures)
    ]
    step = max((len(figures) - 1) // (_LABELS - 1), 1)
    labelled = range(len(figures) - 1, -1, -step)
    first = labelled[-1]
    return LineChart(
        line=" ".join(f"{across},{down}" for across, down in points),
        days=[Mark(points[number][0], _day(figures[number][0], text, with_month=number == first)) for number in labelled],
        values=[Mark(_TOP + height, "0"), Mark(_TOP + height / 2, f"{most // 2}"), Mark(_TOP, f"{most}")],
        end=points[-1],
        newest=figures[-1][1],
        figures=figures,
    )


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
