"""Reads a JSON document of any size, one value at a time: the values of the top-level object, and the elements of the lists in it. Of a
value that is broken, too large or too deep, only its fault is told, and the reading goes on behind it. At most one value stands in memory.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from core.frozen import Frozen

LARGEST: Final = 8 << 20
"""The most characters of one value. A person of another system has a few thousand."""
_PART: Final = 1 << 18
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_OUTSIDE: Final = re.compile(r'["{}\[\],]')
_INSIDE: Final = re.compile(r'["\\]')


class BrokenDocument(Exception):
    """The document cannot be read from here on. The text says why, in one line."""


class Value(Frozen):
    """`key` is the name in the top-level object, empty if there is none. `number` counts the elements of a list from 1; it is 0 for a value
    that is no element.
    """

    key: str
    number: int
    content: Any
    fault: str = ""
    """Why there is no content. Empty when there is."""


class JsonDocument:
    def __init__(self, read: Callable[[int], str], largest: int = LARGEST) -> None:
        """`read` gives the next characters, at most so many; none at the end."""
        self._read = read
        self._largest = largest
        self._text = ""
        self._at = 0
        self._is_over = False
        self._decoder = json.JSONDecoder(parse_constant=_refuse)

    def values(self) -> Iterator[Value]:
        """Raises `BrokenDocument`, after all values that could be read."""
        match self._peek():
            case "[":
                yield from self._elements("")
            case "{":
                yield from self._members()
            case _:
                raise BrokenDocument("The file is no JSON: it begins neither with an object nor with a list")
        if self._peek():
            raise BrokenDocument("Something stands behind the end of the document")

    def _members(self) -> Iterator[Value]:
        self._at += 1
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            key, fault = self._value()
            if fault or not isinstance(key, str) or self._peek() != ":":
                raise BrokenDocument("The file is no JSON: a name is missing")
            self._at += 1
            if self._peek() == "[":
                yield from self._elements(key)
            else:
                content, fault = self._value()
                yield Value(key, 0, content, fault)
            if self._goes_on("}"):
                continue
            return

    def _elements(self, key: str) -> Iterator[Value]:
        self._at += 1
        if self._peek() == "]":
            self._at += 1
            return
        number = 0
        while True:
            number += 1
            content, fault = self._value()
            yield Value(key, number, content, fault)
            if not self._goes_on("]"):
                return

    def _goes_on(self, end: str) -> bool:
        """Reads past a comma, or past the end."""
        found = self._peek()
        if found not in {",", end}:
            raise BrokenDocument("The file ends in the middle" if not found else "The file is no JSON: a comma is missing")
        self._at += 1
        return found == ","

    def _peek(self) -> str:
        """The next character that is no space. Empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = self._at if found is None else found.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _value(self) -> tuple[Any, str]:
        """The value that begins at the next character, or the reason why it has none."""
        self._peek()
        while True:
            try:
                content, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                fault = "it is nested too deeply"
            except ValueError:
                # Either the value is broken, or its end has not been read yet.
                fault = "it is no JSON"
            else:
                # A number could go on behind the end of what was read.
                if end < len(self._text) or not self._more():
                    self._at = end
                    return content, ""
                continue
            if len(self._text) - self._at >= self._largest:
                self._skip()
                return None, f"it is no JSON, or has more than {self._largest} characters" if fault == "it is no JSON" else fault
            if not self._more():
                if self._at >= len(self._text):
                    raise BrokenDocument("The file ends in the middle")
                self._skip()
                return None, fault

    def _skip(self) -> None:
        """Goes to the end of a value that cannot be decoded: there all brackets that it opened are closed again."""
        depth, inside = 0, False
        while True:
            found = (_INSIDE if inside else _OUTSIDE).search(self._text, self._at)
            if found is None:
                self._at = len(self._text)
                if not self._more():
                    raise BrokenDocument("The file ends in the middle of a value")
                continue
            mark = found.group()
            if not inside and depth == 0 and mark in "]},":
                self._at = found.start()
                return
            self._at = found.end()
            if mark == "\\":
                self._at += 1
            elif mark == '"':
                inside = not inside
            elif mark in "{[":
                depth += 1
            elif mark in "}]":
                depth -= 1

    def _more(self) -> bool:
        """Reads on, and lets go of what was read before. False at the end."""
        rest = self._text[self._at :]
        beyond = max(self._at - len(self._text), 0)
        # Twice as much each time, since the whole value is decoded anew each time.
        further = "" if self._is_over else self._read(max(_PART, len(rest)))
        self._is_over = not further
        self._text, self._at = rest + further, beyond
        return not self._is_over


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
