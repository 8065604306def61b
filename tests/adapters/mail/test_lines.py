"""The lines of a mail's text."""

import pytest

from adapters.mail.message import FILL
from core.domain.languages import Language

LINK = "https://id.example.org/ui/reset-password?token=0123456789012345678901234567890123456789"


@pytest.mark.parametrize("language", Language)
def test_lines_have_room_on_a_screen_and_links_stay_whole(language: Language) -> None:
    filled = FILL[language](f"Some words before a link, and after it. {LINK} {'word ' * 40}".strip())
    assert LINK in filled.split()
    assert max(len(line) for line in filled.splitlines() if LINK not in line) <= 79
    assert filled.split() == f"Some words before a link, and after it. {LINK} {'word ' * 40}".split()
    assert not any(line != line.strip() for line in filled.splitlines())
    assert FILL[language]("") == ""


@pytest.mark.parametrize("language", [Language.JAPANESE, Language.CHINESE])
def test_where_no_spaces_stand_a_line_ends_behind_a_character(language: Language) -> None:
    sentence = "このメールは、example.orgの組織「Acme」から送信されました。心当たりがない場合は、無視してください。"
    filled = FILL[language](sentence * 4)
    lines = filled.splitlines()
    assert "".join(lines) == sentence * 4
    assert len(lines) > 4
    assert all(sum(2 if character > "\u2fff" else 1 for character in line) <= 81 for line in lines)
    # A mark stays with what it belongs to.
    assert not any(line[0] in "、。」" or line[-1] == "「" for line in lines)
    assert all("example.org" not in line or line.count("example.org") == sentence.count("example.org") for line in lines)
    assert FILL[language]("です。") == "です。"
