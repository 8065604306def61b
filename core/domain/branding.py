"""Branding: the name, logo and colour that an organization lends to mails and pages."""

import re
from dataclasses import dataclass
from typing import Final

from core.domain.lines import one_line

LONGEST_NAME: Final = 100
_COLOR: Final = re.compile(r"#[0-9a-f]{6}")
# Excludes everything that could end an HTML attribute, and user information before the host.
_LOGO: Final = re.compile(r"https://[a-z0-9.-]+(:[0-9]{1,5})?(/[^\s\"'<>\\`@]*)?", re.IGNORECASE)
_LONGEST_LOGO: Final = 500


@dataclass(frozen=True, slots=True)
class Branding:
    name: str
    logo_url: str | None = None
    color: str = "#0f5f5c"

    @property
    def ink(self) -> str:
        """The colour of text on the brand colour: white or near black, whichever has the better contrast (WCAG 2)."""
        return "#ffffff" if 1.05 / (_luminance(self.color) + 0.05) >= (_luminance(self.color) + 0.05) / 0.055 else "#111111"


POSTERN: Final = Branding("Postern")


def branding(name: str, logo_url: str | None, color: str | None) -> Branding:
    """The usable part of what an organization has stored. A bad logo must neither break a mail nor change what it says."""
    shown = one_line(name)[:LONGEST_NAME] or POSTERN.name
    logo = logo_url if logo_url and len(logo_url) <= _LONGEST_LOGO and _LOGO.fullmatch(logo_url) else None
    wanted = (color or "").lower()
    return Branding(shown, logo, wanted if _COLOR.fullmatch(wanted) else POSTERN.color)


def _luminance(color: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    red, green, blue = (_linear(int(color[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    linear: float = channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
    return linear
