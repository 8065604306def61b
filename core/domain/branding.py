"""Branding: the name, looks, languages and own texts that an organization lends to mails and pages."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final

from core.domain.languages import Language, restored_languages
from core.domain.lines import one_line
from core.domain.looks.colors import READABLE, VISIBLE, contrast, worst_contrast
from core.domain.texts.own_texts import NO_OWN_TEXTS, OwnTexts
from core.frozen import Frozen, values_of

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
    """The families of type that pages may have. All are on people's systems already: a page loads no fonts."""

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
    worn = Dress(*dress)
    links = BrandLinks(worn.help_url, worn.privacy_url, worn.terms_url)
    approved = worn.texts_digest is not None and worn.texts_digest == worn.approved_texts
    return Branding(shown, logo, own_color, links, look_of(worn.look), restored_languages(worn.languages), texts, approved)


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
