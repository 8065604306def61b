"""Branding: the looks that an organization lends to mails and pages: its name, logo and colour."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from core.domain.errors import BadRequest

LONGEST_NAME: Final = 100
# Longer than anything that is taken, with much space around it. Going over a megabyte letter by letter would hold up everybody else.
LONGEST_TYPED: Final = 2000
_COLOR: Final = re.compile(r"#[0-9a-f]{6}")
# Nothing that could end an attribute, and no user information in front of the host.
_LOGO: Final = re.compile(r"https://[a-z0-9.-]+(:[0-9]{1,5})?(/[^\s\"'<>\\`@]*)?", re.IGNORECASE)
_LONGEST_LOGO: Final = 500
_JOINERS: Final = "\u200c\u200d"
# Letters and a symbol that show nothing: the fillers of Hangul, and Braille without a dot.
_BLANKS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")


@dataclass(frozen=True, slots=True)
class Branding:
    name: str
    logo_url: str | None = None
    color: str = "#0f5f5c"

    @property
    def ink(self) -> str:
        """What is written on the colour: white or near black, whichever is easier to read (WCAG 2 contrast)."""
        return "#ffffff" if 1.05 / (_luminance(self.color) + 0.05) >= (_luminance(self.color) + 0.05) / 0.055 else "#111111"


POSTERN: Final = Branding("Postern")


def branding(name: str, logo_url: str | None, color: str | None) -> Branding:
    """What can be used of what an organization has stored. A mail must not fail, nor say something else, because of a bad logo."""
    shown = one_line(name)[:LONGEST_NAME] or POSTERN.name
    logo = logo_url if logo_url and len(logo_url) <= _LONGEST_LOGO and _LOGO.fullmatch(logo_url) else None
    wanted = (color or "").lower()
    return Branding(shown, logo, wanted if _COLOR.fullmatch(wanted) else POSTERN.color)


def one_line(text: str) -> str:
    """Without line breaks and other controls, those that turn the direction of writing among them: a name must not rearrange the sentence
    around it. What joins letters in some scripts stays. Empty when nothing of it can be seen.
    """
    line = " ".join("".join(letter for letter in text if letter.isspace() or letter in _JOINERS or not _is_control(letter)).split())
    return line if any(map(_is_visible, line)) else ""


def typed_line(field: str, text: str) -> str:
    """What somebody typed, as one line. Raises `BadRequest` for what is too long to be looked at."""
    if len(text) > LONGEST_TYPED:
        raise BadRequest(f"{field}: at most {LONGEST_TYPED} characters, with the space around them")
    return one_line(text)


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in {"Cc", "Cf"}


def _is_visible(letter: str) -> bool:
    """By itself: a mark wants a letter that it stands on."""
    return letter not in _BLANKS and not _is_control(letter) and unicodedata.category(letter)[0] not in "MZ"


def _luminance(color: str) -> float:
    """WCAG 2.2, relative luminance."""
    red, green, blue = (_linear(int(color[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    linear: float = channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
    return linear
