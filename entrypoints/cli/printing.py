"""Prints times, and text that others wrote, for commands."""

from datetime import UTC, datetime


def printable(text: str, longest: int = 60) -> str:
    """Text that others wrote, without the control characters that a terminal would obey."""
    shown = "".join(one if one.isprintable() else "?" for one in text)
    return shown if len(shown) <= longest else f"{shown[:longest]}…"


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
