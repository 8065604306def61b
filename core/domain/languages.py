"""The languages of pages and mails, and the choice for each reader."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal


class Language(StrEnum):
    """The values are the codes of the languages in HTML, HTTP and OpenID Connect (RFC 5646)."""

    ENGLISH = "en"
    GERMAN = "de"
    SPANISH = "es"
    FRENCH = "fr"
    ARABIC = "ar"

    @property
    def direction(self) -> Literal["ltr", "rtl"]:
        """How lines run, as HTML says it in `dir`."""
        return "rtl" if self in _FROM_THE_RIGHT else "ltr"

    @classmethod
    def of(cls, tag: str | None) -> "Language | None":
        """The language that a tag names, whatever region or script it adds. None when there is no tag, or when we do
        not have the language.
        """
        return None if tag is None else _SPOKEN.get(tag.partition("-")[0].lower())


DEFAULT: Final = Language.ENGLISH
_FROM_THE_RIGHT: Final = frozenset({Language.ARABIC})
_SPOKEN: Final = {language.value: language for language in Language}

# Browsers send a dozen ranges at most. The rest of a longer header is ignored, because anybody can send anything.
_LONGEST_HEADER: Final = 400
# One range of an Accept-Language header with its weight. Without a weight, a range weighs 1 (RFC 9110 sections 12.4.2 and 12.5.4).
_RANGE: Final = re.compile(
    r"[ \t]*(\*|[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*)[ \t]*(?:;[ \t]*[qQ][ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*)?", re.ASCII
)
_ANY: Final = "*"


def chosen_language(asked: Sequence[str], setting: Language | None, accepted: str) -> Language | None:
    """The language for a reader. `asked` is the application's wish, best first, as the `ui_locales` of OpenID Connect. The wish comes
    before the person's setting, because people move between an application and us, and expect one language. The setting comes before
    `accepted`, the `Accept-Language` header. None when none of them names a language that we have.
    """
    for tag in asked:
        language = Language.of(tag)
        if language is not None:
            return language
    return setting or _accepted(accepted[:_LONGEST_HEADER])


# There are few different headers, and every page that a person opens needs the result.
@lru_cache(maxsize=512)
def _accepted(header: str) -> Language | None:
    """Our language with the greatest weight; of equal ones, the first. Unreadable parts are ignored. `*` names no language: programs send
    it, and accounts that programs register would otherwise get English for good. `*` counts only when the header refuses the default
    language.
    """
    weighed: list[tuple[float, str]] = []
    for part in header.split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            weighed.append((float(found[2] or 1), found[1]))
    refused = {Language.of(tag) for weight, tag in weighed if weight == 0}
    # Sorting keeps the order of ranges with equal weights.
    for weight, tag in sorted(weighed, key=lambda one: -one[0]):
        if weight > 0:
            if tag == _ANY:
                return _first_but(refused, _SPOKEN.values()) if DEFAULT in refused else None
            language = Language.of(tag)
            if language is not None:
                return language
    return None


def _first_but(refused: set[Language | None], languages: Iterable[Language]) -> Language | None:
    return next((language for language in languages if language not in refused), None)
