"""The clocks of a process and of the database. Tokens that one process signs are refused by the others if their clocks differ."""

from datetime import timedelta
from typing import Final

MOST_APART: Final = timedelta(seconds=30)


def clocks_differ(ahead: timedelta) -> bool:
    """`ahead`: by how much the process's clock is ahead of the database's. Negative: behind."""
    return abs(ahead) > MOST_APART


def in_words(ahead: timedelta) -> str:
    """To be read between "the process is" and "the database"."""
    return f"{abs(ahead).total_seconds():.0f} s {'behind' if ahead < timedelta(0) else 'ahead of'}"
