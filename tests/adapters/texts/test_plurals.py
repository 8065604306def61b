"""Which form of a text a number takes, by the examples of CLDR."""

import pytest

from adapters.texts.catalogue import FORM, FORMS
from core.domain.languages import Language

LIKE_ENGLISH = (Language.ENGLISH, Language.GERMAN, Language.SPANISH, Language.DUTCH, Language.ITALIAN, Language.TURKISH)
LIKE_FRENCH = (Language.FRENCH, Language.PORTUGUESE)
WITHOUT = (Language.JAPANESE, Language.KOREAN, Language.CHINESE)


@pytest.mark.parametrize("language", Language)
def test_each_number_takes_a_form_that_the_language_has(language: Language) -> None:
    used = {FORM[language](count) for count in range(1001)}
    # The last form of Polish and Ukrainian is for fractions.
    assert used == set(FORMS[language]) - ({"other"} if language in {Language.POLISH, Language.UKRAINIAN} else set())


@pytest.mark.parametrize(
    ("languages", "form", "counts"),
    [
        (LIKE_ENGLISH, "one", [1]),
        (LIKE_ENGLISH, "other", [0, 2, 11, 21, 101]),
        (LIKE_FRENCH, "one", [0, 1]),
        (LIKE_FRENCH, "other", [2, 11, 21, 101]),
        (WITHOUT, "other", [0, 1, 2, 11]),
        ((Language.POLISH,), "one", [1]),
        ((Language.POLISH,), "few", [2, 3, 4, 22, 34, 102]),
        ((Language.POLISH,), "many", [0, 5, 11, 12, 14, 21, 25, 101, 112]),
        ((Language.UKRAINIAN,), "one", [1, 21, 101, 1001]),
        ((Language.UKRAINIAN,), "few", [2, 4, 22, 102]),
        ((Language.UKRAINIAN,), "many", [0, 5, 11, 12, 14, 111, 112]),
        ((Language.ARABIC,), "zero", [0]),
        ((Language.ARABIC,), "one", [1]),
        ((Language.ARABIC,), "two", [2]),
        ((Language.ARABIC,), "few", [3, 10, 103, 110]),
        ((Language.ARABIC,), "many", [11, 26, 99, 111, 199]),
        ((Language.ARABIC,), "other", [100, 101, 102, 200, 1000]),
    ],
)
def test_forms_are_those_of_cldr(languages: tuple[Language, ...], form: str, counts: list[int]) -> None:
    for language in languages:
        assert {count: FORM[language](count) for count in counts} == dict.fromkeys(counts, form)
