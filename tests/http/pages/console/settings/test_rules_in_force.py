"""The cards and forms of the sign-in rules say what counts while the organization sets nothing: the value of the installation's setting."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from core.domain.languages import CONSOLE_LANGUAGES, Language
from entrypoints.bootstrap import Postern
from entrypoints.http.pages.kit import shipped_pages
from tests.http.conftest import postern_on, with_keys
from tests.http.pages.console.conftest import ConsoleScene

BY_DEFAULT: Final[Mapping[str, str]] = {}
SET: Final[Mapping[str, str]] = {
    "POSTERN_SESSION_LIFETIME": "36h",
    "POSTERN_SESSION_IDLE": "45m",
    "POSTERN_MOST_SESSIONS": "3",
    "POSTERN_PASSWORD_LENGTH": "14",
    "POSTERN_BREACHED_AT_SIGN_IN": "change",
}
CARDS: Final = {
    "by default": (
        "Session lifetime: 90 days (installation default).",
        "Idle timeout: 30 days (installation default).",
        "Concurrent sessions: no limit (installation default).",
        "Minimum password length: 8 characters (installation default).",
        "Breached passwords: no check at sign-in (installation default).",
    ),
    "set": (
        "Session lifetime: 36 hours (installation default).",
        "Idle timeout: 45 minutes (installation default).",
        "Concurrent sessions: 3 per person (installation default).",
        "Minimum password length: 14 characters (installation default).",
        "Breached passwords: a new password is required (installation default).",
    ),
}
FORMS: Final = {
    "sessions": ("36 hours", "45 minutes", "3 per person"),
    "passwords": ("14 characters", "a new password is required"),
}
IN_WORDS: Final = {
    Language("en"): ("36 hours", "45 minutes", "14 characters"),
    Language("de"): ("36 Stunden", "45 Minuten", "14 Zeichen"),
    Language("es"): ("36 horas", "45 minutos", "14 caracteres"),
    Language("fr"): ("36 heures", "45 minutes", "14 caractères"),
}


@pytest.fixture(params=["by default", "set"])
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def postern(database_url: str, tmp_path: Path, case: str) -> AsyncIterator[Postern]:
    async with postern_on(database_url, tmp_path, SET if case == "set" else BY_DEFAULT) as opened:
        await with_keys(opened)
        yield opened


async def test_the_cards_say_the_value_in_force(console: ConsoleScene, case: str) -> None:
    said = (await console.at("/sign-in")).page.text
    assert [one for one in CARDS[case] if one not in said] == []
    console.people.change("update organizations set session_hours = 8, shortest_password = 20 where slug = 'acme'")
    said = (await console.at("/sign-in")).page.text
    assert "Session lifetime: 8 hours." in said
    assert "Minimum password length: 20 characters." in said


@pytest.mark.parametrize("case", ["set"], indirect=True)
async def test_the_forms_say_what_an_empty_field_means(console: ConsoleScene) -> None:
    for card, values in FORMS.items():
        said = (await console.at(f"/sign-in/change/{card}")).page.text
        assert [one for one in values if one not in said] == [], said
    assert "Leave empty to use the installation default: 36 hours." in (await console.at("/sign-in/change/sessions")).page.text


@pytest.mark.parametrize("case", ["set"], indirect=True)
@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
async def test_each_language_of_the_console_says_it(console: ConsoleScene, language: Language) -> None:
    console.people.change("update users set language = %s", language)
    said = (await console.at("/sign-in")).page.text
    assert [one for one in IN_WORDS[language] if one not in said] == []
    assert shipped_pages().text(language)("console.rules.title") in said
