"""Paths of requests, as rules of a proxied application compare them. Proxies and applications read one path in different ways: they decode
it, join slashes, drop `..`, or do not look at the case of letters. A path that two of them could read differently has no place here, and
gets the strictest rule.
"""

import re
from typing import Final
from unicodedata import normalize

from core.frozen import Frozen

LONGEST_PATH: Final = 8192
# What may stand in an address as it is (RFC 3986 section 3.3), without the semicolon: some applications cut a path there.
_PLAIN: Final = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,=:@/-]|%[0-9A-Fa-f]{2})*")
_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
# A segment that ends so is another one, or none, on some file systems.
_LOOSE_ENDS: Final = (".", " ")
# What an escape may not hide: it would be a separator, or the end of the path, to whoever decodes it.
_SEPARATORS: Final = frozenset("/\\%;?#")


class PathPlace(Frozen):
    """Where a request leads. `written` is the path as it came, for an application that decodes nothing. `folded` is the place for one that
    knows no case, nor different ways to write one letter.
    """

    written: str
    text: str
    folded: str

    @property
    def unended(self) -> str:
        """The place for an application that takes an ending for a format: Rails reads `/admin.json` as `/admin`."""
        before, _, last = self.folded.removesuffix("/").rpartition("/")
        return f"{before}/{last[:1]}{last[1:].partition('.')[0]}"


def place_of(target: str) -> PathPlace | None:
    """The place of a request target, as the proxy has received it. None for whatever could be read in two ways."""
    path, _, _ = target.partition("?")
    if len(path) > LONGEST_PATH or not _PLAIN.fullmatch(path):
        return None
    text = _decoded(path)
    if text is None or not _is_straight(text):
        return None
    folded = fold(text)
    # Some marks become dots or slashes when somebody writes them in the plain way.
    if not _is_straight(folded) or any(mark in _SEPARATORS - {"/"} for mark in folded) or folded.count("/") != text.count("/"):
        return None
    return PathPlace(path, text, folded)


def fold(text: str) -> str:
    return normalize("NFKC", normalize("NFKC", text).casefold())


def _decoded(path: str) -> str | None:
    """None for bytes that are no UTF-8, for overlong forms, and for escapes of what separates, ends or controls."""
    if "%" not in path:
        return path
    hidden = bytes(int(one, 16) for one in _ESCAPED.findall(path))
    if any(chr(one) in _SEPARATORS or one < 0x20 or one == 0x7F for one in hidden):
        return None
    try:
        text = bytes(_ESCAPED.sub(lambda found: chr(int(found[1], 16)), path), "latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() or all(mark.isprintable() or mark == " " for mark in text) else None


def _is_straight(text: str) -> bool:
    """Whether no segment is empty, a dot or two, or ends with something that others drop. One slash at the end is usual."""
    segments = text[1:].split("/")
    *before, last = segments
    return all(before) and not any(segment.endswith(_LOOSE_ENDS) for segment in (*before, last))


def is_within(place: str, path: str) -> bool:
    """Whether a place is at this path of a rule, or below."""
    return path in {"/", place} or place.startswith(f"{path}/")
