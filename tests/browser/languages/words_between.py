"""What a page or a mail says in English although it speaks another language."""

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from html.parser import HTMLParser
from typing import Final

from adapters.texts import shipped
from core.domain.languages import CONSOLE_LANGUAGES, DEFAULT, Language
from tests.places import PAGES

_PLACEHOLDER: Final = re.compile(r"\{[a-z_]+\}")
# Word joiners, isolates, and places where a long word may break.
_UNSEEN: Final = re.compile("[\u200b\u2060\u2066-\u2069]")
_WORD: Final = re.compile(r"[A-Za-z]{3,}")
_SPOKEN: Final = frozenset(
    {"aria-label", "title", "alt", "placeholder", "data-other", "data-other-label", "data-failed", "data-known", "data-label"}
)
_UNHEARD: Final = frozenset({"style", "script", "code", "pre"})


class _Said(HTMLParser):
    """The pieces of text that a page shows, or says to screen readers."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.pieces: set[str] = set()
        self._unheard = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unheard += tag in _UNHEARD
        self.pieces |= {tidy(value) for name, value in attrs if name in _SPOKEN and value}

    def handle_endtag(self, tag: str) -> None:
        self._unheard -= tag in _UNHEARD

    def handle_data(self, data: str) -> None:
        if not self._unheard:
            self.pieces.add(tidy(data))


def tidy(text: str) -> str:
    return " ".join(_UNSEEN.sub("", text).split())


def lacking(language: Language) -> AbstractSet[str]:
    """The keys of the texts that the language tells in English."""
    return _texts(DEFAULT).keys() - _texts(language).keys()


def english_between(said: str, in_english: str, language: Language, values: str) -> Iterator[str]:
    """The pieces with words that the page in this language shares with the page in English, although they are none of the `values`, and
    none of the texts that the language lacks.
    """
    excused = _excused(language)
    for piece in sorted(_Said(said).pieces & _Said(in_english).pieces):
        parts = [part.strip() for part in piece.split("·")]
        if any(_WORD.search(part) and part not in values and not excused.has(part, values) for part in parts):
            yield piece


class _Excused:
    """What a language lacks, and what it says as English does."""

    def __init__(self, texts: Iterable[str], awaited: Iterable[str]) -> None:
        """`awaited` are those that other languages have already. While they are translated, their words stand in between,
        joined with values and with each other.
        """
        self._awaited = {word for text in awaited for word in _WORD.findall(_PLACEHOLDER.sub("", text))}
        told = [[tidy(piece) for piece in _PLACEHOLDER.split(text)] for text in texts]
        self._pieces = "\n".join(piece for pieces in told for piece in pieces)
        self._sentences = [
            re.compile(".+".join(map(re.escape, pieces))) for pieces in told if len(pieces) > 1 and any(map(_WORD.search, pieces))
        ]

    def has(self, part: str, values: str) -> bool:
        if part in self._pieces or any(sentence.fullmatch(part) for sentence in self._sentences):
            return True
        return bool(self._awaited) and all(word in self._awaited or word in values for word in _WORD.findall(part))


@cache
def _excused(language: Language) -> _Excused:
    english, lacks = _texts(DEFAULT), lacking(language)
    # No further language has the texts of the console.
    told = {key for other in Language if other not in CONSOLE_LANGUAGES for key in _texts(other)}
    return _Excused((*_texts(language).values(), *(english[key] for key in lacks)), [english[key] for key in lacks & told])


@cache
def _texts(language: Language) -> Mapping[str, str]:
    return shipped(language, PAGES)
