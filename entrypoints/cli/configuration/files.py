"""Reads the files of a configuration document, in YAML or JSON."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

from core.frozen import Frozen
from entrypoints.failures import StartFailed

LARGEST: Final = 64 << 20
"""Of all files together, in bytes."""
DEEPEST: Final = 50
MOST_VALUES: Final = 5_000_000
"""With what aliases stand for counted at each place."""
_TAGS: Final = "tag:yaml.org,2002:"
_WHOLE_NUMBER: Final = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FRACTION: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONGEST_NUMBER: Final = 300
Steps = tuple[str, ...]


class WrongFile(StartFailed):
    """A file of a document cannot be read. The message begins with the place in it."""


class FilePosition(Frozen):
    """A place in a file, counted from one."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Files:
    """The files of one document, merged. `tree` is what they say together."""

    def __init__(self, tree: dict[str, Any], texts: Sequence[tuple[str, bytes]]) -> None:
        self.tree = tree
        self._texts = texts

    def positions(self, wanted: Sequence[Steps]) -> Mapping[Steps, FilePosition]:
        """The places of these steps in the files: of the last step that is there. The files are parsed once more, since places are only
        needed for problems, and would take more memory than the document.
        """
        found: dict[Steps, tuple[int, FilePosition]] = {}
        for name, text in self._texts:
            places = _Parser(name, text, keep_positions=set(_beginnings(wanted)))
            places.document()
            for steps in wanted:
                for length in range(len(steps), -1, -1):
                    position = places.positions.get(steps[:length])
                    if position is not None:
                        if steps not in found or found[steps][0] < length:
                            found[steps] = (length, position)
                        break
        return {steps: position for steps, (_, position) in found.items()}


def _beginnings(wanted: Sequence[Steps]) -> Iterator[Steps]:
    for steps in wanted:
        yield from (steps[:length] for length in range(len(steps) + 1))


def read_files(names: Sequence[str]) -> Files:
    """Raises `WrongFile`, with the file, the line and the column.

    YAML and JSON are read by the same parser, since JSON is a part of YAML.
    """
    texts: list[tuple[str, bytes]] = []
    left = LARGEST
    for name in names:
        text = _text(name, left)
        left -= len(text)
        texts.append((name, text))
    tree: dict[str, Any] = {}
    for name, text in texts:
        one = _Parser(name, text).document()
        if one is None:
            continue
        if not isinstance(one, dict):
            raise WrongFile(f"{name}:1:1: a document is a map with `postern: 1`, and `platform` or `organizations`")
        _merge(tree, one, (), texts)
    return Files(tree, texts)


def _text(name: str, most: int) -> bytes:
    try:
        with Path(name).open("rb") as file:
            text = file.read(most + 1)
    except OSError as error:
        raise WrongFile(f"{name}: {error.strerror or error}") from None
    if len(text) > most:
        raise WrongFile(f"{name}: a document has at most {LARGEST >> 20} MiB, all files together")
    return text


def _merge(into: dict[str, Any], other: dict[str, Any], steps: Steps, texts: Sequence[tuple[str, bytes]]) -> None:
    """Files share maps, and no values: what two files give is an error, and names both places."""
    for name, value in other.items():
        at = (*steps, name)
        if name not in into:
            into[name] = value
        elif isinstance(value, dict) and isinstance(into[name], dict) and _is_shared(at):
            # A copy: an alias may have put the same map in another place, too.
            into[name] = dict(into[name])
            _merge(into[name], value, at, texts)
        elif at != ("postern",) or into[name] != value:
            both = [str(position) for position in (_position_in(file, text, at) for file, text in texts) if position is not None]
            raise WrongFile(f"{both[-1]}: {' / '.join(at)} is set twice; first at {both[0]}")


def _is_shared(at: Steps) -> bool:
    """Whether a place of a document is a map of other objects, and no object of its own."""
    if at[0] == "platform" or len(at) <= 2:
        return len(at) <= 2
    kind = at[2]
    if kind == "services":
        return len(at) <= 5
    return len(at) == 3 and kind in _COLLECTIONS


_COLLECTIONS: Final = frozenset(
    {"profile_fields", "roles", "teams", "webhooks", "upstream_providers", "oauth_credentials", "domain_routes"}
)


def _position_in(file: str, text: bytes, at: Steps) -> FilePosition | None:
    parser = _Parser(file, text, keep_positions={at})
    parser.document()
    return parser.positions.get(at)


def _plain(text: str) -> Any:
    """The value of a text without quotation marks, by the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    return float(text) if _FRACTION.fullmatch(text) else text


class _Anchored(Frozen):
    value: Any
    values: int
    depth: int


class _Parser:
    """Makes values of the parser's events, and counts what they hold.

    It makes texts, numbers, true and false, empty values, lists and maps, and nothing else: no tag of a file names a type. A file is
    bounded in size, in depth, and in what its aliases expand to. Numbers and words are those of YAML 1.2: `no` and `off` are texts.
    """

    def __init__(self, file: str, text: bytes, *, keep_positions: set[Steps] | None = None) -> None:
        self._file = file
        self._events = self._parsed(text)
        self._event: Any = None
        self._anchors: dict[str | None, _Anchored] = {}
        self._values = 0
        self._keep = keep_positions
        self.positions: dict[Steps, FilePosition] = {(): FilePosition(file, 1, 1)}

    def _parsed(self, text: bytes) -> Iterator[Any]:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            yield from yaml.parse(text, Loader=loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self._refuse(mark, error.problem or "this is not valid YAML")
        except yaml.YAMLError as error:
            raise WrongFile(f"{self._file}: {' '.join(str(error).split())}") from None
        except UnicodeDecodeError:
            raise WrongFile(f"{self._file}: the file is not UTF-8") from None

    def document(self) -> Any:
        """The value of the file. None for an empty file."""
        value = None
        seen = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                seen += 1
                if seen > 1:
                    self._refuse(event.start_mark, "a file must contain one document: remove the second ---")
            elif isinstance(event, yaml.NodeEvent):
                value, _ = self._value(event, (), 1)
        return value

    def _value(self, event: Any, steps: Steps, depth: int) -> tuple[Any, int]:
        """The value that begins with this event, and its depth."""
        if depth > DEEPEST:
            self._refuse(event.start_mark, f"nested more than {DEEPEST} levels deep")
        self._count(event, 1)
        if isinstance(event, yaml.AliasEvent):
            anchored = self._anchors.get(event.anchor)
            if anchored is None:
                self._refuse(event.start_mark, f"there is no anchor &{event.anchor} before this alias")
            if depth + anchored.depth > DEEPEST:
                self._refuse(event.start_mark, f"nested more than {DEEPEST} levels deep")
            self._count(event, anchored.values)
            return anchored.value, anchored.depth
        before = self._values
        if isinstance(event, yaml.ScalarEvent):
            value, deepest = self._scalar(event), 0
        elif isinstance(event, yaml.SequenceStartEvent):
            self._require_plain(event, "seq")
            value, deepest = self._list(steps, depth)
        else:
            self._require_plain(event, "map")
            value, deepest = self._map(steps, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, self._values - before, deepest)
        return value, deepest

    def _list(self, steps: Steps, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        deepest = 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            value, inner = self._value(event, (*steps, str(len(items))), depth + 1)
            items.append(value)
            deepest = max(deepest, inner)
        return items, deepest + 1

    def _map(self, steps: Steps, depth: int) -> tuple[dict[str, Any], int]:
        entries: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        deepest = 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            mark = event.start_mark
            key, _ = self._value(event, steps, depth + 1)
            is_plain = isinstance(event, yaml.ScalarEvent)
            if not is_plain or not isinstance(key, str):
                if not is_plain or isinstance(key, (dict, list)):
                    self._refuse(mark, "the name of an entry is a text")
                key = event.value
            at = (*steps, key)
            if self._keep is not None and at in self._keep:
                self.positions.setdefault(at, FilePosition(self._file, mark.line + 1, mark.column + 1))
            value, inner = self._value(next(self._events), at, depth + 1)
            deepest = max(deepest, inner)
            if key == "<<" and not event.style:
                for one in value if isinstance(value, list) else [value]:
                    if not isinstance(one, dict):
                        self._refuse(mark, "<< must be a map, or a list of maps")
                    merged = {**one, **merged}
            elif key in entries:
                self._refuse(mark, f"{key} is set twice")
            else:
                entries[key] = value
        return {**merged, **entries} if merged else entries, deepest + 1

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if "\x00" in text or _SURROGATE.search(text):
            self._refuse(event.start_mark, "a text has no NUL, and no half of a surrogate pair")
        if event.tag is not None:
            self._require_plain(event, "str")
            return text
        value = text if event.style else _plain(text)
        if isinstance(value, float) and not isfinite(value):
            self._refuse(event.start_mark, "this number is too large")
        return value

    def _require_plain(self, event: Any, kind: str) -> None:
        if event.tag is not None and event.tag not in {"!", f"{_TAGS}{kind}"}:
            self._refuse(event.start_mark, f"the tag {event.tag} is not allowed")

    def _count(self, event: Any, values: int) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            self._refuse(event.start_mark, f"more than {MOST_VALUES} values, including those of aliases")

    def _refuse(self, mark: Any, problem: str) -> NoReturn:
        where = f"{self._file}:{mark.line + 1}:{mark.column + 1}" if mark is not None else self._file
        raise WrongFile(f"{where}: {problem}") from None
