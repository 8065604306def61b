"""The languages of pages and mails, and the choice for each reader."""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal


class Language(StrEnum):
    """The values are codes of two letters. They are what is stored, and what the API calls the languages."""

    ENGLISH = "en"
    GERMAN = "de"
    SPANISH = "es"
    FRENCH = "fr"
    DUTCH = "nl"
    ITALIAN = "it"
    PORTUGUESE = "pt"
    POLISH = "pl"
    TURKISH = "tr"
    UKRAINIAN = "uk"
    JAPANESE = "ja"
    KOREAN = "ko"
    CHINESE = "zh"
    ARABIC = "ar"

    @classmethod
    def of(cls, tag: str | None) -> "Language | None":
        """The language that a tag names, whatever region or script it adds. None when there is no tag, or when we do
        not have the language: traditional Chinese is written otherwise than ours.
        """
        if tag is None:
            return None
        first, _, rest = tag.partition("-")
        language = _BY_CODE.get(first.lower())
        return None if language is Language.CHINESE and rest and _is_traditional(rest) else language

    @property
    def tag(self) -> str:
        """The language as our texts write it, for HTML, HTTP and OpenID Connect (RFC 5646)."""
        return _TAGS.get(self, self.value)

    @property
    def direction(self) -> Literal["ltr", "rtl"]:
        return "rtl" if self is Language.ARABIC else "ltr"

    @property
    def own_name(self) -> str:
        """What its readers call it."""
        return _OWN_NAMES[self]

    @property
    def reviewed(self) -> bool:
        """Whether somebody who grew up with the language has read all of its texts."""
        return self in _REVIEWED


DEFAULT: Final = Language.ENGLISH

CONSOLE_LANGUAGES: Final = (Language.ENGLISH, Language.GERMAN, Language.SPANISH, Language.FRENCH)
"""The languages of the console, and those whose texts are complete: the others tell in English what they lack."""

_BY_CODE: Final = {language.value: language for language in Language}
_TAGS: Final = {Language.PORTUGUESE: "pt-BR", Language.CHINESE: "zh-Hans"}
# A translation that only its writer has read stays out, however good it looks: people who choose a language must be able to trust this.
_REVIEWED: Final = frozenset({Language.ENGLISH, Language.GERMAN})
_OWN_NAMES: Final = {
    Language.ENGLISH: "English",
    Language.GERMAN: "Deutsch",
    Language.SPANISH: "Español",
    Language.FRENCH: "Français",
    Language.DUTCH: "Nederlands",
    Language.ITALIAN: "Italiano",
    Language.PORTUGUESE: "Português (Brasil)",
    Language.POLISH: "Polski",
    Language.TURKISH: "Türkçe",
    Language.UKRAINIAN: "Українська",
    Language.JAPANESE: "日本語",
    Language.KOREAN: "한국어",
    Language.CHINESE: "简体中文",
    Language.ARABIC: "العربية",
}
# Where Chinese is written with traditional characters, unless the tag names the script.
_TRADITIONAL: Final = frozenset({"hant", "tw", "hk", "mo"})
_SIMPLIFIED: Final = "hans"


def _is_traditional(rest: str) -> bool:
    parts = rest.lower().split("-")
    return _SIMPLIFIED not in parts and not _TRADITIONAL.isdisjoint(parts)


# Browsers send a dozen ranges at most. The rest of a longer header is ignored, because anybody can send anything.
_LONGEST_HEADER: Final = 400
# One range of an Accept-Language header with its weight. Without a weight, a range weighs 1 (RFC 9110 sections 12.4.2 and 12.5.4).
_RANGE: Final = re.compile(
    r"[ \t]*(\*|[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*)[ \t]*(?:;[ \t]*[qQ][ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*)?", re.ASCII
)
_ANY: Final = "*"


def chosen_language(asked: Sequence[str], setting: Language | None, accepted: str, spoken: Sequence[Language] = ()) -> Language | None:
    """The language for a reader. `asked` is the application's wish, best first, as the `ui_locales` of OpenID Connect. The wish comes
    before the person's setting, because people move between an application and us, and expect one language. The setting comes before
    `accepted`, the `Accept-Language` header. `spoken` are the languages of whoever speaks, the first one first: they speak no other, and
    the first one to a reader of none of them. None of them: all of ours; and then the answer is None for a reader of none.
    """
    for tag in asked:
        language = Language.of(tag)
        if language is not None and _is_spoken(language, spoken):
            return language
    if setting is not None and _is_spoken(setting, spoken):
        return setting
    return _accepted(accepted[:_LONGEST_HEADER], tuple(spoken)) or (spoken[0] if spoken else None)


def spoken_language(language: Language | None, spoken: Sequence[Language] = ()) -> Language:
    """What a reader of `language` is told in by whoever speaks `spoken`, the first one first; none of them: all of ours."""
    if language is not None and _is_spoken(language, spoken):
        return language
    return spoken[0] if spoken else DEFAULT


def kept_languages(languages: Sequence[Language]) -> str | None:
    """An organization's choice as one text; None for none."""
    return ",".join(languages) or None


@lru_cache(maxsize=512)
def restored_languages(kept: str | None) -> tuple[Language, ...]:
    """Reads what `kept_languages` wrote. A newer release may have written a language that this one does not have."""
    return tuple(known for code in (kept or "").split(",") if (known := Language.of(code)) is not None)


def _is_spoken(language: Language, spoken: Sequence[Language]) -> bool:
    return not spoken or language in spoken


# There are few different headers, and every page that a person opens needs the result.
@lru_cache(maxsize=512)
def _accepted(header: str, spoken: tuple[Language, ...]) -> Language | None:
    """Of the languages that are spoken, the one with the greatest weight; of equal ones, the first. Unreadable parts are ignored. `*` names
    no language: programs send it, and accounts that programs register would otherwise get English for good. `*` counts only when the
    header refuses the language that its reader would otherwise get.
    """
    weighed: list[tuple[float, str]] = []
    for part in header.split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            weighed.append((float(found[2] or 1), found[1]))
    refused = {Language.of(tag) for weight, tag in weighed if weight == 0}
    offered = spoken or tuple(Language)
    # Sorting keeps the order of ranges with equal weights.
    for weight, tag in sorted(weighed, key=lambda one: -one[0]):
        if weight > 0:
            if tag == _ANY:
                return next((one for one in offered if one not in refused), None) if offered[0] in refused else None
            language = Language.of(tag)
            if language in offered:
                return language
    return None
