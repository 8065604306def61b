"""The bounds of what organizations and services say about sessions: how long one lasts, how long it may rest, and how many there may be."""

from typing import Final

from core.domain.errors import BadRequest

# Ninety days. Sessions last at most so long, unless the operator configures otherwise.
LONGEST_SESSION_HOURS: Final = 90 * 24
SHORTEST_IDLE_MINUTES: Final = 5
"""The use of a session is written once a minute."""
LONGEST_IDLE_MINUTES: Final = 30 * 24 * 60
"""Thirty days, which no session outlives without a use."""
MOST_SESSIONS: Final = 100


def require_session_bounds(hours: int | None, minutes_idle: int | None, most: int | None) -> None:
    """None says nothing. Raises `BadRequest`, with the name of the field."""
    require_within("session_lifetime_hours", hours, 1, LONGEST_SESSION_HOURS)
    require_within("session_idle_minutes", minutes_idle, SHORTEST_IDLE_MINUTES, LONGEST_IDLE_MINUTES)
    require_within("most_sessions", most, 1, MOST_SESSIONS)


def require_within(name: str, number: int | None, least: int, most: int) -> None:
    """Raises `BadRequest`."""
    if number is not None and not least <= number <= most:
        raise BadRequest(f"{name}: {least} to {most}", words="field_bounds", values={"least": least, "most": most})
