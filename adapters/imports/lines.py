"""Reads files line by line, with a bound on the length of a line."""

from collections.abc import Iterator
from typing import BinaryIO, Final

from core.frozen import Frozen

LONGEST: Final = 8 << 20


class Line(Frozen):
    number: int
    place: int
    """The byte at which the line begins."""
    content: bytes | None
    """None for a line that is too long."""


def lines(file: BinaryIO, longest: int = LONGEST) -> Iterator[Line]:
    """The lines that are not empty. Of a line that is too long, never more than `longest` bytes stand in memory."""
    number, place = 0, file.tell()
    while content := file.readline(longest + 1):
        number += 1
        begin, place = place, place + len(content)
        if len(content) > longest and not content.endswith(b"\n"):
            while rest := file.readline(longest):
                place += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield Line(number, begin, None)
        elif content.strip():
            yield Line(number, begin, content)
