"""The looks of an organization's pages as declarations of named custom properties, which follow the style sheet of all pages.

The address of such a style sheet says everything that is in it, so no process has to look anything up for it, also after a restart. What
an address can say is all harmless: colours, three corners, six families of type, and a picture at our own address. So it does not matter
who makes one up.
"""

import re
from typing import Final, Self

from core.domain.branding import CORNERS, DARK, LIGHT, POSTERN, Branding, ColorUse, Font, Look, brand_color, logo_path, nearest_color
from core.frozen import Frozen

_OURS: Final = "x"
_NAME: Final = re.compile(
    rf"(?P<color>[0-9a-f]{{6}}|{_OURS})"
    rf"(?:-(?P<second>[0-9a-f]{{6}}|{_OURS})-(?P<corner>{'|'.join(map(str, CORNERS))}|{_OURS})-(?P<font>{'|'.join(Font)}|{_OURS})"
    rf"-(?P<background>[0-9a-f]{{64}}|{_OURS}))?"
)
# Each names what systems have for Latin, then for Arabic and for Chinese, Japanese and Korean. What is in none of them comes from the
# system's own choice for the last word.
_FONTS: Final = {
    Font.SYSTEM: 'system-ui,-apple-system,"Segoe UI","Noto Sans","Noto Sans Arabic","DejaVu Sans",sans-serif',
    Font.HUMANIST: 'Seravek,"Gill Sans Nova",Ubuntu,Calibri,"Trebuchet MS","DejaVu Sans","Noto Sans Arabic","Noto Sans CJK SC",sans-serif',
    Font.GEOMETRIC: 'Avenir,"Century Gothic",Montserrat,Corbel,"URW Gothic","Noto Kufi Arabic","Noto Sans CJK SC",sans-serif',
    Font.SERIF: 'Charter,"Bitstream Charter","Sitka Text",Cambria,"DejaVu Serif","Noto Naskh Arabic","Noto Serif CJK SC",serif',
    Font.SLAB: 'Rockwell,"Rockwell Nova","Roboto Slab","DejaVu Serif","Sitka Small","Noto Naskh Arabic","Noto Serif CJK SC",serif',
    Font.MONO: 'ui-monospace,"Cascadia Mono","SF Mono",Menlo,"DejaVu Sans Mono",Consolas,"Noto Sans Arabic","Noto Sans CJK SC",monospace',
}


class PageLook(Frozen):
    """What a style sheet shows of an organization's looks. None is ours."""

    color: str | None = None
    second_color: str | None = None
    corner: int | None = None
    font: Font | None = None
    background: str | None = None
    """The digest of the picture."""

    @classmethod
    def of(cls, color: str, look: Look) -> Self:
        return cls(None if color == POSTERN.color else color, look.second_color, look.corner, look.font, look.background)

    @classmethod
    def named(cls, name: str) -> Self | None:
        """What an address says. None when it says nothing that there is, or says it in another form than we do."""
        said = _NAME.fullmatch(name)
        if said is None:
            return None
        color, second, corner, font, background = (None if part in {None, _OURS} else part for part in said.groups())
        look = cls(
            None if color is None else brand_color(f"#{color}"),
            None if second is None else brand_color(f"#{second}"),
            None if corner is None else int(corner),
            None if font is None else Font(font),
            background,
        )
        return look if look.name == name else None

    @property
    def name(self) -> str:
        """Most organizations have a colour, and nothing else."""
        color = _OURS if self.color is None else self.color[1:]
        if self == PageLook(self.color):
            return color
        second = _OURS if self.second_color is None else self.second_color[1:]
        corner = _OURS if self.corner is None else self.corner
        return f"{color}-{second}-{corner}-{self.font or _OURS}-{self.background or _OURS}"

    def declarations(self, root: str = ":root", page: str = ".flow", foot: str = "footer") -> bytes:
        """`root` gets the properties, and `page` the background. The name above the card and the foot below it stand outside of cards, so
        over a background each gets a ground like a card's.
        """
        fixed = ""
        if self.corner is not None:
            fixed += f"--corner:{self.corner}px;--card:{self.corner}px;"
        if self.font is not None:
            fixed += f"--font:{_FONTS[self.font]};"
        if self.background is not None:
            fixed += f"--background:url({logo_path(self.background)});"
        light, dark = fixed + self._colors(LIGHT), self._colors(DARK)
        sheet = f"{root}{{{light}}}\n@media (prefers-color-scheme: dark){{{root}{{{dark}}}}}\n"
        if self.background is not None:
            ground = "border:1px solid var(--line);border-radius:var(--card);background:var(--surface)"
            sheet += (
                f"{page}{{background:var(--background) center/cover no-repeat var(--ground)}}\n"
                f"{page} .brand,{page} {foot}{{padding:8px 16px;{ground}}}\n"
            )
        return sheet.encode()

    def _colors(self, grounds: tuple[str, ...]) -> str:
        said = ""
        if self.color is not None:
            brand = Branding("", color=self.color)
            link = brand.color if brand.may_write_on(*grounds) else "var(--text)"
            edge = brand.color if brand.stands_out_on(*grounds) else "var(--edge)"
            said = f"--accent:{brand.color};--ink:{brand.ink};--link:{link};--accent-edge:{edge};"
        if self.second_color is not None:
            said += f"--accent-2:{nearest_color(self.second_color, grounds, ColorUse.LINKS.needed)};--link:var(--accent-2);"
        return said.removesuffix(";")
