"""How an own text may read: each rule, and hostile texts, which are refused or harmless."""

from typing import Any, Final

import pytest

from core.domain.languages import Language
from core.domain.texts.own_texts import OPEN_TEXTS, TextKind
from core.domain.texts.rules import (
    LONGEST,
    MOST_FAULTS,
    MOST_LINES,
    FormerDefault,
    OwnText,
    TextLink,
    TextRules,
    TextsRefused,
    canonical,
    checked_texts,
    faults,
    is_below,
    links,
    paragraphs,
    parts,
    without_links,
)

EN, DE = Language.ENGLISH, Language.GERMAN
ENGLISH: Final = {
    "sign_in.title": "Sign in",
    "sign_in.title_to": "Sign in to {service}",
    "sign_in.next": "Continue",
    "sign_in.email": "Email address",
    "second_factor.explained": "Open your app.",
    "mail_invitation.subject": "Invitation to {organization}",
    "consent.title": "Allow {service} to access your account?",
}
GERMAN: Final = {**ENGLISH, "sign_in.title": "Melden Sie sich bitte hier bei uns an: willkommen", "second_factor.explained": "x" * 400}
RULES: Final = TextRules({EN: ENGLISH, DE: GERMAN}, ENGLISH, {"acme.example", "xn--bcher-kva.example"})


def said(key: str, text: str, language: Language = EN, rules: TextRules = RULES) -> list[str]:
    one = OwnText(key, language, text)
    return [fault.words for fault in faults(OwnText(key, language, canonical(one)), rules)]


def test_a_line_may_have_twice_as_many_letters_as_ours_and_always_sixty() -> None:
    assert said("sign_in.title", "x" * 60) == []
    assert said("sign_in.title", "x" * 61) == ["own_text_long"]
    assert said("sign_in.title", "x" * 98, DE) == []
    (fault,) = faults(OwnText("sign_in.title", DE, "x" * 101), RULES)
    assert (str(fault), fault.values) == ("sign_in.title (de): too long by 3: at most 98 characters", {"over": 3, "most": 98})


def test_a_button_has_forty_letters_and_paragraphs_six_hundred_or_twice_ours() -> None:
    assert said("sign_in.next", "x" * 40) == []
    assert said("sign_in.next", "x" * 41) == ["own_text_long"]
    assert said("second_factor.explained", "x" * 600) == []
    assert said("second_factor.explained", "x" * 601) == ["own_text_long"]
    assert said("second_factor.explained", "x" * 800, DE) == []
    assert said("second_factor.explained", "x" * 801, DE) == ["own_text_long"]
    assert said("own.footer", "x" * 600) == []
    # What is far too long is not looked at letter by letter.
    assert said("own.footer", "<" * (LONGEST + 1)) == ["own_text_long"]


def test_a_line_is_one_line_and_a_paragraph_text_has_four_at_most() -> None:
    assert said("sign_in.title", "Welcome\nto us") == ["own_text_lines"]
    assert said("mail_invitation.subject", "{organization}\r\nBcc: eve@evil.example") == ["own_text_lines"]
    assert said("own.footer", "a\n\nb\n\nc\n\nd") == []
    assert said("own.footer", "a\n\nb\n\nc\n\nd\n\ne") == ["own_text_paragraphs"]


def test_a_footer_has_twelve_lines_at_most() -> None:
    assert said("own.footer", "a\n" * MOST_LINES) == []
    (fault,) = faults(OwnText("own.footer", EN, "a\n" * MOST_LINES + "a"), RULES)
    assert (fault.words, fault.values) == ("own_text_many_lines", {"most": 12})
    # Its lines become one.
    assert said("own.notice", "a\n" * MOST_LINES + "a") == []


@pytest.mark.parametrize(
    ("key", "typed", "kept"),
    [
        ("sign_in.title", "  Welcome \t to  us ", "Welcome to us"),
        ("own.notice", "\r\nAcme Ltd\r\nLondon\r\n \r\n\r\nImprint ", "Acme Ltd London\n\nImprint"),
        ("own.footer", "\r\nAcme  Ltd \t\r\n\t London\r\n \r\n\r\nImprint ", "Acme Ltd\nLondon\n\nImprint"),
        ("sign_in.title", "Cafe\u0301", "Café"),
        ("sign_in.title", "Bienvenue\u00a0!", "Bienvenue\u00a0!"),
        ("own.footer", "x" * (LONGEST + 1), "x" * (LONGEST + 1)),
        ("consent.title", " a ", "a"),
    ],
)
def test_a_text_has_one_form(key: str, typed: str, kept: str) -> None:
    assert canonical(OwnText(key, EN, typed)) == kept
    assert canonical(OwnText(key, EN, kept)) == kept


@pytest.mark.parametrize("text", ["", " \n ", "\u200d", "\u3164", "\u0301"])
def test_a_text_says_something(text: str) -> None:
    assert said("own.footer", text) == ["own_text_empty"]


def test_placeholders_are_ours_each_once_or_twice() -> None:
    key = "sign_in.title_to"
    assert said(key, "{service}: welcome to {service}") == []
    assert said(key, "Welcome") == ["own_text_placeholder_missing"]
    assert said(key, "{service}{service}{service}") == ["own_text_placeholder_often"]
    assert said("sign_in.title", "Welcome, {email}") == ["own_text_placeholder_none"]
    (fault,) = faults(OwnText(key, EN, "{service} {email}"), RULES)
    assert (fault.words, fault.values) == ("own_text_placeholder_unknown", {"name": "{email}", "known": "{service}"})
    assert str(fault) == "sign_in.title_to (en): {email} is not a placeholder of this text: the text has {service}"


@pytest.mark.parametrize(
    "text", ["{service!r} {service}", "{service:>9} {service}", "{0} {service}", "{{service}}", "{service} {", "}{service}"]
)
def test_braces_stand_around_placeholders_alone(text: str) -> None:
    assert said("sign_in.title_to", text) == ["own_text_braces"]


@pytest.mark.parametrize(
    "text",
    ["<b>Hi</b>", "<script>", "</p>", "<!-- -->", "<?xml", "&lt;b&gt;", "&#60;", "=?utf-8?q?Hi?="],
)
def test_html_is_refused_because_it_would_be_shown_as_it_stands(text: str) -> None:
    assert said("own.footer", text) == ["own_text_html"]


@pytest.mark.parametrize("text", ["**Hi**", "__Hi__", "`Hi`", "~~Hi~~", "# Hi", "a\n\n## Hi"])
def test_markdown_is_refused_because_it_would_be_shown_as_it_stands(text: str) -> None:
    assert said("own.footer", text) == ["own_text_markdown"]


@pytest.mark.parametrize(
    "text", ["Research & Development", "2 < 3 > 1", "1. First, 2. second", "C# and F#", "a * b", "Tel: +43 1 23", "Really?"]
)
def test_plain_signs_are_plain(text: str) -> None:
    assert said("own.footer", text) == []


@pytest.mark.parametrize(
    "hidden",
    [
        *("\x00", "\x07", "\x1b", "\x7f", "\x85", "\u00ad", "\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029"),
        *("\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2060", "\u2066", "\u2067", "\u2068", "\u2069", "\ufeff", "\ufff9"),
        *("\U000e0041", "\ue000", "\ud800", "\u034f", "\u2800", "\u200d", "\u200c"),
    ],
)
def test_what_nobody_sees_is_refused(hidden: str) -> None:
    assert said("sign_in.title", f"Wel{hidden}come") == ["own_text_hidden"]
    assert said("sign_in.title", f"Welcome{hidden}") == ["own_text_hidden"]


def test_joiners_stand_where_scripts_need_them() -> None:
    assert said("sign_in.title", "\N{ARABIC LETTER FARSI YEH}\u200c\N{ARABIC LETTER KHAH}") == []
    assert said("sign_in.title", "\N{MAN}\u200d\N{PERSONAL COMPUTER}") == []
    assert said("sign_in.title", "\N{ARABIC LETTER FARSI YEH}\u200c\u200d\N{ARABIC LETTER KHAH}") == ["own_text_hidden"]


def test_marks_do_not_pile_up() -> None:
    assert said("sign_in.title", "Z" + "\u0335" * 9) == ["too_many_marks"]


def test_links_lead_by_https_to_domains_that_are_listed() -> None:
    assert said("own.footer", "[Imprint](https://www.acme.example/imprint?x=1) and [home](https://acme.example)") == []
    assert said("own.footer", "[Bücher](https://xn--bcher-kva.example/)") == []
    (fault,) = faults(OwnText("own.footer", EN, "[x](https://evil-acme.example/)"), RULES)
    assert (fault.words, fault.values) == ("own_text_host", {"host": "evil-acme.example"})
    assert said("own.footer", "[x](https://acme.example.evil.example/)") == ["own_text_host"]
    assert said("sign_in.title", "[x](https://acme.example/)") == ["own_text_link_here"]


@pytest.mark.parametrize(
    "address",
    [
        *(
            "http://acme.example/",
            "HTTPS://acme.example/",
            "//acme.example/",
            "javascript:alert",
            "data:text/html,x",
            "mailto:a@acme.example",
        ),
        *("https://acme.example:8443/", "https://user@acme.example/", "https://acme.example\\@evil.example/", "https://127.0.0.1/"),
        *(
            "https://[::1]/",
            "https://bücher.example/",
            "https://acme.example/#x",
            "https://acme.example/{email}",
            "https://acme.example/\x07",
        ),
    ],
)
def test_no_other_address_is_one(address: str) -> None:
    found = said("own.footer", f"[x]({address})")
    assert {*found} & {"own_text_address", "own_text_bare_address"}, found


@pytest.mark.parametrize(
    "text", ["See https://acme.example", "www.acme.example", "ftp://x", "[x] (https://acme.example/)", "[a](b](c", "x](y"]
)
def test_an_address_is_a_link_or_no_address(text: str) -> None:
    assert said("own.footer", text) == ["own_text_bare_address"]


@pytest.mark.parametrize("words", ["https://good.example", "www.good.example"])
def test_the_words_of_a_link_are_no_other_address(words: str) -> None:
    assert said("own.footer", f"[{words}](https://acme.example/)") == ["own_text_link_words", "own_text_bare_address"]


@pytest.mark.parametrize(
    "words",
    [
        *(
            "bank.example",
            "Pay at bank.example, please",
            "help@bank.example",
            "BANK.Example",
            "bank.acme.example.bank.example",
            "acme.example.bank",
        ),
        *("b\u00e4nk.example", "bank\u3002example", "bank\u2024example", "\uff42ank\uff0eexample", "acme.examplé", f"{'x' * 64}.example"),
    ],
)
def test_the_words_of_a_link_name_no_other_host(words: str) -> None:
    assert said("own.footer", f"[{words}](https://acme.example/)") == ["own_text_link_words"]


@pytest.mark.parametrize(
    "words", ["acme.example", "ACME.example.", "help.acme.example", "a@acme.example", "Dr. Acme, e.g. 1.2 of z.B.", "1.5 km"]
)
def test_the_words_of_a_link_may_name_its_host(words: str) -> None:
    assert said("own.footer", f"[{words}](https://acme.example/)") == []


def test_letters_of_a_host_are_compared_as_addresses_have_them() -> None:
    assert said("own.footer", "[b\u00fccher.example](https://www.xn--bcher-kva.example/)") == []
    (fault,) = faults(OwnText("own.footer", EN, "[bank.example](https://acme.example/)"), RULES)
    assert fault.values == {"named": "bank.example", "host": "acme.example"}


def test_closed_texts_and_unknown_ones_say_why() -> None:
    (fault,) = faults(OwnText("consent.title", EN, "<Hi>"), RULES)
    assert fault.words == "own_text_closed"
    assert "cannot be customized" in fault.message
    assert said("no.such", "Hi") == ["own_text_closed"]


def test_all_faults_are_told_at_once_and_good_texts_come_back_in_one_form() -> None:
    texts = [OwnText("sign_in.title", EN, "x" * 70), OwnText("sign_in.title", DE, "Hallo {x}"), OwnText("sign_in.next", EN, "Go")]
    with pytest.raises(TextsRefused) as refused:
        checked_texts(texts, RULES)
    assert [(one.key, one.language, one.words) for one in refused.value.faults] == [
        ("sign_in.title", EN, "own_text_long"),
        ("sign_in.title", DE, "own_text_placeholder_none"),
    ]
    assert refused.value.message.startswith("texts: sign_in.title (en): too long by 10: at most 60 characters; sign_in.title (de): ")
    assert checked_texts([OwnText("sign_in.next", EN, " Go ")], RULES) == [OwnText("sign_in.next", EN, "Go")]


HOSTILE: Final[tuple[str, ...]] = (
    *("<script>alert(1)</script>", "{{ 7*7 }}", "{% raw %}", "{email!r}", "{0.__class__}", "%(email)s", "${jndi:ldap://x}"),
    *("a\u202eb", "a\u200bb", "Hi\r\nBcc: eve@evil.example", "=?utf-8?q?=0D=0A?=", '" onload="x', "w" * 5000, "javascript:alert(1)"),
    *("[x](javascript:alert(1))", "[x](https://evil.example)", "![x](https://acme.example/x.png)", "\x00", "\ud800"),
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_open_text_takes_a_hostile_one_that_could_be_more_than_words(hostile: str) -> None:
    for key, one in OPEN_TEXTS.items():
        text = canonical(OwnText(key, EN, hostile))
        if not list(faults(OwnText(key, EN, text), RULES)):
            # What is taken has no sign that a page, a mail or a template reads: quotes are escaped where they stand.
            assert not set("<>{}\r\u202e\u200b") & set(text)
            assert one.kind is TextKind.FOOTER or "\n" not in text
            assert one.kind is not TextKind.SUBJECT or "=?" not in text


def test_a_text_is_taken_apart_as_it_was_written() -> None:
    text = "See [our imprint](https://acme.example/i) or [terms](https://acme.example/t)\n\nCall {service}"
    first, second = paragraphs(text)
    assert parts(first) == [
        "See ",
        TextLink("our imprint", "https://acme.example/i"),
        " or ",
        TextLink("terms", "https://acme.example/t"),
    ]
    assert parts(second) == ["Call {service}"]
    assert [one.address for one in links(text)] == ["https://acme.example/i", "https://acme.example/t"]
    assert without_links(text) == "See our imprint or terms\n\nCall {service}"


def test_a_host_is_below_itself_and_what_stands_above() -> None:
    assert [is_below(host, ["acme.example"]) for host in ("acme.example", "a.b.acme.example", "xacme.example", "example")] == [
        True,
        True,
        False,
        False,
    ]


def test_what_we_have_no_text_of_has_none_to_go_by() -> None:
    empty: Any = TextRules({}, {})
    assert (empty.ours_of("own.footer", EN), empty.placeholders("own.footer"), empty.most("own.footer", EN)) == ("", [], 600)
    # A language without the text has the English one.
    assert TextRules({DE: {}}, ENGLISH).ours_of("sign_in.title", DE) == "Sign in"


def test_a_former_default_of_the_same_meaning_is_current_and_leaves_the_room_it_gave() -> None:
    former = {EN: {"sign_in.title": [FormerDefault.of("Tell us who you are, and come in: here you sign in")]}}
    rules = TextRules({EN: ENGLISH, DE: GERMAN}, ENGLISH, former=former)
    assert rules.is_current("sign_in.title", EN, "Sign in")
    assert rules.is_current("sign_in.title", EN, "Tell us who you are, and come in: here you sign in")
    assert not rules.is_current("sign_in.title", DE, "Tell us who you are, and come in: here you sign in")
    assert not rules.is_current("sign_in.title", EN, "Tell us who you are")
    assert not rules.is_current("sign_in.next", EN, "Tell us who you are, and come in: here you sign in")
    assert [RULES.most("sign_in.title", EN), rules.most("sign_in.title", EN), rules.most("sign_in.title", DE)] == [60, 100, 100]


def test_made_up_keys_without_end_have_no_answer_without_end() -> None:
    many = [OwnText(f"k{number}", Language.ENGLISH, "x") for number in range(5000)]
    with pytest.raises(TextsRefused) as refused:
        checked_texts(many, TextRules({}, {}))
    assert len(OPEN_TEXTS) < len(refused.value.faults) == MOST_FAULTS
