"""Which form of a text a number takes (Unicode CLDR, cardinal numbers). The forms that French, Spanish, Italian and Portuguese have for
whole millions are left out: nothing is counted as far. So is what only fractions take.
"""

from collections.abc import Callable, Mapping
from typing import Final

from core.domain.languages import Language

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
