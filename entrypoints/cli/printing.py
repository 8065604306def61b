"""How commands print times and text that others wrote."""

from datetime import UTC, datetime


def printable(text: str, longest: int = 60) -> str:
    """The name that a stranger's client gave itself, without the control characters that a terminal would obey."""
    shown = "".join(one if one.isprintable() else "?" for one in text)
    return shown if len(shown) <= longest else f"{shown[:longest]}…"


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
