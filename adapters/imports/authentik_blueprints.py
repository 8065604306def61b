"""Blueprints that authentik's export writes: YAML, of which one entry at a time stands in memory."""

import json
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from os import SEEK_END
from pathlib import Path
from typing import Any, Final, TextIO

import yaml
from yaml.composer import Composer

from adapters.imports.documents import BrokenFile, of_another_kind, size_of
from adapters.imports.files import BytesRead, FileSource, ImportFiles, NotesOnDisk, digest_of, files_of, made, named_source
from core.domain.platform.imports import authentik
from core.domain.platform.imports.records import Found, ImportedPerson, UnreadableRecord, shown
from core.frozen import Frozen
from ports.jobs import Advance

_ENTRIES: Final = "entries"
_LAST: Final = "version"
# The types that PyYAML comes with leave out most of its events, and streams of texts. Its parser in C is ten times as fast.
_PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOBODY: Final = "it is no blueprint with people: write it with ak export_blueprint"
_CUT: Final = f"it does not end with its {_LAST}, as an export does: it was cut, or written by hand"


class _Entry(Frozen):
    line: int
    content: Any
    fault: str = ""


class _Counted:
    """A file for the reader of YAML, which takes whatever has `read`."""

    def __init__(self, file: TextIO, advance: Advance) -> None:
        self._file = file
        self._advance = advance

    def read(self, most: int) -> str:
        part = self._file.read(most)
        self._advance(size_of(part))
        return part


class _EntryLoader(Composer, _PARSER):  # type: ignore[misc]
    """Composes one node at a time, which the parser in C does not."""

    def __init__(self, stream: _Counted) -> None:
        _PARSER.__init__(self, stream)
        Composer.__init__(self)


class _Groups:
    """What stands beside the people."""

    def __init__(self, held: ExitStack) -> None:
        self._names = held.enter_context(closing(NotesOnDisk()))
        self._devices = held.enter_context(closing(NotesOnDisk()))

    def look_at(self, entry: Any) -> None:
        if authentik.model_of(entry) == authentik.GROUP and (group := authentik.group(entry)) is not None:
            key, name = group
            self._names.note([(key, name.encode())])
        elif owner := authentik.owner_of_device(entry):
            self._devices.note([(owner, b"")])

    def team(self, key: str) -> str:
        return (self._names.find(key) or b"").decode()

    def has_device(self, key: str) -> bool:
        return self._devices.find(key) is not None


def open_authentik(asked: ImportFiles, held: ExitStack, advance: Advance) -> FileSource:
    """Raises `BadRequest` and `OSError`."""
    files, read, groups = files_of(asked), BytesRead(), _Groups(held)
    count = sum(_looked_through(path, groups, advance) for path in files)
    found = (one for path in files for one in _people(path, groups, held, read))
    return FileSource(name=named_source(asked), digest=digest_of(asked), count=count, relying_party=None, found=found, read=read)


def _looked_through(path: Path, groups: _Groups, advance: Advance) -> int:
    count = 0
    for entry in _entries(path, advance):
        groups.look_at(entry.content)
        count += authentik.model_of(entry.content) == authentik.USER
    if not count:
        raise of_another_kind(path, _NOBODY)
    return count


def _people(path: Path, groups: _Groups, held: ExitStack, read: BytesRead) -> Iterator[Found]:
    def person(entry: Any, place: str) -> ImportedPerson:
        return authentik.person(entry, place, groups.team, groups.has_device)

    entries = _entries(path, read.add)
    held.callback(entries.close)
    for entry in entries:
        place = f"{shown(path.name)}, line {entry.line}"
        if entry.fault:
            yield UnreadableRecord(place, entry.fault)
        elif authentik.model_of(entry.content) == authentik.USER:
            yield made(person, entry.content, place)


def _entries(path: Path, advance: Advance) -> Generator[_Entry, None, None]:
    """Raises `BrokenFile` where the file is no YAML, or does not end as an export does: most of what YAML is cut to is YAML, too."""
    key = ""
    with _opened(path) as file:
        try:
            loader: Any = _EntryLoader(_Counted(file, advance))
            for _ in range(2):
                loader.get_event()
            if not loader.check_event(yaml.MappingStartEvent):
                raise of_another_kind(path, _NOBODY)
            loader.get_event()
            while not loader.check_event(yaml.MappingEndEvent):
                key = _key(loader)
                if key == _ENTRIES and loader.check_event(yaml.SequenceStartEvent):
                    yield from _elements(loader)
                else:
                    loader.compose_node(None, 0)
        except (yaml.YAMLError, RecursionError) as fault:
            raise _broken(path, fault) from None
    if key != _LAST or not _ends_a_line(path):
        raise BrokenFile(path, _CUT, _line_at(path), path.stat().st_size)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, SEEK_END)
        return file.read() == b"\n"


def _key(loader: Any) -> str:
    node = loader.compose_node(None, 0)
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def _elements(loader: Any) -> Iterator[_Entry]:
    loader.get_event()
    while not loader.check_event(yaml.SequenceEndEvent):
        node = loader.compose_node(None, 0)
        line = node.start_mark.line + 1
        try:
            # YAML has values that JSON has not, such as dates.
            yield _Entry(line, json.loads(json.dumps(loader.construct_document(node), default=str)))
        except (yaml.constructor.ConstructorError, ValueError, TypeError):
            yield _Entry(line, None, "it has tags or values that only authentik reads")
    loader.get_event()


def _broken(path: Path, fault: Exception) -> BrokenFile:
    mark = getattr(fault, "problem_mark", None)
    index = getattr(fault, "position", 0) if mark is None else mark.index
    with _opened(path) as file:
        before = file.read(index)
        why = "it is no YAML" if file.read(1).strip() else "it ends in the middle"
    # Bytes that are no text are counted as larger than they are.
    return BrokenFile(path, why, before.count("\n") + 1, min(size_of(before), path.stat().st_size))


def _opened(path: Path) -> TextIO:
    return path.open(encoding="utf-8", errors="replace", newline="")


def _line_at(path: Path) -> int:
    """The number of the last line."""
    with path.open("rb") as file:
        return sum(1 for line in file if line.endswith(b"\n")) + 1
