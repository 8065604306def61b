"""The language that a person gets."""

import pytest

from core.domain.languages import CONSOLE_LANGUAGES, Language, chosen_language, spoken_language

EN, DE, ES, FR = CONSOLE_LANGUAGES
PL, PT, ZH, AR = Language.POLISH, Language.PORTUGUESE, Language.CHINESE, Language.ARABIC


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("de", DE),
        ("de-AT,de;q=0.9,en;q=0.8", DE),
        ("pt-BR,pt;q=0.9,es;q=0.5,en;q=0.4", PT),
        ("sv-FI,sv;q=0.9,es;q=0.5,en;q=0.4", ES),
        ("en;q=0.3, fr;q=0.9", FR),
        ("FR-ca", FR),
        ("es ; q=0.5 , fr\t;\tQ=0.5", ES),
        ("zh-Hant-TW", None),
        ("zh-TW,zh;q=0.9", ZH),
        ("zh-HK,ja;q=0.3", Language.JAPANESE),
        ("*", None),
        ("de;q=0, *;q=0.1", None),
        ("fr, *;q=0.5", FR),
        ("sv, *;q=0.5, de;q=0.1", None),
        ("en;q=0, *", DE),
        (f"{';q=0,'.join(Language)};q=0,*", None),
        ("fr;q=0", None),
        ("", None),
    ],
)
def test_the_header_names_what_the_browser_likes_best(header: str, language: Language | None) -> None:
    assert chosen_language((), None, header) is language


@pytest.mark.parametrize(
    "header",
    [
        "," * 100_000,
        "de" * 50_000,
        "x;q=0.5," * 100_000 + "de",
        "de;q=2",
        "de;q=0.1234",
        "de;q=-1",
        "de;q=nan",
        "de;q=1e9",
        "d\x00e",
        "\u0130",
        "../../de",
        "de.toml",
        "de_DE",
        "-" * 400,
        ";q=1",
    ],
)
def test_a_header_that_makes_no_sense_names_none(header: str) -> None:
    assert chosen_language((), None, header) is None


def test_what_can_be_read_counts_beside_what_cannot() -> None:
    assert chosen_language((), None, "de;q=7, ??, fr;q=0.2") is FR


@pytest.mark.parametrize(
    ("asked", "setting", "language"),
    [
        (("fr-CA", "de"), ES, FR),
        (("sv", "de-CH"), ES, DE),
        (("sv",), ES, ES),
        ((), ES, ES),
        (("",), None, DE),
        ((), None, DE),
    ],
)
def test_the_application_comes_first_and_then_the_person(asked: tuple[str, ...], setting: Language | None, language: Language) -> None:
    assert chosen_language(asked, setting, "de") is language


@pytest.mark.parametrize(("tag", "language"), [("de", DE), ("DE-at", DE), ("deu", None), ("", None), (None, None), ("english", None)])
def test_a_tag_names_its_language(tag: str | None, language: Language | None) -> None:
    assert Language.of(tag) is language


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("zh", ZH),
        ("zh-CN", ZH),
        ("ZH-sg", ZH),
        ("zh-Hans", ZH),
        ("zh-Hans-HK", ZH),
        ("zh-Hant", None),
        ("zh-hant-CN", None),
        ("zh-TW", None),
        ("zh-HK", None),
        ("zh-MO", None),
        ("pt-BR", PT),
        ("pt-PT", PT),
        ("ar-EG", AR),
    ],
)
def test_traditional_chinese_is_another_language(tag: str, language: Language | None) -> None:
    assert Language.of(tag) is language


def test_each_language_says_its_name_and_how_it_is_written() -> None:
    assert {one: one.tag for one in Language if one.tag != one} == {PT: "pt-BR", ZH: "zh-Hans"}
    assert all(Language.of(one.tag) is one for one in Language)
    assert [one for one in Language if one.direction == "rtl"] == [AR]
    assert len({one.own_name for one in Language}) == len(Language)
    assert [one for one in Language if one.reviewed] == [EN, DE]


@pytest.mark.parametrize(
    ("asked", "setting", "header", "language"),
    [
        ((), None, "pl", AR),
        ((), None, "", AR),
        ((), None, "pl, de;q=0.5", DE),
        ((), None, "de;q=0.5, ar;q=0.6", AR),
        ((), PL, "de", DE),
        ((), DE, "ar", DE),
        (("pl", "de"), AR, "ar", DE),
        (("pl",), None, "", AR),
        ((), None, "*", AR),
        ((), None, "ar;q=0, *", DE),
        ((), None, "de;q=0, *", AR),
        ((), None, "ar;q=0, de;q=0, *", AR),
    ],
)
def test_whoever_speaks_few_languages_speaks_the_best_of_them(
    asked: tuple[str, ...], setting: Language | None, header: str, language: Language
) -> None:
    assert chosen_language(asked, setting, header, (AR, DE)) is language


def test_a_mail_is_in_a_language_of_whoever_sends_it() -> None:
    assert [spoken_language(one) for one in (PL, None)] == [PL, EN]
    assert [spoken_language(one, (AR, DE)) for one in (DE, PL, None)] == [DE, AR, AR]
