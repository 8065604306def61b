"""Reads a catalogue: the part of TOML that a list of texts needs. `tomllib` reads the same texts from these files (a test compares), but it
takes twenty times as long, and the first person to see a page waits for it.
"""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

from core.domain.languages import CONSOLE_LANGUAGES, Language

_SECTION: Final = re.compile(r"\[([a-z_0-9.]+)\]")
# No escapes, and so no straight quotation marks and no backslashes: what stands there is what is shown.
_NAME: Final = re.compile(rb'\n([a-z_0-9.]+) = "')
_TEXT: Final = re.compile(r'([a-z_0-9.]+) = "([^"\\]+)"')


class UnreadableCatalogue(Exception):
    """A line of a shipped catalogue is not in the form that all have. A test of ours finds it first."""


class Sections(Mapping[str, str]):
    """The texts of one file, which stays as it is: a text is looked for in its section when somebody asks for it. As dictionaries, the
    files of the ten further languages would take five MiB of each process, and a catalogue asks only once for each text.
    """

    def __init__(self, source: bytes) -> None:
        parts = source.split(b"\n[")
        self._sections: Final = {name.decode(): lines for name, _, lines in (part.partition(b"]") for part in parts[1:])}

    def __getitem__(self, key: str) -> str:
        section, _, name = key.partition(".")
        start = f'\n{name} = "'.encode()
        _, found, rest = self._sections.get(section, b"").partition(start)
        if not found:
            raise KeyError(key)
        return rest[: rest.index(b'"')].decode()

    def __iter__(self) -> Iterator[str]:
        return (f"{section}.{name.decode()}" for section, lines in self._sections.items() for name in _NAME.findall(lines))

    def __len__(self) -> int:
        return sum(len(_NAME.findall(lines)) for lines in self._sections.values())


class OverEnglish(Mapping[str, str]):
    """The texts of a language, with the English ones where it lacks some."""

    def __init__(self, texts: Mapping[str, str], english: Mapping[str, str]) -> None:
        self._texts: Final = texts
        self._english: Final = english

    def __getitem__(self, key: str) -> str:
        return self._texts.get(key) or self._english[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._english)

    def __len__(self) -> int:
        return len(self._english)


def shipped(language: Language, beside: Path | None = None) -> Mapping[str, str]:
    """The texts of a language, by dotted key: its own file and, of the languages of the console, its sections of the files that stand
    beside the pages in this folder. The other languages have one file each, so that whoever translates has one to send in; what that
    file lacks, or the whole file, English tells.
    """
    own = files(__package__).joinpath(f"{language}.toml")
    if language not in CONSOLE_LANGUAGES:
        return Sections(own.read_bytes() if own.is_file() else b"")
    texts = read(own.read_text(encoding="utf-8"))
    for source in sources(beside):
        texts |= read(spoken(language, source.read_text(encoding="utf-8")), texts)
    return texts


def sources(beside: Path | None) -> list[Path]:
    """The files beside pages. Each has all languages."""
    return [] if beside is None else sorted(beside.rglob("texts/*.toml"))


def spoken(language: Language, source: str) -> str:
    """The sections of one language, with its code taken off their headings."""
    start = f"[{language}."
    sections = f"\n{source}".split("\n[")
    return "\n".join(f"[{section[len(start) - 1 :]}" for section in sections if section.startswith(start[1:]))


def read(source: str, known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The texts of `source`, none of which is `known`."""
    texts: dict[str, str] = {}
    section = ""
    for number, line in enumerate(source.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        if heading := _SECTION.fullmatch(line):
            section = f"{heading[1]}."
        elif (found := _TEXT.fullmatch(line)) and (key := section + found[1]) not in texts and key not in known:
            texts[key] = found[2]
        else:
            raise UnreadableCatalogue(f"Line {number}: neither a section nor a new text")
    return texts
