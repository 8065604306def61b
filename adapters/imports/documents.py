"""Reads a JSON document of any size, one value at a time, and reports broken files."""

import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final

from core.domain.errors import BadRequest
from core.domain.platform.imports.records import shown
from core.domain.platform.imports.tables import BEGINNING, named_kind
from core.frozen import Frozen

LARGEST: Final = 8 << 20
"""The most characters of one value. A person of another system has a few thousand."""
_PART: Final = 1 << 18
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_OUTSIDE: Final = re.compile(r'["{}\[\],]')
_INSIDE: Final = re.compile(r'["\\]')


_DEEPEST: Final = 4
"""So many objects in each other are walked through. Those beneath are decoded whole."""
_ENDS: Final = "it ends in the middle"
# The longest part of a value that looks broken until more is read: an escape of two halves.
_LONGEST_PART: Final = 12


class BrokenDocument(Exception):
    """The document is no JSON from here on, or ends in the middle. The text says why, in one line."""

    def __init__(self, why: str, line: int, byte: int) -> None:
        super().__init__(why)
        self.line: Final = line
        self.byte: Final = byte


class _NoNumber(ValueError):
    pass


class Value(Frozen):
    """`key` is the name in the object around, empty if there is none. `number` counts the elements of a list from 1; it is 0 for a value
    that is no element.
    """

    key: str
    number: int
    content: Any
    fault: str = ""
    """Why there is no content. Empty when there is."""
    within: int = 0
    """The number of the element in which the value stands, where a list is walked through. 0 for a value of the top-level object."""


class JsonDocument:
    """The values are those of the top-level object, and the elements of the lists in it. Of a value that is too large or too deep, only its
    fault is reported, and the reading continues behind it. At most one value is in memory.
    """

    def __init__(self, read: Callable[[int], str], largest: int = LARGEST, walked: Collection[str] = ()) -> None:
        """`read` gives the next characters, at most so many; none at the end. Objects and lists of objects with the names of `walked` are
        not decoded whole: their values are told one by one.
        """
        self.documents = 0
        """How many were read so far."""
        self._read = read
        self._largest = largest
        self._walked = frozenset(walked)
        self._text = ""
        self._at = 0
        # Of what was let go.
        self._lines = 0
        self._bytes = 0
        self._is_over = False
        self._decoder = json.JSONDecoder(parse_constant=_refuse)

    def values(self, *, several: bool = False) -> Iterator[Value]:
        """Raises `BrokenDocument`, after all values that could be read. With `several`, other documents may stand behind the first one."""
        while True:
            match self._peek():
                case "[":
                    yield from self._elements("")
                case "{":
                    yield from self._members()
                case "":
                    raise self._broken("it is empty")
                case _ if self._is_scalar():
                    raise self._broken("it is JSON, and neither an object nor a list")
                case _:
                    raise self._broken("it is no JSON: it begins neither with an object nor with a list")
            self.documents += 1
            if not self._peek():
                return
            if not several:
                raise self._broken("something stands behind the end of the document")

    def _is_scalar(self) -> bool:
        """Whether the document is a text, a number or a word, which is JSON all the same."""
        try:
            json.loads(self._text)
        except ValueError:
            return False
        return True

    def _members(self, within: int = 0, depth: int = 0) -> Iterator[Value]:
        self._at += 1
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            key, fault = self._value()
            if fault or not isinstance(key, str):
                raise self._broken("it is no JSON: a name is missing")
            if (found := self._peek()) != ":":
                raise self._broken("it is no JSON: a colon is missing" if found else _ENDS)
            self._at += 1
            if self._peek() == "[":
                yield from self._elements(key, within, depth)
            elif self._is_walked(key, depth):
                yield from self._members(within, depth + 1)
            else:
                content, fault = self._value()
                yield Value(key, 0, content, fault, within)
            if self._goes_on("}"):
                continue
            return

    def _elements(self, key: str, within: int = 0, depth: int = 0) -> Iterator[Value]:
        self._at += 1
        if self._peek() == "]":
            self._at += 1
            return
        number = 0
        while True:
            number += 1
            if self._is_walked(key, depth):
                yield from self._members(number, depth + 1)
            else:
                content, fault = self._value()
                yield Value(key, number, content, fault, within)
            if not self._goes_on("]"):
                return

    def _is_walked(self, key: str, depth: int) -> bool:
        """Whether the next value is an object that is not decoded whole."""
        return key in self._walked and depth < _DEEPEST and self._peek() == "{"

    def _goes_on(self, end: str) -> bool:
        """Reads past a comma, or past the end."""
        found = self._peek()
        if found not in {",", end}:
            raise self._broken("it is no JSON: a comma is missing" if found else _ENDS)
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
            content, fault, broken = self._decoded()
            if not fault:
                return content, ""
            if len(self._text) - self._at >= self._largest:
                self._skip()
                return None, fault
            if not self._more():
                self._skip()
                if broken is not None:
                    raise broken
                return None, fault

    def _decoded(self) -> tuple[Any, str, BrokenDocument | None]:
        """The value, or why it cannot be had from the text so far, and what that means at the end of the file."""
        try:
            content, end = self._decoder.raw_decode(self._text, self._at)
        except RecursionError:
            return None, "it is nested too deeply", None
        except json.JSONDecodeError as error:
            # Either the value is broken, or its end has not been read yet.
            broken = self._broken("it is no JSON", error.pos)
            if not _may_go_on(error, len(self._text)):
                raise broken from None
            return None, f"it has more than {self._largest} characters", broken
        except _NoNumber as error:
            raise self._broken(f"it is no JSON: {error}") from None
        except ValueError:
            return None, "it has a number that is too long", None
        # A number could go on behind the end of what was read.
        if end == len(self._text) and self._more():
            return self._decoded()
        self._at = end
        return content, "", None

    def _skip(self) -> None:
        """Goes to the end of a value that cannot be decoded: there all brackets that it opened are closed again."""
        depth, inside = 0, False
        while True:
            found = (_INSIDE if inside else _OUTSIDE).search(self._text, self._at)
            if found is None:
                self._at = len(self._text)
                if not self._more():
                    raise self._broken(_ENDS)
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
        rest, gone = self._text[self._at :], self._text[: self._at]
        self._lines += gone.count("\n")
        self._bytes += size_of(gone)
        beyond = max(self._at - len(self._text), 0)
        # Twice as much each time, since the whole value is decoded anew each time.
        further = "" if self._is_over else self._read(max(_PART, len(rest)))
        self._is_over = not further
        self._text, self._at = rest + further, beyond
        return not self._is_over

    def _broken(self, why: str, at: int | None = None) -> BrokenDocument:
        before = self._text[: self._at if at is None else at]
        return BrokenDocument(why, self._lines + before.count("\n") + 1, self._bytes + size_of(before))


def _may_go_on(error: json.JSONDecodeError, length: int) -> bool:
    """Whether more text could mend it."""
    return error.msg.startswith("Unterminated string") or error.pos >= length - _LONGEST_PART


def size_of(text: str) -> int:
    """In bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def _refuse(word: str) -> Any:
    raise _NoNumber(f"{word} is no number")


class BrokenFile(BadRequest):
    """A file that is incomplete, or of another kind. Nobody is imported from it.

    The message names the file, the place of the fault, and the kind of the file, if the fault is in its beginning.
    """

    def __init__(self, path: Path, why: str, line: int, byte: int) -> None:
        self.file: Final = shown(path.name)
        self.line: Final = line
        self.byte: Final = byte
        super().__init__(f"{self.file}, line {line}, byte {byte}: {why}{_kind(path) if byte < BEGINNING else ''}. No people were imported")


def broken(path: Path, fault: BrokenDocument) -> BrokenFile:
    return BrokenFile(path, str(fault), fault.line, fault.byte)


def of_another_kind(path: Path, why: str) -> BadRequest:
    """The refusal of a file that can be read, and holds something else."""
    return BadRequest(f"{shown(path.name)}: {why}{_kind(path)}")


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        kind = named_kind(file.read(BEGINNING))
    return f" (the file is {kind})" if kind else ""
