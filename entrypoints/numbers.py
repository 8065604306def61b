"""Numbers that an operator writes in settings and in the arguments of commands."""

from typing import Final

# `int` raises an error for a number that is thousands of digits long.
_MOST_DIGITS: Final = 20


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
