"""The languages that pages and mails speak, and which of them somebody gets."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final


class Language(StrEnum):
    """The values are the language's code as HTML, HTTP and OpenID Connect write it (RFC 5646)."""

    ENGLISH = "en"
    GERMAN = "de"
    SPANISH = "es"
    FRENCH = "fr"

    @classmethod
    def of(cls, tag: str | None) -> "Language | None":
        """The language that a tag names, whatever region or script it adds. None: we do not speak it, or nothing is named."""
        return None if tag is None else _SPOKEN.get(tag.partition("-")[0].lower())


DEFAULT: Final = Language.ENGLISH
_SPOKEN: Final = {language.value: language for language in Language}

# Browsers send a dozen ranges at the most. What stands behind these is not looked at: anybody can send anything.
_LONGEST_HEADER: Final = 400
# One range of an Accept-Language header with its weight, without which it weighs 1 (RFC 9110 sections 12.4.2 and 12.5.4).
_RANGE: Final = re.compile(
    r"[ \t]*(\*|[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*)[ \t]*(?:;[ \t]*[qQ][ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*)?", re.ASCII
)
_ANY: Final = "*"


def chosen_language(asked: Sequence[str], setting: Language | None, accepted: str) -> Language | None:
    """`asked` is the application's wish, best first, as the `ui_locales` of OpenID Connect. It comes before the person's setting, and that
    before `accepted`, the `Accept-Language` header: people move between an application and us, and expect one language. None: nobody names
    a language that we speak.
    """
    for tag in asked:
        language = Language.of(tag)
        if language is not None:
            return language
    return setting or _accepted(accepted[:_LONGEST_HEADER])


# Browsers send few different headers, and every page that a person opens asks.
@lru_cache(maxsize=512)
def _accepted(header: str) -> Language | None:
    """The shipped language that weighs most; of equal ones, the first. What cannot be read is passed over. Programs send `*`, and name no
    language by it: what they register would otherwise speak English for good. It chooses only where the default is refused.
    """
    weighed: list[tuple[float, str]] = []
    for part in header.split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            weighed.append((float(found[2] or 1), found[1]))
    refused = {Language.of(tag) for weight, tag in weighed if weight == 0}
    # Sorting keeps the order of equal ones.
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
