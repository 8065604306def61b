"""Numbers as an operator writes them, in settings and after commands."""

from typing import Final

# Python refuses to read a number that is thousands of digits long.
_MOST_DIGITS: Final = 20


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
