"""Finds invisible characters, which change the direction of a text, break its lines, or hide a part of it."""

import unicodedata
from typing import Final

# Controls, formats (which turn the direction of text), what is no character, and separators of lines.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def seen(text: str) -> str:
    """The text with what nobody sees written out, by its number."""
    return "".join(f"\\u{ord(one):04x}" if unicodedata.category(one) in _UNSEEN else one for one in text)
