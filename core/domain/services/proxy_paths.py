"""Normalizes request paths for the rules of a proxied application."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from core.domain.normal_forms import NotNormalized, folded
from core.frozen import Frozen

LONGEST_PATH: Final = 8192
_MOST_SCRIPTS: Final = 16
"""The segments with a dot that a path may have before its last one. Each makes readings, and each reading takes time."""
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

    Proxies and applications read one path in different ways: they decode it, join slashes, drop `..`, or do not look at the case of
    letters. A path that two of them could read differently has no place here, and gets the strictest rule.
    """

    written: str
    text: str
    folded: str

    @property
    def unended(self) -> str:
        """The place for an application that takes an ending for a format: Rails reads `/admin.json` as `/admin`."""
        before, _, last = self.folded.removesuffix("/").rpartition("/")
        return f"{before}/{_without_ending(last)}"

    @property
    def script_cuts(self) -> Iterator["ScriptCut"]:
        """What a server may cut out that takes a segment with a dot for a script: PHP is told `/admin` of `/index.php/admin`. A script in a
        directory stands for the directory, so `/cloud/index.php/admin` is `/cloud/admin`, too.
        """
        # For most paths, this is all.
        if "." not in self.folded:
            return
        segments = self.folded.removesuffix("/").split("/")
        for at, segment in enumerate(segments[:-1]):
            if "." in segment:
                stem = _without_ending(segments[at + 1])
                for first in {1, at}:
                    yield ScriptCut(first, at + 1, "/".join([*segments[:first], stem]))

    def without(self, cut: "ScriptCut") -> "PathPlace":
        return PathPlace(*(_cut_out(one, cut) for one in (self.written, self.text, self.folded)))


class ScriptCut(NamedTuple):
    """Segments of a path to cut out, by their numbers. `beginning` is what the folded rest begins with, in each way to read it."""

    first: int
    end: int
    beginning: str


def place_of(target: str) -> PathPlace | None:
    """The place of a request target, as the proxy has received it. None for whatever could be read in two ways."""
    path, _, _ = target.partition("?")
    if len(path) > LONGEST_PATH or not _PLAIN.fullmatch(path):
        return None
    text = _decoded(path)
    if text is None or not _is_straight(text):
        return None
    try:
        plain = fold(text)
    except NotNormalized:
        return None
    # A letter can come apart into eighteen, and each is looked at below. Some marks become dots or slashes when
    # somebody writes them in the plain way.
    if (
        len(plain) > LONGEST_PATH
        or not _is_straight(plain)
        or any(mark in _SEPARATORS - {"/"} for mark in plain)
        or plain.count("/") != text.count("/")
    ):
        return None
    if plain.count(".") > _MOST_SCRIPTS and sum("." in segment for segment in plain.split("/")[:-1]) > _MOST_SCRIPTS:
        return None
    return PathPlace(path, text, plain)


def fold(text: str) -> str:
    """Raises `NotNormalized`."""
    return folded(text, LONGEST_PATH)


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


def _without_ending(segment: str) -> str:
    """A dot at the beginning makes no ending."""
    return segment[:1] + segment[1:].partition(".")[0]


def _cut_out(path: str, cut: ScriptCut) -> str:
    segments = path.split("/", cut.end)
    return "/".join([*segments[: cut.first], segments[cut.end]])


def _is_straight(text: str) -> bool:
    """Whether no segment is empty, a dot or two, or ends with something that others drop. One slash at the end is usual."""
    segments = text[1:].split("/")
    *before, last = segments
    return all(before) and not any(segment.endswith(_LOOSE_ENDS) for segment in (*before, last))


def is_within(place: str, path: str) -> bool:
    """Whether a place is at this path of a rule, or below."""
    return path in {"/", place} or place.startswith(f"{path}/")
