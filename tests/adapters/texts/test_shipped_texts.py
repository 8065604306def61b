"""The shipped catalogues: every language of the console says everything, and everything that is said is used, as it is asked for. The other
languages: `test_further_languages.py`.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import pytest
from jinja2 import Environment, nodes

from adapters.texts import ShippedTexts, shipped, sources
from adapters.texts.own import OWN_ALONE
from core.domain.languages import CONSOLE_LANGUAGES, DEFAULT, Language
from core.domain.texts.own_texts import OPEN_TEXTS
from core.domain.texts.rules import FormerDefault
from tests.http.pages.console.texts import asked_for
from tests.places import PAGES, ROOT

LAYERS = ("core", "ports", "adapters", "actors", "entrypoints")
OTHERS = [language for language in CONSOLE_LANGUAGES if language is not DEFAULT]
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
# What says a text in a template and in Python. The first two names of `branded` and of `text` are keys.
SPEAKERS = {"text": 1, "branded": 2, "paragraphs": 1, "branded_paragraphs": 2}


class Said(NamedTuple):
    """A text that is asked for, and the names of the values it is given; None where that cannot be seen."""

    where: str
    key: str
    values: frozenset[str] | None


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, str):
            yield prefix + name, value
        else:
            yield from flat(value, f"{prefix}{name}.")


def placeholders(language: Language) -> dict[str, set[str]]:
    """By the key that is asked for. The two forms of a text have one, and only one of them needs to name the number."""
    found: dict[str, set[str]] = {}
    texts = shipped(language, PAGES)
    for key, text in texts.items():
        asked, _, form = key.rpartition(".")
        is_form = form in {"one", "other"} and f"{asked}.one" in texts
        found.setdefault(asked if is_form else key, set()).update(PLACEHOLDER.findall(text))
    return found


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_our_reader_reads_what_any_reader_of_toml_does(language: Language) -> None:
    own = ROOT / "adapters" / "texts" / f"{language}.toml"
    trees = [tomllib.loads(own.read_text(encoding="utf-8"))]
    trees += [tomllib.loads(source.read_text(encoding="utf-8"))[language] for source in sources(PAGES)]
    texts = [flat(tree) for tree in trees]
    assert shipped(language, PAGES) == dict(chain.from_iterable(texts))


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_of_the_console_says_the_same_things_with_the_same_values(language: Language) -> None:
    english, other = shipped(DEFAULT, PAGES), shipped(language, PAGES)
    assert sorted(other) == sorted(english)
    assert placeholders(language) == placeholders(DEFAULT)


@pytest.mark.parametrize("language", OTHERS)
def test_no_text_was_left_in_english(language: Language) -> None:
    """A single word may be the same in both."""
    english = shipped(DEFAULT, PAGES)
    assert [key for key, text in shipped(language, PAGES).items() if text == english[key] and len(re.findall(r"\w{2,}", text)) > 2] == []


# Wrong in every language.
NOWHERE = r"""["'`<>\\]|\.\.\.|\s\s| -- |^\s|\s$"""
WRONG = {
    Language.ENGLISH: r"[«»„]|\s[;:!?]",
    # Quotation marks as in „so“.
    Language.GERMAN: r"[«»”]|“\w|\s[;:!?]|\b(du|dein\w*|dir|dich)\b",
    # A question begins as it ends.
    Language.SPANISH: r"[„“”]|\s[;:!?]|^[^¿]*\?|^[^¡]*!|\b(tú|tu|tus|ti|contigo)\b",
    # Before a colon and within quotation marks stands a space that does not break; before the other marks, a narrow one.
    Language.FRENCH: r"[„“”]|[^\u00a0]:(?!/)|[^\u202f][;!?]|«[^\u00a0]|[^\u00a0]»|\b(tu|ton|ta|tes|toi)\b",
}


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_the_marks_are_those_of_the_language(language: Language) -> None:
    for key, text in shipped(language, PAGES).items():
        assert not re.search(NOWHERE, text), (key, text)
        assert not re.search(WRONG[language], text), (key, text)


# Texts that name what stands on a link, by the text of the link.
NAMED = {
    "password.forgotten": (
        "mail.reset_and_tell",
        "mail.reset_signs_out",
        "mail_set_password.note",
        "mail_email_changed_old.not_you_asked",
        "mail_account_locked.note",
    ),
    "applications.page": ("consent.take_back",),
}


@pytest.mark.parametrize("language", CONSOLE_LANGUAGES)
def test_what_names_a_link_or_a_button_says_what_stands_on_it(language: Language) -> None:
    texts = shipped(language, PAGES)
    for label, mentions in NAMED.items():
        for mention in mentions:
            assert texts[label] in texts[mention], mention


def test_what_is_said_exists_and_is_given_its_values() -> None:
    wanted = placeholders(DEFAULT)
    for said in (*said_in_templates(), *said_in_python()):
        # What is an organization's own alone has no text of ours.
        assert said.key in wanted or said.key in OWN_ALONE, said
        if said.values is not None:
            assert wanted.get(said.key, set()) <= said.values, said


def test_what_exists_is_said() -> None:
    said = {one.key for one in (*said_in_templates(), *said_in_python())}
    literals, patterns = written_in_python()
    said |= asked_for()
    for key in placeholders(DEFAULT):
        section, _, name = key.rpartition(".")
        known = key in said or key in literals or any(pattern.fullmatch(key) for pattern in patterns)
        # An outcome and a question are named by their section.
        known = known or (name in {"title", "text", "button"} and section in literals)
        # A refusal is named by its words, or by its code.
        known = known or (section == "refusals" and (name in literals or name.upper() in codes()))
        # Sentences of the audit log and labels are named by their event, whose name has dots (`test_audit_sentences.py` compares them).
        known = known or key.startswith(("console.told.by.", "console.event."))
        assert known, key


def test_every_refusal_has_words_of_its_own_or_by_its_code() -> None:
    texts = placeholders(DEFAULT)
    for code in codes():
        assert texts[f"refusals.{code.lower()}"] == set(), code
    for where, call in calls_in_python():
        if ast.unparse(call.func) == "Check":
            continue  # Its words are a sentence for administrators.
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        words, values = given.get("words"), given.get("values")
        if isinstance(words, ast.Constant):
            named = {str(one.value) for one in values.keys if isinstance(one, ast.Constant)} if isinstance(values, ast.Dict) else set()
            assert texts[f"refusals.{words.value!s}"] <= named, (where, words.value)


@cache
def codes() -> frozenset[str]:
    """The codes of all refusals."""
    classes = (node for _, tree in python() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assigned = (line for one in classes for line in one.body if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code")
    return frozenset(str(line.value.value) for line in assigned if isinstance(line.value, ast.Constant))


def said_in_templates() -> Iterator[Said]:
    for where, tree in templates():
        for call in tree.find_all(nodes.Call):
            if not isinstance(call.node, nodes.Name) or call.node.name not in SPEAKERS:
                continue
            named = {"organization"} if call.node.name.startswith("branded") else set()
            values = frozenset(keyword.key for keyword in call.kwargs) | named
            for key in call.args[: SPEAKERS[call.node.name]]:
                yield from (Said(where, one, values) for one in meant(key))


def meant(key: nodes.Expr) -> Iterator[str]:
    """What a template asks for: a key, one of two, or all that begin in the same way."""
    match key:
        case nodes.Const():
            yield key.value
        case nodes.CondExpr():
            yield from meant(key.expr1)
            if key.expr2 is not None:
                yield from meant(key.expr2)
        case nodes.Concat(nodes=[nodes.Const(value=begin), *_]):
            found = [one for one in placeholders(DEFAULT) if one.startswith(begin)]
            yield from found or [begin]


def said_in_python() -> Iterator[Said]:
    for where, call in calls_in_python():
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in SPEAKERS and call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
            names = [keyword.arg for keyword in call.keywords]
            yield Said(where, call.args[0].value, None if None in names else frozenset(filter(None, names)))


@cache
def templates() -> tuple[tuple[str, nodes.Template], ...]:
    paths = [path for ending in ("html", "txt", "jinja") for path in (ROOT / "entrypoints").rglob(f"*.{ending}")]
    # Programs for the frameworks of others, some with templates of their own.
    paths = [path for path in paths if path.parent.name != "framework_lines"]
    paths += [path for ending in ("html", "txt", "jinja") for path in (ROOT / "adapters" / "mail").rglob(f"*.{ending}")]
    environment = Environment(autoescape=True)
    return tuple((str(path.relative_to(ROOT)), environment.parse(path.read_text())) for path in paths)


@cache
def python() -> tuple[tuple[str, ast.Module], ...]:
    paths = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    return tuple((str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths)


@cache
def calls_in_python() -> tuple[tuple[str, ast.Call], ...]:
    return tuple((f"{path}:{node.lineno}", node) for path, tree in python() for node in ast.walk(tree) if isinstance(node, ast.Call))


@cache
def written_in_python() -> tuple[frozenset[str], tuple[re.Pattern[str], ...]]:
    """Texts that stand in the code, and patterns of those that are put together there."""
    literals, patterns = set(), set()
    for _, tree in python():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                literals.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values]
                whole = "".join(parts)
                # A section and what begins the name, or the words of a refusal; or a section that varies, and what the name begins with.
                if re.fullmatch(r"[a-z_]+\.[a-z_.]*\*(\.\*)?|\*\.[a-z]+_\*|[a-z]+_\*", whole):
                    whole = whole if "." in whole else f"refusals.{whole}"
                    patterns.add(re.compile(re.escape(whole).replace(r"\*", "[a-z_0-9]+")))
    return frozenset(literals), tuple(patterns)


@pytest.mark.parametrize("language", list(Language))
def test_former_defaults_are_open_texts_that_read_otherwise_now(language: Language) -> None:
    words = ShippedTexts()
    written = words.written(language)
    listed = [(key, one) for key, defaults in words.former(language).items() for one in defaults]
    assert {key for key, _ in listed} <= OPEN_TEXTS.keys()
    assert [key for key, one in listed if one == FormerDefault.of(written[key])] == []
    assert len(set(listed)) == len(listed)
    assert bool(listed) == (language is not Language.CHINESE)


# Two verbs for making, in each language.
MAKING = re.compile(r"^(Add|Create)\b|\b(added|created)\b(?= |$)")
MADE = {
    "Create": {Language.GERMAN: "erstell", Language.FRENCH: "cré", Language.SPANISH: "cre[aeó]"},
    "Add": {Language.GERMAN: "hinzu", Language.FRENCH: "ajout", Language.SPANISH: "añad"},
}


@pytest.mark.parametrize("language", OTHERS)
def test_what_makes_something_is_called_by_two_verbs(language: Language) -> None:
    """In buttons, in what the audit log says, and in the names of events."""
    english, other = shipped(DEFAULT, PAGES), shipped(language, PAGES)
    said = [(key, found) for key, text in english.items() if (found := MAKING.search(text)) and _makes(key, text)]
    stems = {key: MADE["Add" if found[0].lower().startswith("add") else "Create"][language] for key, found in said}
    assert len(said) > 80
    assert [(key, other[key]) for key, stem in stems.items() if not re.search(stem, other[key], re.IGNORECASE)] == []


def _makes(key: str, text: str) -> bool:
    return key.startswith(("console.told.by.", "console.event.")) or bool(re.match(r"(Add|Create) (a|an|the|another)\b", text))
