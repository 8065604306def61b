"""The check of texts against the words of the trade finds what it is for, and the product's texts keep its numbers."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from ops.words.__main__ import Banned, SeenText, Terms, banned, hidden, lowered, prose, seen, terms, unnamed

AFAR: Final = Banned(re.compile(r"\bafar\b", re.MULTILINE), "backchannel (CIBA)", 0)
LOOKS: Final = Banned(re.compile("^Looks$", re.MULTILINE), "branding", 0)
KNOWN: Final = Terms(banned=(AFAR, LOOKS), trade={"MFA": ("MFA",), "2FA": ("2FA", "two-step sign-in")}, titled={"service": "application"})
TEXTS: Final = "entrypoints/http/console/organization/texts/shared.toml"
TABS: Final = "entrypoints/http/console/organization/organization_tabs.py"


def found(*texts: str) -> list[str]:
    return [line for _, line in banned(KNOWN, [SeenText(f"{number}.md", text) for number, text in enumerate(texts)])]


def tree(root: Path, texts: str, tabs: str = "") -> Path:
    """A tree with one file of texts, and one of tabs."""
    for name, content in ((TEXTS, texts), (TABS, tabs), ("adapters/texts/en.toml", '[mail]\nsubject = "Hello"\n')):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    return root


def test_a_planted_phrase_is_found_with_its_line() -> None:
    assert found("# Sign-in\n\nA request from afar, and one more from afar.\n", "Far, and no further\n") == [
        "0.md:3: “afar”: backchannel (CIBA)",
        "0.md:3: “afar”: backchannel (CIBA)",
    ]
    assert found("See below\nLooks\n", "Looks of pages\n") == ["0.md:2: “Looks”: branding"]


@pytest.mark.parametrize(
    "text",
    [
        "The value `from afar` of the API",
        "The value ``a `from afar` b`` of the API",
        "```sh\npostern afar\n```\n",
        "[Approve](/ui/afar)",
        "[Approve](#from-afar)",
        "https://id.example.com/afar",
        "<!-- from afar -->",
        '<a id="afar"></a>',
        "{afar}",
    ],
)
def test_code_values_and_targets_of_links_do_not_count(text: str) -> None:
    assert found(text) == []
    assert found(f"{text}\n\nFrom afar\n") == [f"0.md:{text.count(chr(10)) + 3}: “afar”: backchannel (CIBA)"]


def test_the_words_of_a_link_count() -> None:
    assert found("[From afar](/ui/requests)") == ["0.md:1: “afar”: backchannel (CIBA)"]
    assert prose("a `b`\n```\nc\n```\nd") == "a \n\n\n\nd"


def test_a_term_that_only_the_search_knows_is_found(tmp_path: Path) -> None:
    texts = '[en.console.factor]\ntitle = "Second factor"\nwords = "MFA, 2FA, code"\nguide_words = "MFA"\n'
    assert list(hidden(KNOWN, tree(tmp_path, texts))) == [
        f"{TEXTS}: console.factor.words: the search knows “MFA”, and the page shows none of MFA",
        f"{TEXTS}: console.factor.words: the search knows “2FA”, and the page shows none of 2FA, two-step sign-in",
    ]
    assert list(hidden(KNOWN, tree(tmp_path, texts.replace("Second factor", "MFA, or two-step sign-in")))) == []


def test_a_title_that_does_not_name_what_it_shows_is_found(tmp_path: Path) -> None:
    tabs = 'TAB = Tab("console.tab.teams", TEAMS, list_teams.caller, "console.teams.title")\n'
    texts = '[en.console.teams]\ntitle = "Crews"\n'
    assert list(unnamed(KNOWN, tree(tmp_path, texts, tabs))) == ["title “Crews” shows list_teams"]
    assert list(unnamed(KNOWN, tree(tmp_path, texts.replace("Crews", "Teams of people"), tabs))) == []
    # As [[titled]] says: an application is a service there.
    services = tabs.replace("list_teams", "list_services")
    assert list(unnamed(KNOWN, tree(tmp_path, texts.replace("Crews", "Applications"), services))) == []
    assert list(unnamed(KNOWN, tree(tmp_path, texts, services))) == ["title “Crews” shows list_services"]


def test_numbers_are_only_lowered() -> None:
    text = "[[banned]]\nphrase = 'a|b'\ninstead = \"c\"\nmost = 3\n\n[[banned]]\nphrase = 'd'\ninstead = \"e\"\nmost = 1\n"
    assert lowered(text, {"a|b": 2, "d": 5}) == text.replace("most = 3", "most = 2")
    assert lowered(text, {}) == text.replace("most = 3", "most = 0").replace("most = 1", "most = 0")


def test_all_kinds_of_texts_are_looked_at() -> None:
    places = [where for where, _ in seen()]
    for place in ("adapters/texts/en.toml: ", "entrypoints/http/console/", "openapi/paths/", "postern ", "POSTERN_", "docs/guides/"):
        assert any(where.startswith(place) for where in places), place
    assert {"README.md", "docs/architecture.md"} <= set(places)
    assert not any(where.startswith("docs/decisions/") for where in places), "decisions say what things were called"


def test_each_phrase_is_found_as_often_as_its_number_says() -> None:
    known = terms()
    lines: dict[str, list[str]] = {}
    for one, line in banned(known, seen()):
        lines.setdefault(one.phrase.pattern, []).append(line)
    counted = Counter({phrase: len(found_there) for phrase, found_there in lines.items()})
    more = [line for one in known.banned if counted[one.phrase.pattern] > one.most for line in lines[one.phrase.pattern]]
    assert more == [], "these texts have more of a phrase than ops/words/terms.toml allows"
    fewer = {one.phrase.pattern: one.most for one in known.banned if counted[one.phrase.pattern] < one.most}
    assert fewer == {}, "fewer are left: python -m ops.words --lower"


def test_no_trade_term_is_hidden_and_every_title_names_its_resource() -> None:
    assert list(hidden(terms())) == []
    assert list(unnamed(terms())) == []
