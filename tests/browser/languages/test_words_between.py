"""No page and no mail that speaks another language says something in English in between, but for the texts that the language lacks. English
that stands in a template or in Python, and in no catalogue, is found here.
"""

from collections.abc import Mapping
from typing import Final

import pytest

from core.domain.languages import DEFAULT, Language
from tests.adapters.mail.test_templates import ACME, TEMPLATES, VALUES
from tests.browser.checks import EVERY
from tests.browser.languages.words_between import english_between, lacking
from tests.browser.states import states
from tests.browser.test_states import IN_CI

OTHERS: Final = tuple(language for language in (Language if EVERY else IN_CI) if language is not DEFAULT)
# Made of several values, so none of them has it as it stands.
MADE_OF_VALUES: Final = {"Berlin, DE", "Firefox 142", "one two"}
# The list of languages has each in its own words.
OWN_NAMES: Final = {language.own_name for language in Language}
# For the developer who runs Postern: they are English, and say so by their own language.
FOR_DEVELOPERS: Final = "development/"


@pytest.mark.parametrize("language", OTHERS)
def test_a_page_says_nothing_in_english_in_between(language: Language) -> None:
    found: Mapping[str, list[str]] = {
        state.name: [
            piece
            for piece in english_between(
                state.page(language).decode(), state.page(DEFAULT).decode(), language, repr((state.values, state.brand))
            )
            if piece not in MADE_OF_VALUES | OWN_NAMES
        ]
        for state in states()
        if not state.template.startswith(FOR_DEVELOPERS)
    }
    assert {name: pieces for name, pieces in found.items() if pieces} == {}


@pytest.mark.parametrize("language", OTHERS)
def test_a_mail_says_nothing_in_english_in_between(language: Language) -> None:
    found: dict[str, list[str]] = {}
    for name, values in VALUES.items():
        said, in_english = (
            TEMPLATES.mail(name, "ada@example.org", account=None, language=one, branding=ACME, **values) for one in (language, DEFAULT)
        )
        given = repr((values, ACME, "ada@example.org", "https://id.example.org"))
        found[name] = [*english_between(said.html, in_english.html, language, given)]
        # Lines of the text break at other places, so only whole lines can be compared.
        same = set(said.text.splitlines()) & set(in_english.text.splitlines())
        found[name] += english_between("<br>".join(same), "<br>".join(same), language, given)
    assert {name: pieces for name, pieces in found.items() if pieces} == {}


def test_english_in_between_is_found() -> None:
    (key, *_) = sorted(lacking(Language.ARABIC))
    assert key
    for page in ("<p>Nobody said <b>so</b> &amp; no</p>", '<input aria-label="Nobody said">', "<title>Nobody said · Acme</title>"):
        assert len(list(english_between(page, page, Language.ARABIC, "Acme"))) == 1
    fine = "<p>Acme</p><code>Nobody said</code><style>p { nobody: said }</style><p>12 h</p>"
    assert list(english_between(fine, fine, Language.ARABIC, "Acme")) == []
