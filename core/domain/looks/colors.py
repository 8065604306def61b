"""Colours: how well one can be told from another, and the nearest one that can.

Contrast is that of WCAG 2.2. The walk to the nearest colour goes through OKLCH, where a step in lightness looks like a step, and where the
hue stays what it was: somebody who has chosen a blue is offered a blue.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from math import atan2, cos, hypot, sin
from typing import Final

from core.frozen import Frozen

# The contrasts that WCAG 2.2 demands at level AA: for text (1.4.3), and for parts that people must recognise, such as the edge of a field
# (1.4.11).
READABLE: Final = 4.5
VISIBLE: Final = 3.0
# The values of --surface and --ground in look/tokens.css: what links and buttons stand on.
LIGHT: Final = ("#ffffff", "#f6f5f1")
DARK: Final = ("#1a2023", "#131719")
_STEPS: Final = 100
_MOST_KEPT: Final = 256
_HALVINGS: Final = 12
_LARGEST_CHANNEL: Final = 255


class ColorScheme(StrEnum):
    """What the reader's system prefers."""

    LIGHT = "light"
    DARK = "dark"

    @property
    def grounds(self) -> tuple[str, ...]:
        return LIGHT if self is ColorScheme.LIGHT else DARK


class ColorUse(StrEnum):
    """What a colour is needed for."""

    LINKS = "links"
    EDGES = "edges"

    @property
    def needed(self) -> float:
        return READABLE if self is ColorUse.LINKS else VISIBLE


class PaleColor(Frozen):
    """A use that a colour is too pale, or too dark, for. Pages use the colour of text there."""

    use: ColorUse
    scheme: ColorScheme
    contrast: float
    """The worse contrast on the two grounds of the scheme, cut off behind the second digit."""
    needed: float
    nearest: str
    """The nearest colour of the same hue that has the contrast."""


@lru_cache(_MOST_KEPT)
def pale_uses(color: str) -> Sequence[PaleColor]:
    """What pages do not use the colour for, since it would not be seen. Empty for a colour that they use everywhere."""
    return tuple(
        PaleColor(use, scheme, int(worst * 100) / 100, use.needed, nearest_color(color, scheme.grounds, use.needed))
        for use in ColorUse
        for scheme in ColorScheme
        if (worst := worst_contrast(color, scheme.grounds)) < use.needed
    )


def contrast(one: str, other: str) -> float:
    """The contrast of two colours in the form #rrggbb, as WCAG 2.2 defines it: from 1, for the same colour, to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def worst_contrast(color: str, grounds: Sequence[str]) -> float:
    return min(contrast(color, ground) for ground in grounds)


@lru_cache(_MOST_KEPT)
def nearest_color(color: str, grounds: tuple[str, ...], needed: float) -> str:
    """The colour itself if it has the contrast on all of the grounds, or else the nearest one by lightness that has it, with the same hue
    and as much of the chroma as screens can show. On grounds that are all light, or all dark, black or white has it in any case.
    """
    if worst_contrast(color, grounds) >= needed:
        return color
    lightness, chroma, hue = _oklch(color)
    # Where not even black, or white, can be seen, nothing on the way to it can.
    ways = [way for way, end in ((-1, "#000000"), (1, "#ffffff")) if worst_contrast(end, grounds) >= needed]
    for step in range(1, _STEPS + 1):
        for moved in (min(max(lightness + way * step / _STEPS, 0.0), 1.0) for way in ways):
            tried = _shown(moved, chroma, hue)
            if worst_contrast(tried, grounds) >= needed:
                return tried
    return max(("#000000", "#ffffff"), key=lambda end: worst_contrast(end, grounds))


@lru_cache(_MOST_KEPT)
def _luminance(color: str) -> float:
    """The relative luminance, as WCAG 2.2 defines it."""
    red, green, blue = _channels(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(color: str) -> tuple[float, float, float]:
    red, green, blue = (_linear(int(color[at : at + 2], 16) / _LARGEST_CHANNEL) for at in (1, 3, 5))
    return red, green, blue


def _linear(channel: float) -> float:
    linear: float = channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
    return linear


def _coded(channel: float) -> int:
    coded: float = channel * 12.92 if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055
    return round(coded * _LARGEST_CHANNEL)


def _oklch(color: str) -> tuple[float, float, float]:
    """Lightness from 0 to 1, chroma and hue, by the matrices of CSS Color 4, section 9.4."""
    red, green, blue = _channels(color)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    lightness = 0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short
    a = 1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short
    b = 0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short
    return lightness, hypot(a, b), atan2(b, a)


def _shown(lightness: float, chroma: float, hue: float) -> str:
    """The colour as screens show it. Where there is none with this chroma, the one with the most chroma that there is."""
    found = _rgb(lightness, chroma, hue)
    if _is_on_screens(found):
        return _written(found)
    kept = 0.0
    for _ in range(_HALVINGS):
        tried = (kept + chroma) / 2
        if _is_on_screens(_rgb(lightness, tried, hue)):
            kept = tried
        else:
            chroma = tried
    return _written(_rgb(lightness, kept, hue))


def _rgb(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    a, b = chroma * cos(hue), chroma * sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )


def _is_on_screens(channels: tuple[float, float, float]) -> bool:
    return all(-1e-4 <= channel <= 1 + 1e-4 for channel in channels)


def _written(channels: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{_coded(min(max(channel, 0), 1)):02x}" for channel in channels)
