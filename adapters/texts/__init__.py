"""The texts of pages and mails: one catalog for each language, read when the language is first used."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

from adapters.texts.catalogue import Catalogue
from core.domain.languages import CONSOLE_LANGUAGES, DEFAULT, Language
from core.domain.texts.rules import FormerDefault, FormerDefaults

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
    texts = read_catalogue(own.read_text(encoding="utf-8"))
    for source in sources(beside):
        try:
            texts |= read_catalogue(spoken(language, source.read_text(encoding="utf-8")), texts)
        except UnreadableCatalogue as fault:
            raise UnreadableCatalogue(f"{source}: {fault}") from None
    return texts


def sources(beside: Path | None) -> list[Path]:
    """The files beside pages. Each has all languages."""
    return [] if beside is None else sorted(beside.rglob("texts/*.toml"))


def spoken(language: Language, source: str) -> str:
    """The sections of one language, with its code taken off their headings."""
    start = f"[{language}."
    sections = f"\n{source}".split("\n[")
    return "\n".join(f"[{section[len(start) - 1 :]}" for section in sections if section.startswith(start[1:]))


def read_catalogue(source: str, known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The texts of `source`, none of which is `known`.

    Reads the part of TOML that a list of texts needs. `tomllib` reads the same texts from these files (a test compares), but it takes
    twenty times as long, and the first user to see a page waits for it.
    """
    texts: dict[str, str] = {}
    section = ""
    for number, line in enumerate(source.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        if heading := _SECTION.fullmatch(line):
            section = f"{heading[1]}."
        elif found := _TEXT.fullmatch(line):
            key = section + found[1]
            if key in texts or key in known:
                raise UnreadableCatalogue(f"Line {number}: the text {key} exists already")
            texts[key] = found[2]
        else:
            raise UnreadableCatalogue(f"Line {number}: neither a section nor a text")
    return texts


# As `paragraph` of the mails' `parts.html` has it.
PARAGRAPH_OF_MAIL: Final = "margin:0 0 16px;font-size:16px;line-height:25px;color:#22272b;"


class ShippedTexts:
    """Implements `ports.texts.Texts`. `beside` is the folder of the pages whose texts stand beside them.

    Mails, and pages that share their texts, have one file a language beside this module. A page of the console has its texts in all
    languages beside it, in its folder `texts`. English defines the keys; tests check that the other languages of the console have the same
    keys and placeholders. Further languages have one file each and no texts of the console, and fall back to English.
    """

    def __init__(self, beside: Path | None = None) -> None:
        self._beside: Final = beside

    def of(self, language: Language) -> Catalogue:
        return _catalogue(language, self._beside, html=False)

    def html(self, language: Language) -> Catalogue:
        """The texts of mails, whose programs know no style sheet."""
        return _catalogue(language, self._beside, html=True, between=f'</p>\n<p style="{PARAGRAPH_OF_MAIL}">')

    def written(self, language: Language) -> Mapping[str, str]:
        """Implements `ports.texts.ShippedWords`."""
        english = _texts(DEFAULT, self._beside)
        return _texts(language, self._beside) if language in CONSOLE_LANGUAGES else OverEnglish(_texts(language, None), english)

    def former(self, language: Language) -> FormerDefaults:
        """Implements `ports.texts.ShippedWords`."""
        return _former(language)

    def on_page(self, language: Language, *, html: bool) -> Catalogue:
        """The texts of pages, whose lines never end within "e-mail"."""
        return _catalogue(language, self._beside, html=html, on_page=True, between="</p>\n<p>" if html else "\n\n")


@cache
def _catalogue(language: Language, beside: Path | None, *, html: bool, on_page: bool = False, between: str = "\n\n") -> Catalogue:
    english = None if language is DEFAULT else _catalogue(DEFAULT, beside, html=html, on_page=on_page, between=between)
    # Nothing of a further language stands beside pages, so mails and pages share its file.
    texts = _texts(language, beside if language in CONSOLE_LANGUAGES else None)
    return Catalogue(language, texts, html=html, on_page=on_page, between=between, english=english)


_texts = cache(shipped)


@cache
def _former(language: Language) -> FormerDefaults:
    """In the file, each default is its digest and its length; `python -m ops.words.former` writes them."""
    source = files(__package__).joinpath("former.toml").read_text(encoding="utf-8")
    return {key: _former_defaults(listed) for key, listed in read_catalogue(spoken(language, source)).items()}


def _former_defaults(listed: str) -> list[FormerDefault]:
    return [FormerDefault(digest, int(length)) for digest, _, length in (one.partition(":") for one in listed.split(" "))]
