"""The colours of an organization's pages: its own colour if text on it stays readable, ours everywhere else."""

from typing import Final

from core.domain.branding import Branding

# The values of --surface and --ground in pages.css: the backgrounds of links and buttons.
LIGHT: Final = ("#ffffff", "#f6f5f1")
DARK: Final = ("#1a2023", "#131719")


def declarations(color: str) -> bytes:
    """The declarations that follow pages.css in the stylesheet of this colour."""
    brand = Branding("", color=color)
    accent = f"--accent:{color};--ink:{brand.ink};"
    return (f":root{{{accent}{_on(brand, LIGHT)}}}\n@media (prefers-color-scheme: dark){{:root{{{accent}{_on(brand, DARK)}}}}}\n").encode()


def preview_declarations(color: str) -> bytes:
    """A stylesheet that colours a part of a page, for looking at a colour before it is chosen."""
    return declarations(color).replace(b":root", b".preview")


def _on(brand: Branding, grounds: tuple[str, ...]) -> str:
    link = brand.color if brand.may_write_on(*grounds) else "var(--text)"
    edge = brand.color if brand.stands_out_on(*grounds) else "var(--edge)"
    return f"--link:{link};--accent-edge:{edge}"
