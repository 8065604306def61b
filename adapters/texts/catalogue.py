"""One language's catalog of texts, with its plurals and lists."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Final
from weakref import WeakKeyDictionary

from markupsafe import Markup, escape

from adapters.texts.own import OWN_ALONE, PARAGRAPHS, PLAIN, UNFIT, Pieces, in_paragraphs, on_one_line, placeholders, unlinked_words
from core.domain.languages import Language
from core.domain.texts.own_texts import OwnTexts

_USUAL: Final = ", "
COMMA: Final[Mapping[Language, str]] = {
    **dict.fromkeys(Language, _USUAL),
    **dict.fromkeys((Language.JAPANESE, Language.CHINESE), "、"),
    Language.ARABIC: "، ",
}


ZERO: Final = "zero"
ONE: Final = "one"
TWO: Final = "two"
FEW: Final = "few"
MANY: Final = "many"
OTHER: Final = "other"
ALL_FORMS: Final = (ZERO, ONE, TWO, FEW, MANY, OTHER)


def _one_is_singular(count: int) -> str:
    return ONE if count == 1 else OTHER


def _none_is_singular(count: int) -> str:
    return ONE if count in {0, 1} else OTHER


def _always_the_same(_count: int) -> str:
    return OTHER


def _polish(count: int) -> str:
    if count == 1:
        return ONE
    return FEW if _ends_in_two_to_four(count) else MANY


def _ukrainian(count: int) -> str:
    """21 is counted as 1 is."""
    if count % 10 == 1 and count % 100 != 11:
        return ONE
    return FEW if _ends_in_two_to_four(count) else MANY


def _ends_in_two_to_four(count: int) -> bool:
    return 2 <= count % 10 <= 4 and not 12 <= count % 100 <= 14


def _arabic(count: int) -> str:
    if count <= 2:
        return (ZERO, ONE, TWO)[count]
    last = count % 100
    if 3 <= last <= 10:
        return FEW
    return MANY if last >= 11 else OTHER


FORM: Final[Mapping[Language, Callable[[int], str]]] = {
    Language.ENGLISH: _one_is_singular,
    Language.GERMAN: _one_is_singular,
    Language.SPANISH: _one_is_singular,
    Language.FRENCH: _none_is_singular,
    Language.DUTCH: _one_is_singular,
    Language.ITALIAN: _one_is_singular,
    Language.PORTUGUESE: _none_is_singular,
    Language.POLISH: _polish,
    Language.TURKISH: _one_is_singular,
    Language.UKRAINIAN: _ukrainian,
    Language.JAPANESE: _always_the_same,
    Language.KOREAN: _always_the_same,
    Language.CHINESE: _always_the_same,
    Language.ARABIC: _arabic,
}

FORMS: Final[Mapping[Language, tuple[str, ...]]] = {
    **dict.fromkeys(Language, (ONE, OTHER)),
    # Polish and Ukrainian fractions take the last.
    **dict.fromkeys((Language.POLISH, Language.UKRAINIAN), (ONE, FEW, MANY, OTHER)),
    **dict.fromkeys((Language.JAPANESE, Language.KOREAN, Language.CHINESE), (OTHER,)),
    Language.ARABIC: ALL_FORMS,
}
"""The forms that each text about a number has in a language."""


# A hyphen after two or three letters, as in "e-mail" and "two-step". A line must not end there, so pages put a word joiner behind it.
# Only in sentences and headings: a label or a button is a name that people say to their machine, and programs look for.
_SHORT_PART: Final = re.compile(r"(?<![\w-])(\w{1,3}-)(?=\w)")
_SENTENCE: Final = 6
_MOST_DAYS: Final = 512
# No text contains it.
_CLOCK: Final = "\0"
# First strong isolate, and its end: what stands between them runs as its own first letter says, and turns nothing around it (UAX 9).
_ISOLATE: Final = "\u2068"
_END: Final = "\u2069"
# Letters from right to left: Hebrew, Arabic and their neighbours, their forms for print, and further scripts from U+10800 and U+1E800.
_FROM_THE_RIGHT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
# Between the clocks of the database and of the process that shows the page, in seconds.
_APART: Final = 60
_UNITS: Final = (("years", 365 * 86400), ("months", 30 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60))


class _Forms:
    """The plural forms are those of Unicode CLDR, cardinal numbers. The forms that French, Spanish, Italian and Portuguese have for whole
    millions are left out: nothing is counted as far. So is what only fractions take.

    A text that a number decides about: its keys for each form, and which form a number takes.
    """

    __slots__ = ("_form", "keys")

    def __init__(self, key: str, texts: Mapping[str, str], form: Callable[[int], str]) -> None:
        self.keys = {form: name for form in ALL_FORMS if (name := f"{key}.{form}") in texts}
        self._form = form

    def key(self, count: int) -> str:
        return self.keys.get(self._form(count)) or self.keys[OTHER]


# The two ways of showing, each by key.
_Ready = tuple[dict[str, str | Pieces], dict[str, str | Pieces]]


class Catalogue:
    """Implements `ports.texts.WearingText`.

    A text is parsed when it is first used, so that showing it again costs two look-ups and one join.
    """

    def __init__(
        self,
        language: Language,
        texts: Mapping[str, str],
        *,
        html: bool,
        on_page: bool = False,
        between: str = "\n\n",
        english: "Catalogue | None" = None,
    ) -> None:
        """`on_page`: lines of the page end where its width says, so short parts of words stay with the rest. `between` stands between the
        paragraphs of own texts. `english` tells what this language lacks, by the rules of English.
        """
        self.language: Final = language
        self._texts = texts
        self._english: Final = english
        self._html: Final = html
        self._on_page: Final = on_page
        self._ready: dict[str, str | Pieces | _Forms] = {}
        # The own texts that stand over these while one page or mail is rendered, the nearest first.
        self._over: Sequence[tuple[Mapping[str, str], _Ready]] = ()
        # For each set of own texts, those that were shown, as they are shown here.
        self._made_of: WeakKeyDictionary[OwnTexts, _Ready] = WeakKeyDictionary()
        self._between = between
        self._escaped: Callable[[object], str] = escape if html else str
        self._isolated = _always_isolated if language.direction == "rtl" else _isolated_from_the_right
        self._joined: Callable[[list[str]], str] = _join_html if html else "".join
        self._form = FORM[language]
        self._around_clock = lru_cache(_MOST_DAYS)(self._made_around_clock)

    def __call__(self, key: str, **values: object) -> str:
        made = (self._over and self._own(key, PLAIN)) or self._ready.get(key) or self.prepared(key)
        if isinstance(made, _Forms):
            count = values["count"]
            assert isinstance(count, int)  # noqa: S101 - a bug in a template: nothing but a number can be counted
            return self(made.key(count), **values)
        if isinstance(made, str):
            return made
        return self._filled(made, values)

    def paragraphs(self, key: str, **values: object) -> str:
        made = self._over and self._own(key, PARAGRAPHS)
        if made:
            return made if isinstance(made, str) else self._filled(made, values)
        return "" if key in OWN_ALONE else self(key, **values)

    def lay_over(self, *own: OwnTexts) -> None:
        self._over = [(texts, self._made_of.setdefault(one, ({}, {}))) for one in own if (texts := one.of(self.language))]

    def has_own(self, key: str) -> bool:
        return any(key in texts for texts, _ in self._over)

    def ours(self, key: str) -> str:
        """The text as it is written, in English where the language lacks it. Empty where we have none."""
        return self._texts.get(key) or ("" if self._english is None else self._english.ours(key))

    def _own(self, key: str, shown: int) -> str | Pieces | None:
        for texts, ready in self._over:
            if key in texts:
                made = ready[shown].get(key)
                if made is None:
                    made = ready[shown][key] = self._made(key, texts[key], shown)
                if made is not UNFIT:
                    return made
        return None

    def _made(self, key: str, text: str, shown: int) -> str | Pieces:
        """Ready to be filled in. A text of older rules gives way to ours if it has a placeholder that ours has not, for which there is no
        value, or lacks one: then it hides what the reader must not miss.
        """
        if placeholders(text) != placeholders(self.ours(key)):
            return UNFIT

        if not self._on_page:
            # A page makes no links of words; programs that show mails do.
            text = unlinked_words(text)
        kept = partial(self._kept_together, key, spaces=text.count(" "))
        if shown is PARAGRAPHS:
            made = in_paragraphs(text, kept, self._escaped, self._between, html=self._html)
        else:
            made = on_one_line(text, kept, self._escaped)
        return made if made.names or made is UNFIT else self._joined(made.literals)

    def _filled(self, made: Pieces, values: Mapping[str, object]) -> str:
        parts = [made.literals[0]]
        for name, literal in zip(made.names, made.literals[1:], strict=True):
            value = values[name]
            parts += (self.moment(value) if isinstance(value, datetime) else self._isolated(value, self._escaped(value)), literal)
        return self._joined(parts)

    def isolated(self, value: object) -> str:
        return self._joined([self._isolated(value, self._escaped(value))])

    def moment(self, at: datetime) -> str:
        at = at.astimezone(UTC)
        before, after = self._around_clock(at.year, at.month, at.day)
        return self._joined([before, f"{at.hour:02}:{at.minute:02}", after])

    def _made_around_clock(self, year: int, month: int, day: int) -> tuple[str, str]:
        """A moment of this day, before and after its clock. A list shows many moments of few days."""
        first = self("time.first_of_month") if day == 1 else str(day)
        told = self("time.moment", day=first, month=self(f"time.month.{month}"), year=year, clock=_CLOCK, zone="UTC")
        # A date is all ours, so there is nothing to keep apart.
        before, _, after = told.replace(_ISOLATE, "").replace(_END, "").partition(_CLOCK)
        return before, after

    def listed(self, things: Iterable[str]) -> str:
        return COMMA[self.language].join(things)

    def ago(self, at: datetime, now: datetime) -> str:
        seconds = (now - at).total_seconds()
        if seconds < -_APART:
            return self.moment(at)
        for unit, length in _UNITS:
            if seconds >= length:
                return self(f"time.ago.{unit}", count=int(seconds // length))
        return self("time.ago.now")

    def prepared(self, key: str) -> "str | Pieces | _Forms":
        """The text as it can be put together. English and what falls back on it share it."""
        known = self._ready.get(key)
        if known is not None:
            return known
        text = self._texts.get(key)
        made: str | Pieces | _Forms
        if text is None:
            made = _Forms(key, self._texts, self._form)
            if OTHER not in made.keys:
                if self._english is None:
                    raise LookupError(f"There is no text {key}")
                made = self._english.prepared(key)
        else:
            made = Pieces.of(self._kept_together(key, text, text.count(" ")), self._escaped)
            if not made.names:
                made = self._joined(made.literals)
        self._ready[key] = made
        return made

    def _kept_together(self, key: str, words: str, spaces: int) -> str:
        """The words, of a text with so many spaces."""
        together = self._on_page and (spaces >= _SENTENCE or key.endswith(".title"))
        return _SHORT_PART.sub("\\1\u2060", words) if together else words


def _always_isolated(value: object, written: str) -> str:
    """Among words from right to left, nearly every value runs the other way: names, addresses, links. A number needs nothing: it joins the
    sentence as it is, with its sign for per cent.
    """
    return written if isinstance(value, int) else f"{_ISOLATE}{written}{_END}"


def _isolated_from_the_right(value: object, written: str) -> str:
    """Among words from left to right, few values run the other way. An element is left to the template, which puts names into `<bdi>`."""
    is_other = isinstance(value, str) and not value.isascii() and not hasattr(value, "__html__") and _FROM_THE_RIGHT.search(value)
    return f"{_ISOLATE}{written}{_END}" if is_other else written


def _join_html(parts: list[str]) -> str:
    # The parts are escaped already: an ordinary join of them is HTML.
    return Markup("".join(parts))  # noqa: S704
