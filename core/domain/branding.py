"""Branding: the name, logo, colors, languages and custom texts that an organization lends to pages and mails."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from math import atan2, cos, hypot, sin
from typing import Final

from core.domain.languages import Language, restored_languages
from core.domain.lines import one_line
from core.domain.texts.own_texts import NO_OWN_TEXTS, OwnTexts
from core.frozen import Frozen, values_of

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
    """The color scheme that the reader's system prefers."""

    LIGHT = "light"
    DARK = "dark"

    @property
    def grounds(self) -> tuple[str, ...]:
        return LIGHT if self is ColorScheme.LIGHT else DARK


class ColorUse(StrEnum):
    """What a color needs contrast for."""

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
    """Returns the color itself if it has the contrast on all of the grounds, or else the nearest one by lightness that has it, with the
    same hue and as much of the chroma as screens can show. On grounds that are all light, or all dark, black or white has it in any case.

    The search goes through OKLCH, where a step in lightness looks like a step, and where the hue stays what it was: if the brand color is a
    blue, the nearest color is a blue.
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


LONGEST_NAME: Final = 100
_WHITE: Final = "#ffffff"
_BLACK: Final = "#000000"
_COLOR: Final = re.compile(r"#[0-9a-f]{6}")
_LONGEST_MAILED: Final = 40
# What mail programs make a link of.
_LEADS_SOMEWHERE: Final = re.compile(r"[@/\\]|\w\.\w")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class BrandLinks(Frozen):
    """Pages of the organization's own, which the foot of its pages links to. None where there is no such page."""

    help_url: str | None = None
    privacy_url: str | None = None
    terms_url: str | None = None


NO_LINKS: Final = BrandLinks()


class Font(StrEnum):
    """The font families that pages can use. All are system fonts: pages load no fonts."""

    SYSTEM = "system"
    HUMANIST = "humanist"
    GEOMETRIC = "geometric"
    SERIF = "serif"
    SLAB = "slab"
    MONO = "mono"


CORNERS: Final = (0, 4, 12)
"""How round buttons, fields and cards may be, in pixels."""


class Look(Frozen):
    """The looks beyond logo and colour. Pictures are named by their digests."""

    dark_logo: str | None = None
    """For dark pages. None: the logo, on a light ground of its own."""
    favicon: str | None = None
    background: str | None = None
    """Behind the cards of a flow. Text never stands on it."""
    second_color: str | None = None
    """Of links. None: the first colour, where it can be read."""
    corner: int | None = None
    """One of `CORNERS`. None: ours."""
    font: Font | None = None
    """None: the system's."""
    notice_from: str | None = None
    """From when the own notice stands above the sign-in, in ISO 8601; None: from the moment that it has a text."""
    notice_until: str | None = None

    def has_notice_at(self, now: datetime) -> bool:
        begun = self.notice_from is None or datetime.fromisoformat(self.notice_from) <= now
        return begun and (self.notice_until is None or now < datetime.fromisoformat(self.notice_until))

    def as_text(self) -> str | None:
        """As it is stored: one line that is the same for equal looks. None where everything is ours."""
        own = {name: value for name, value in values_of(self).items() if value is not None}
        return json.dumps(own, sort_keys=True) if own else None


PLAIN: Final = Look()


class Branding(Frozen):
    """The name and looks that a page shows. `logo` is a path of ours. A page loads nothing from another server, because that server would
    learn who reads the page.
    """

    name: str
    logo: str | None = None
    color: str = "#0f5f5c"
    links: BrandLinks = NO_LINKS
    look: Look = PLAIN
    languages: tuple[Language, ...] = ()
    """The languages that the organization speaks, its first one first; none: all of ours."""
    texts: OwnTexts = NO_OWN_TEXTS
    texts_are_approved: bool = False
    """Whether a platform owner has said yes to these very texts."""

    @property
    def ink(self) -> str:
        """The colour of text on the brand colour: white or black, by the better contrast. One of the two is always readable."""
        return max(_WHITE, _BLACK, key=lambda ink: contrast(ink, self.color))

    @property
    def initial(self) -> str:
        """The first character of the name, for places with room for one."""
        return self.name[0].upper()[0]

    def may_write_on(self, *grounds: str) -> bool:
        """Whether links in the brand colour can be read on all of these colours."""
        return worst_contrast(self.color, grounds) >= READABLE

    def stands_out_on(self, *grounds: str) -> bool:
        """Whether the edge of a button in the brand colour can be seen on all of these colours."""
        return worst_contrast(self.color, grounds) >= VISIBLE


POSTERN: Final = Branding("Postern")


class NamedApplication(Frozen):
    """An application that a page or a mail names, with its picture."""

    name: str
    logo: str | None = None
    """A path of ours."""

    @property
    def may_be_mailed(self) -> bool:
        """Whether the name may stand in a mail to somebody who has not asked for it. Nobody but the organization has looked at the name, so
        one that is an address, or reads like a message, stays on our pages.
        """
        return len(self.name) <= _LONGEST_MAILED and not _LEADS_SOMEWHERE.search(self.name)


def named_application(kept: Sequence[str | None] | None) -> NamedApplication | None:
    """`kept` has the name and the digest of the logo. None for none."""
    if kept is None:
        return None
    name, logo = kept
    digest = _digest(logo)
    return NamedApplication(one_line(name or ""), None if digest is None else logo_path(digest))


class Dress(Frozen):
    """What an organization has stored of its branding besides name, logo and colour, as one look-up brings it."""

    help_url: str | None
    privacy_url: str | None
    terms_url: str | None
    look: str | None
    languages: str | None
    texts_digest: str | None
    approved_texts: str | None = None
    """The digest of the texts that a platform owner has said yes to."""


def branding(
    name: str, logo_digest: str | None, color: str | None, dress: Sequence[str | None] | None = None, texts: OwnTexts = NO_OWN_TEXTS
) -> Branding:
    """The usable part of what an organization has stored. `dress` has the fields of `Dress`, in their order; None where all are unset.
    `texts` are those that the dress names.
    """
    shown = one_line(name)[:LONGEST_NAME] or POSTERN.name
    digest = _digest(logo_digest)
    logo = None if digest is None else logo_path(digest)
    own_color = brand_color(color or "") or POSTERN.color
    if dress is None:
        return Branding(shown, logo, own_color)
    said = Dress(*dress)
    links = BrandLinks(said.help_url, said.privacy_url, said.terms_url)
    approved = said.texts_digest is not None and said.texts_digest == said.approved_texts
    return Branding(shown, logo, own_color, links, look_of(said.look), restored_languages(said.languages), texts, approved)


@lru_cache(maxsize=512)
def look_of(kept: str | None) -> Look:
    """The usable part of stored looks. A newer process may have stored more than this one knows."""
    said = {} if kept is None else json.loads(kept)
    return Look(
        dark_logo=_digest(said.get("dark_logo")),
        favicon=_digest(said.get("favicon")),
        background=_digest(said.get("background")),
        second_color=brand_color(said.get("second_color") or ""),
        # The number itself: `false` and 4.0 are equal to one of them, and no sheet has such a name.
        corner=next((corner for corner in CORNERS if corner == said.get("corner")), None),
        font=Font(said["font"]) if said.get("font") in set(Font) else None,
        notice_from=said.get("notice_from"),
        notice_until=said.get("notice_until"),
    )


def _digest(kept: str | None) -> str | None:
    return kept if kept is not None and _DIGEST.fullmatch(kept) else None


def brand_color(text: str) -> str | None:
    """The colour in the form #rrggbb, in lower case. None for any other text."""
    color = text.lower()
    return color if _COLOR.fullmatch(color) else None


def logo_path(digest: str) -> str:
    """The path of a picture. It changes with the picture, so that browsers may cache it."""
    return f"/logos/{digest}"


def mailed_logo(digest: str | None) -> str:
    """The path of an application's logo, as mails about the application show it. Empty when it has none."""
    return "" if digest is None else logo_path(digest)


def dark_logo(branding: Branding) -> str | None:
    """The path of the logo for dark grounds, beside a logo for light ones."""
    return logo_path(branding.look.dark_logo) if branding.logo and branding.look.dark_logo else None
