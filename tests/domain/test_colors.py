"""Colours: which can be seen where, and the nearest that can."""

from math import cos

import pytest
from hypothesis import given, strategies

from core.domain.branding import (
    DARK,
    LIGHT,
    READABLE,
    VISIBLE,
    ColorScheme,
    ColorUse,
    _oklch,
    _shown,
    contrast,
    nearest_color,
    pale_uses,
    worst_contrast,
)

COLORS = strategies.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}")
GROUNDS = strategies.sampled_from([LIGHT, DARK])
NEEDED = strategies.sampled_from([READABLE, VISIBLE])


@given(COLORS, GROUNDS, NEEDED)
def test_the_nearest_colour_can_be_seen(color: str, grounds: tuple[str, ...], needed: float) -> None:
    nearest = nearest_color(color, grounds, needed)
    assert worst_contrast(nearest, grounds) >= needed
    # A colour that can be seen stays, so the nearest of the nearest is itself.
    assert nearest_color(nearest, grounds, needed) == nearest
    assert (nearest == color) == (worst_contrast(color, grounds) >= needed)


@given(COLORS, GROUNDS, NEEDED)
def test_no_colour_that_is_nearer_can_be_seen(color: str, grounds: tuple[str, ...], needed: float) -> None:
    """By the steps of the walk, in both directions."""
    nearest = nearest_color(color, grounds, needed)
    lightness, chroma, hue = _oklch(color)
    gone = abs(_oklch(nearest)[0] - lightness)
    for step in range(1, int(gone * 100) - 1):
        for moved in (lightness - step / 100, lightness + step / 100):
            if 0 <= moved <= 1:
                assert worst_contrast(_shown(moved, chroma, hue), grounds) < needed


@given(COLORS, GROUNDS, NEEDED)
def test_the_nearest_colour_has_the_same_hue(color: str, grounds: tuple[str, ...], needed: float) -> None:
    _, chroma, hue = _oklch(color)
    _, kept, found = _oklch(nearest_color(color, grounds, needed))
    # A grey has no hue, and a channel of 8 bits moves that of a dark or pale colour a little.
    if chroma > 0.05 and kept > 0.05:
        assert cos(found - hue) > cos(0.15)
    assert kept <= chroma + 0.02


@pytest.mark.parametrize(
    ("color", "grounds", "needed", "nearest"),
    [
        ("#ffe066", LIGHT, READABLE, "#836d00"),
        ("#0000ff", DARK, READABLE, "#4a81ff"),
        ("#949494", LIGHT, VISIBLE, "#8e8e8e"),
        ("#000000", LIGHT, READABLE, "#000000"),
    ],
)
def test_a_yellow_stays_a_yellow_and_a_blue_a_blue(color: str, grounds: tuple[str, ...], needed: float, nearest: str) -> None:
    assert nearest_color(color, grounds, needed) == nearest


def test_where_no_colour_can_be_seen_everywhere_the_better_end_is_named() -> None:
    grounds = (*LIGHT, *DARK)
    assert nearest_color("#ff0000", grounds, 20) in {"#000000", "#ffffff"}


@given(COLORS)
def test_what_a_colour_is_too_pale_for_is_what_its_contrast_says(color: str) -> None:
    found = {(one.use, one.scheme): one for one in pale_uses(color)}
    for use in ColorUse:
        for scheme in ColorScheme:
            worst = min(contrast(color, ground) for ground in scheme.grounds)
            assert ((use, scheme) in found) == (worst < use.needed)
            if worst < use.needed:
                one = found[use, scheme]
                assert one.contrast <= worst < one.contrast + 0.011
                assert worst_contrast(one.nearest, scheme.grounds) >= one.needed == use.needed


def test_lightness_goes_from_black_to_white() -> None:
    assert _oklch("#000000")[0] == pytest.approx(0, abs=1e-6)
    assert _oklch("#ffffff")[0] == pytest.approx(1, abs=1e-6)
    assert _oklch("#808080")[1] == pytest.approx(0, abs=1e-4)


@given(COLORS)
def test_a_colour_comes_back_from_where_lightness_is_measured(color: str) -> None:
    shown = _shown(*_oklch(color))
    assert all(abs(int(color[at : at + 2], 16) - int(shown[at : at + 2], 16)) <= 1 for at in (1, 3, 5))


def test_on_a_ground_between_the_nearest_may_be_lighter_or_darker() -> None:
    """Where both black and white can be seen, the walk goes both ways at once."""
    for color in ("#707070", "#808080"):
        nearest = nearest_color(color, ("#777777",), VISIBLE)
        assert contrast(nearest, "#777777") >= VISIBLE
