"""The list of former defaults that `python -m ops.words.former` writes."""

from core.domain.texts.rules import FormerDefault
from ops.words.former import reworded

BEFORE = {"de": {"sign_in.title": "Anmeldung", "sign_in.next": "Weiter"}, "en": {"sign_in.title": "Log in"}}
NOW = {"de": {"sign_in.title": "Anmelden", "sign_in.next": "Weiter"}, "en": {"sign_in.title": "Sign in"}}


def entry(*texts: str) -> str:
    return " ".join(f"{one.digest}:{one.length}" for one in map(FormerDefault.of, texts))


def test_a_reworded_default_joins_and_an_unchanged_one_does_not() -> None:
    sections = reworded(BEFORE, NOW, {}).split("\n\n")[1:]
    assert sections == [f'[de.sign_in]\ntitle = "{entry("Anmeldung")}"', f'[en.sign_in]\ntitle = "{entry("Log in")}"\n']


def test_what_is_listed_stays_and_is_listed_once() -> None:
    kept = {"en": {"sign_in.title": [FormerDefault.of("Come in"), FormerDefault.of("Log in")]}}
    assert f'title = "{entry("Come in", "Log in")}"\n' in reworded(BEFORE, NOW, kept)


def test_a_text_that_is_the_default_again_leaves_the_list() -> None:
    kept = {"en": {"sign_in.title": [FormerDefault.of("Sign in")]}}
    assert "[en." not in reworded(NOW, NOW, kept)
