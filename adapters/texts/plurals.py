"""Which form of a text a number takes (Unicode CLDR, cardinal numbers). The forms that French and Spanish have for whole millions are left
out: nothing is counted as far.
"""

from collections.abc import Callable, Mapping
from typing import Final

from core.domain.languages import Language

ONE: Final = "one"
OTHER: Final = "other"


def _one_is_singular(count: int) -> str:
    return ONE if count == 1 else OTHER


def _none_is_singular(count: int) -> str:
    return ONE if count in {0, 1} else OTHER


def _arabic(count: int) -> str:
    if count < 3:
        return ("zero", ONE, "two")[count]
    return "few" if 3 <= count % 100 <= 10 else "many" if count % 100 >= 11 else OTHER


FORM: Final[Mapping[Language, Callable[[int], str]]] = {
    Language.ENGLISH: _one_is_singular,
    Language.GERMAN: _one_is_singular,
    Language.SPANISH: _one_is_singular,
    Language.FRENCH: _none_is_singular,
    Language.ARABIC: _arabic,
}
