"""Branding: the name, looks, languages and own texts that an organization lends to mails and pages."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

from core.domain.languages import Language
from core.domain.lines import one_line
from core.domain.own_texts import NO_OWN_TEXTS, OwnTexts
from core.frozen import Frozen

LONGEST_NAME: Final = 100
# The contrasts that WCAG 2.2 demands at level AA: for text (1.4.3), and for parts that people must recognise, such as the edge of a field
# (1.4.11).
READABLE: Final = 4.5
VISIBLE: Final = 3.0
_WHITE: Final = "#ffffff"
_BLACK: Final = "#000000"
_COLOR: Final = re.compile(r"#[0-9a-f]{6}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class BrandLinks(Frozen):
    """Pages of the organization's own, which the foot of its pages links to. None where there is no such page."""

    help_url: str | None = None
    privacy_url: str | None = None
    terms_url: str | None = None


NO_LINKS: Final = BrandLinks()


class Look(Frozen):
    """The looks beyond logo and colour. Pictures are named by their digests."""

    dark_logo: str | None = None
    favicon: str | None = None
    background: str | None = None
    second_color: str | None = None
    corner: int | None = None
    font: str | None = None
    notice_from: str | None = None
    """From when the own notice stands above the sign-in, in ISO 8601; None: from the moment that it has a text."""
    notice_until: str | None = None

    def has_notice_at(self, now: datetime) -> bool:
        begun = self.notice_from is None or datetime.fromisoformat(self.notice_from) <= now
        return begun and (self.notice_until is None or now < datetime.fromisoformat(self.notice_until))


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
        return all(contrast(self.color, ground) >= READABLE for ground in grounds)

    def stands_out_on(self, *grounds: str) -> bool:
        """Whether the edge of a button in the brand colour can be seen on all of these colours."""
        return all(contrast(self.color, ground) >= VISIBLE for ground in grounds)


POSTERN: Final = Branding("Postern")


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
    logo = logo_path(logo_digest) if logo_digest and _DIGEST.fullmatch(logo_digest) else None
    own_color = brand_color(color or "") or POSTERN.color
    if dress is None:
        return Branding(shown, logo, own_color)
    worn = Dress(*dress)
    links = BrandLinks(worn.help_url, worn.privacy_url, worn.terms_url)
    approved = worn.texts_digest is not None and worn.texts_digest == worn.approved_texts
    return Branding(shown, logo, own_color, links, look_of(worn.look), _languages(worn.languages), texts, approved)


@lru_cache(maxsize=512)
def look_of(kept: str | None) -> Look:
    return PLAIN if kept is None else Look(**json.loads(kept))


@lru_cache(maxsize=512)
def _languages(kept: str | None) -> tuple[Language, ...]:
    return tuple(language for tag in (kept or "").split(",") if (language := Language.of(tag)) is not None)


def brand_color(text: str) -> str | None:
    """The colour in the form #rrggbb, in lower case. None for any other text."""
    color = text.lower()
    return color if _COLOR.fullmatch(color) else None


def logo_path(digest: str) -> str:
    """The path of a picture. It changes with the picture, so that browsers may cache it."""
    return f"/logos/{digest}"


def dark_logo(branding: Branding) -> str | None:
    """The path of the logo for dark grounds, beside a logo for light ones."""
    return logo_path(branding.look.dark_logo) if branding.logo and branding.look.dark_logo else None


def contrast(one: str, other: str) -> float:
    """The contrast of two colours in the form #rrggbb, as WCAG 2.2 defines it: from 1, for the same colour, to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    """The relative luminance, as WCAG 2.2 defines it."""
    red, green, blue = (_linear(int(color[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    linear: float = channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
    return linear
