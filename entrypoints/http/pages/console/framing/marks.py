"""The sign of a thing that has no picture: its first letter on one of our colours."""

from typing import Final
from uuid import UUID

from core.domain.identity.profiles import SHADES, Portrait

_NAMELESS: Final = "?"


def mark_of(name: str, thing: UUID, picture: str = "") -> Portrait:
    """The colour comes from the id, so it stays when the name changes."""
    return Portrait(picture, next((letter for letter in name if letter.isalnum()), _NAMELESS).upper(), thing.int % SHADES)
