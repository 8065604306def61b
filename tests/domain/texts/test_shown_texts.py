"""What the rules let in is shown, and what they would refuse for its letters is not, even if it is stored."""

import pytest
from hypothesis import given, strategies

from core.domain.languages import Language
from core.domain.texts.own_texts import shown_texts
from core.domain.texts.rules import OwnText, TextRules, TextsRefused, checked_texts

KEY = "own.footer"
RULES = TextRules({}, {})
# Letters that join, words of Persian, people in a picture, what nobody sees.
PARTS = strategies.sampled_from(["a", " ", "\u06cc", "\U0001f469", "\u200c", "\u200d", "\u200b", "\u200e", "\u00ad", "\u2060", "\ufeff"])


def is_shown(text: str) -> bool:
    return bool(shown_texts({KEY: text}))


@given(strategies.lists(PARTS, min_size=1).map("".join) | strategies.text(min_size=1, max_size=8))
def test_what_is_let_in_is_shown(text: str) -> None:
    try:
        kept = checked_texts([OwnText(KEY, Language.ENGLISH, text)], RULES)
    except TextsRefused:
        return
    assert [one.text for one in kept if not is_shown(one.text)] == []


@pytest.mark.parametrize("text", ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f468\u200d\U0001f469\u200d\U0001f467"])
def test_joiners_are_shown_where_letters_need_them(text: str) -> None:
    assert is_shown(checked_texts([OwnText(KEY, Language.ENGLISH, text)], RULES)[0].text)


@pytest.mark.parametrize("text", ["a\u200cb", "\u200d\u06cc", "\u06cc\u200d", "\u06cc\u200d\u200c\u06cc", "a\u200bb", "\u202emoc", "a\x07"])
def test_what_nobody_sees_is_not_shown(text: str) -> None:
    assert not is_shown(text)
