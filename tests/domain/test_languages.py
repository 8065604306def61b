"""The language that a person gets."""

import pytest

from core.domain.languages import Language, chosen_language

EN, DE, ES, FR = Language


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("de", DE),
        ("de-AT,de;q=0.9,en;q=0.8", DE),
        ("pt-BR,pt;q=0.9,es;q=0.5,en;q=0.4", ES),
        ("en;q=0.3, fr;q=0.9", FR),
        ("FR-ca", FR),
        ("es ; q=0.5 , fr\t;\tQ=0.5", ES),
        ("zh-Hant-TW", None),
        ("*", None),
        ("de;q=0, *;q=0.1", None),
        ("fr, *;q=0.5", FR),
        ("ja, *;q=0.5, de;q=0.1", None),
        ("en;q=0, *", DE),
        ("en;q=0,de;q=0,es;q=0,fr;q=0,*", None),
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
        (("ja", "de-CH"), ES, DE),
        (("ja",), ES, ES),
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
