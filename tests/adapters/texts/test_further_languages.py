"""The languages beside those of the console: one file each, by the same rules, and English where it lacks something. What each lacks is
listed in `build/missing-texts.txt`.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from adapters.texts import OverEnglish, Sections, ShippedTexts, read_catalogue, shipped
from adapters.texts.catalogue import ALL_FORMS, COMMA, FORMS, Catalogue
from core.domain.languages import CONSOLE_LANGUAGES, DEFAULT, Language
from tests.adapters.texts.test_shipped_texts import NAMED, NOWHERE, PLACEHOLDER, flat
from tests.places import PAGES, ROOT

FURTHER = [language for language in Language if language not in CONSOLE_LANGUAGES]
# Arabic says one and two, and nothing, without a number.
WITHOUT_COUNT = frozenset({"zero", "one", "two"})
QUOTES_OF_OTHERS = r"[«»„]"
# What would be wrong in each, however it was meant: marks of other languages, a form of address that we do not use, spaces before marks.
WRONG = {
    Language.DUTCH: rf"{QUOTES_OF_OTHERS}|\s[;:!?]|\b(je|jij|jouw)\b",
    Language.ITALIAN: r"„|\s[;:!?]|\b(Lei|Suo|Sua)\b",
    Language.PORTUGUESE: rf"{QUOTES_OF_OTHERS}|\s[;:!?]|\b(tu|teu|tua|teus|tuas)\b",
    Language.POLISH: r"[«»“]|\s[;:!?]",
    Language.TURKISH: rf"{QUOTES_OF_OTHERS}|\s[;:!?]|\b(sen|senin)\b",
    Language.UKRAINIAN: r"[„“”]|\s[;:!?]|\b(ти|твій|твоя|твоє|твої)\b",
    Language.JAPANESE: rf"{QUOTES_OF_OTHERS}|[\u3040-\u30ff\u4e00-\u9fff][,.!?](?:\s|$)",
    Language.KOREAN: r"[„、。]|\s[;!?]",
    Language.CHINESE: rf"{QUOTES_OF_OTHERS}|[\u4e00-\u9fff][,.;!?](?:\s|$)",
    Language.ARABIC: r"[„]|[\u0600-\u06ff][,;?](?:\s|$)|[\u0660-\u0669]",
}


def translated(english: Mapping[str, str]) -> dict[str, set[str]]:
    """The texts that the further languages have, each with its placeholders, by the key that is asked for."""
    found: dict[str, set[str]] = {}
    for key, text in english.items():
        if not key.startswith("console."):
            found.setdefault(asked(key, english), set()).update(PLACEHOLDER.findall(text))
    return found


def asked(key: str, english: Mapping[str, str]) -> str:
    whole, _, form = key.rpartition(".")
    return whole if form in ALL_FORMS and f"{whole}.one" in english and f"{whole}.other" in english else key


def faults(language: Language, texts: Mapping[str, str], english: Mapping[str, str]) -> Iterator[str]:
    wanted, forms = translated(english), dict[str, set[str]]()
    for key, text in texts.items():
        whole = asked(key, english)
        form = key.rpartition(".")[2] if whole != key else ""
        if whole not in wanted:
            yield f"{key}: there is no such text"
            continue
        given, needed = set(PLACEHOLDER.findall(text)), wanted[whole]
        if form:
            forms.setdefault(whole, set()).add(form)
            needed = needed - ({"count"} if form in WITHOUT_COUNT and "count" not in given else set())
        if given != needed and not (form and given == needed - {"count"}):
            yield f"{key}: has {sorted(given)} in place of {sorted(needed)}"
        if re.search(NOWHERE, text) or re.search(WRONG[language], text):
            yield f"{key}: a mark that the language writes otherwise: {text}"
    yield from (f"{key}: has {sorted(each)}" for key, each in forms.items() if each != set(FORMS[language]))


def test_ours_is_english_where_a_language_lacks_a_text() -> None:
    ours = OverEnglish(Sections(b'\n[a]\nb = "B"\n'), {"a.b": "b", "c.d": "d"})
    assert dict(ours) == {"a.b": "B", "c.d": "d"}
    assert (len(ours), ours.get("e.f", "")) == (2, "")
    for language in FURTHER:
        assert ShippedTexts(PAGES).written(language).keys() == ShippedTexts(PAGES).written(DEFAULT).keys()


@pytest.mark.parametrize("language", FURTHER)
def test_what_a_file_has_is_right(language: Language) -> None:
    assert list(faults(language, shipped(language, PAGES), shipped(DEFAULT, PAGES))) == []


@pytest.mark.parametrize("language", FURTHER)
def test_no_text_was_left_in_english(language: Language) -> None:
    english = shipped(DEFAULT, PAGES)
    same = [(key, PLACEHOLDER.sub("", text)) for key, text in shipped(language, PAGES).items() if text == english.get(key)]
    assert [key for key, text in same if len(re.findall(r"\w{2,}", text)) > 3] == []


@pytest.mark.parametrize("language", FURTHER)
def test_what_names_a_link_or_a_button_says_what_stands_on_it(language: Language) -> None:
    texts = shipped(language, PAGES)
    for label, mentions in NAMED.items():
        for mention in mentions:
            assert texts.get(label, "") in texts.get(mention, texts.get(label, "")), mention


@pytest.mark.parametrize("language", FURTHER)
def test_a_file_is_read_as_any_reader_of_toml_reads_it(language: Language) -> None:
    file = ROOT / "adapters" / "texts" / f"{language}.toml"
    source = file.read_text(encoding="utf-8") if file.is_file() else ""
    texts = shipped(language, PAGES)
    assert dict(texts) == dict(flat(tomllib.loads(source))) == read_catalogue(source)
    assert len(texts) == len(list(texts))


def test_the_run_lists_what_is_missing() -> None:
    """It is no error: a new text is written in four languages, and translators come to it later."""
    english = shipped(DEFAULT, PAGES)
    wanted = translated(english)
    missing = {one: wanted.keys() - {asked(key, english) for key in shipped(one, PAGES)} for one in FURTHER}
    report = ROOT / "build" / "missing-texts.txt"
    report.parent.mkdir(exist_ok=True)
    report.write_text("".join(f"{language} {key}\n" for language, keys in missing.items() for key in sorted(keys)), encoding="utf-8")
    assert all(keys <= wanted.keys() for keys in missing.values())


SMALL = {
    "page.title": "Apples",
    "page.sent": "Sent to {email}.",
    "page.apples.one": "{count} apple for {email}",
    "page.apples.other": "{count} apples for {email}",
}


@pytest.mark.parametrize(
    ("language", "texts", "told"),
    [
        (Language.POLISH, {"page.sent": "Wysłano na adres {email}."}, []),
        (Language.POLISH, {"page.sent": "Wysłano."}, ["page.sent: has [] in place of ['email']"]),
        (Language.POLISH, {"page.gone": "Nie ma"}, ["page.gone: there is no such text"]),
        (Language.POLISH, {"page.title": "“Jabłka”"}, ["page.title: a mark that the language writes otherwise: “Jabłka”"]),
        (Language.JAPANESE, {"page.apples.other": "りんご{count}個、{email}"}, []),
        (Language.POLISH, {"page.apples.other": "{count} jabłka, {email}"}, ["page.apples: has ['other']"]),
        (Language.ARABIC, {f"page.apples.{form}": "{email}: تفاح" for form in ALL_FORMS}, []),
        (
            Language.ARABIC,
            {f"page.apples.{form}": "تفاح" for form in ALL_FORMS},
            [f"page.apples.{form}: has [] in place of ['count', 'email']" for form in ("few", "many", "other")]
            + [f"page.apples.{form}: has [] in place of ['email']" for form in ("zero", "one", "two")],
        ),
    ],
)
def test_a_fault_of_a_translation_is_found(language: Language, texts: dict[str, str], told: list[str]) -> None:
    assert sorted(faults(language, texts, SMALL)) == sorted(told)


def test_english_is_told_where_a_translation_is_missing() -> None:
    english = Catalogue(DEFAULT, SMALL, html=False)
    own = {
        "page.apples.one": "{count} jabłko",
        "page.apples.few": "{count} jabłka",
        "page.apples.many": "{count} jabłek",
        "page.apples.other": "{count} jabłka",
    }
    polish = Catalogue(Language.POLISH, own, html=False, english=english)
    assert [polish("page.apples", count=count, email="a") for count in (1, 3, 5)] == ["1 jabłko", "3 jabłka", "5 jabłek"]
    assert polish("page.title") == polish("page.title") == "Apples"
    assert polish("page.sent", email="a@example.org") == "Sent to a@example.org."
    # English has its own forms: 3 is no "few" there.
    without = Catalogue(Language.POLISH, {}, html=False, english=english)
    assert [without("page.apples", count=count, email="a") for count in (1, 3)] == ["1 apple for a", "3 apples for a"]
    with pytest.raises(LookupError):
        polish("page.gone")


def test_a_form_that_is_missing_is_told_by_the_last() -> None:
    polish = Catalogue(Language.POLISH, {"page.apples.one": "jabłko", "page.apples.other": "jabłka"}, html=False)
    assert polish("page.apples", count=5) == "jabłka"


FILE = b"""# A comment.

[page]
title = "\xe3\x82\x8a"
text.one = "1"
text.other = "{count}"

[pages]
title = "Others"
"""


def test_a_file_stays_as_it_is_and_finds_its_texts() -> None:
    texts = Sections(FILE)
    assert dict(texts) == {"page.title": "り", "page.text.one": "1", "page.text.other": "{count}", "pages.title": "Others"}
    assert len(texts) == 4
    assert [key in texts for key in ("page.titl", "page.text", "page", "", "others.title", "page.title.one")] == [False] * 6
    assert dict(Sections(b"")) == {}


@pytest.mark.parametrize("language", Language)
def test_a_list_has_the_comma_of_the_language(language: Language) -> None:
    text = ShippedTexts().of(language)
    assert text.listed(["a", "b"]) == f"a{COMMA[language]}b"
    assert text.listed([]) == ""


def test_commas_that_are_others() -> None:
    others = {language: comma for language, comma in COMMA.items() if comma != ", "}
    assert others == {Language.JAPANESE: "、", Language.CHINESE: "、", Language.ARABIC: "، "}


@pytest.mark.parametrize("language", FURTHER)
def test_moments_are_told(language: Language) -> None:
    text, at = ShippedTexts().of(language), datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
    assert all(part in text.moment(at) for part in ("2026", "14:05", "UTC"))
    assert len({text.ago(at - timedelta(days=days), at) for days in (0, 1, 2, 3, 5, 11, 40, 800)}) == 8


WORDS = {
    *("sign_in", "sign_out", "account", "organization", "application", "member", "owner", "administrator", "invitation", "password"),
    *("passkey", "two_step_sign_in", "second_factor", "code", "backup_code", "authenticator_app", "device", "session", "link", "mail"),
    *("address", "directory", "provider", "connected_account", "access", "key", "terms", "role", "rule", "installation"),
}


def test_the_glossary_has_the_same_words_in_each_language_that_it_has() -> None:
    file = ROOT / "adapters" / "texts" / "glossary.toml"
    glossary = tomllib.loads(file.read_text(encoding="utf-8"))
    assert set(glossary) <= set(FURTHER)
    for language, words in glossary.items():
        assert set(words) == WORDS, language
        assert all(isinstance(said, str) and said.strip() == said and said for said in words.values()), language


def test_pages_and_mails_share_a_file() -> None:
    """Each file is kept once: together they are as large as all else that a process has of texts."""
    assert ShippedTexts(PAGES).html(Language.POLISH)._texts is ShippedTexts().of(Language.POLISH)._texts
