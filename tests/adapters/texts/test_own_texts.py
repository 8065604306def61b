"""Own texts over ours: what is shown of them, as plain text and as HTML, whatever somebody has stored."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.texts.catalogue import Catalogue
from core.domain.languages import Language
from core.domain.texts.own_texts import OwnTexts

OURS = {"page.title": "Sign in", "page.text": "Sent to {email}.", "page.two": "{email} and {other}"}
# What may stand in a page besides text: the links and paragraphs of own texts.
ALLOWED = ('<a href="', '" rel="noopener nofollow">', "</a>", "</p>\n<p>", "<br>\n")


def wearing(html: bool = False, on_page: bool = True, *, above: dict[str, str] | None = None, **texts: str) -> Catalogue:
    made = Catalogue(Language.GERMAN, OURS, html=html, on_page=on_page, between="</p>\n<p>" if html else "\n\n")
    own = {f"page.{name}": text for name, text in texts.items()}
    made.lay_over(OwnTexts("above", {Language.GERMAN: above or {}}), OwnTexts("own", {Language.GERMAN: own}))
    return made


def test_an_own_text_stands_in_place_of_ours_and_only_while_it_is_worn() -> None:
    text = wearing(title="Welcome", text="To {email}!")
    assert (text("page.title"), text("page.text", email="a@b"), text("page.two", email="1", other="2")) == ("Welcome", "To a@b!", "1 and 2")
    text.lay_over()
    assert (text("page.title"), text.has_own("page.title")) == ("Sign in", False)


def test_the_first_stands_over_the_second() -> None:
    text = wearing(title="The installation's", text="Its {email}", above={"page.title": "The organization's"})
    assert (text("page.title"), text("page.text", email="x")) == ("The organization's", "Its x")


def test_texts_of_another_language_are_not_shown() -> None:
    text = Catalogue(Language.GERMAN, OURS, html=False)
    text.lay_over(OwnTexts("own", {Language.FRENCH: {"page.title": "Bonjour"}}))
    assert text("page.title") == "Sign in"


def test_paragraphs_and_links_are_html_only_where_paragraphs_may_stand() -> None:
    written = "One & [two {email}](https://a-b.example/?x=1&y=2)\nstill one\n\n \n\nThree"
    html, plain = wearing(html=True, text=written), wearing(text=written)
    link = '<a href="https://a-b.example/?x=1&amp;y=2" rel="noopener nofollow">two &lt;b&gt;</a>'
    assert html.paragraphs("page.text", email="<b>") == f"One &amp; {link}<br>\nstill one</p>\n<p>Three"
    assert html("page.text", email="<b>") == "One &amp; two &lt;b&gt; (https://a-b.example/?x=1&amp;y=2) still one Three"
    assert plain("page.text", email="<b>") == "One & two <b> (https://a-b.example/?x=1&y=2) still one Three"
    assert plain.paragraphs("page.text", email="<b>") == "One & two <b> (https://a-b.example/?x=1&y=2)\nstill one\n\nThree"


@pytest.mark.parametrize("text", ["Without the value", "{email} {other}", "{email!r}", "{other}"])
def test_a_text_whose_placeholders_are_not_ours_gives_way_to_ours(text: str) -> None:
    for worn in (wearing(text=text), wearing(html=True, text=text)):
        assert worn("page.text", email="x") == worn.paragraphs("page.text", email="x") == "Sent to x."


def test_an_own_text_stands_where_its_language_lacks_ours() -> None:
    english = Catalogue(Language.ENGLISH, OURS, html=False)
    text = Catalogue(Language.POLISH, {}, html=False, english=english)
    text.lay_over(OwnTexts("own", {Language.POLISH: {"page.text": "Wysłano do {email}.", "page.two": "{email}"}}))
    assert text("page.text", email="x") == "Wysłano do x."
    # It lacks a value of the English text, which is what people would read.
    assert text("page.two", email="1", other="2") == "1 and 2"


def test_spaces_at_which_no_line_ends_stay() -> None:
    text = "Bienvenue\u202f! Voir\u00a0: {email}\n\nここ\u3000から"
    for text_of_page in (wearing(text=text), wearing(html=True, text=text)):
        assert text_of_page("page.text", email="x") == "Bienvenue\u202f! Voir\u00a0: x ここ\u3000から"
        assert text_of_page.paragraphs("page.text", email="x").startswith("Bienvenue\u202f! Voir\u00a0: x")


def test_where_neither_stands_there_is_nothing() -> None:
    assert wearing().paragraphs("own.footer") == ""
    with pytest.raises(LookupError):
        wearing()("own.footer")


def test_ours_is_said_where_a_paragraph_has_no_words() -> None:
    assert wearing(html=True, title=" \n\n ").paragraphs("page.title") == "Sign in"


def test_mail_programs_make_no_links_of_own_words() -> None:
    joined = "evil\u2060.example"
    assert wearing(on_page=False, title="Go to evil.example").paragraphs("page.title") == f"Go to {joined}"
    assert wearing(title="Go to evil.example").paragraphs("page.title") == "Go to evil.example"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("evil.[example](https://x.example)/login {email}", "x"),
        ("evil[.example](https://x.example)/login {email}", "x"),
        ("evil.{email}/login", "example"),
        ("evil{email}/login", ".example"),
        ("{email}.example/login", "evil"),
        ("{email}example/login", "evil."),
        ("evil[{email}](https://x.example)/login", ".example"),
        ("{email}[example](https://x.example)/login", "evil."),
        ("evil.example/@login {email}", "x"),
        ("ada@x.example/evil.example {email}", "x"),
        ("//evil.example {email}", "x"),
    ],
)
def test_mail_programs_make_no_links_of_words_and_what_stands_beside_them(text: str, value: str) -> None:
    for worn in (wearing(on_page=False, text=text), wearing(html=True, on_page=False, text=text)):
        for shown in (worn("page.text", email=value), worn.paragraphs("page.text", email=value)):
            assert "evil.example" not in shown


def test_addresses_of_mail_and_of_links_stay_as_they_are_in_mails() -> None:
    text = wearing(on_page=False, title="Ask ada@acme.example, or [us](https://acme.example/a.b).")
    assert text.paragraphs("page.title") == "Ask ada@acme.example, or us (https://acme.example/a.b)."


def hostile() -> Iterator[str]:
    yield "<script>alert(1)</script>"
    yield "</p><img src=x onerror=alert(1)>"
    yield '" autofocus onfocus="alert(1)'
    yield "' onclick='x"
    yield "{{ 7 * 7 }} {% raw %}"
    yield "[a](javascript:alert(1))"
    yield "[a](http://evil.example)"
    yield '[a](https://evil.example/"onmouseover="alert(1))'
    yield "[a](https://evil.example/<b>)"
    yield "[[a](https://x.example)](https://y.example)"
    yield "![a](https://x.example)"
    yield "a" * 5000


@pytest.mark.parametrize("text", [*hostile()], ids=[text[:30] for text in hostile()])
def test_hostile_texts_are_text(text: str) -> None:
    _is_harmless(text)


@given(st.text(st.sampled_from("<>\"'&[]()\n {}ab:/") | st.sampled_from("https://"), max_size=60), st.booleans())
def test_no_text_is_more_than_text(text: str, linked: bool) -> None:
    _is_harmless(f"[{text}](https://x.example/{text})" if linked else text)


def _is_harmless(text: str) -> None:
    html = wearing(html=True, title=text)
    assert not set("<>\"'") & set(html("page.title"))
    shown = html.paragraphs("page.title")
    for part in ALLOWED:
        shown = shown.replace(part, "")
    assert not set("<>\"'") & set(shown), shown
    plain = wearing(title=text)("page.title")
    assert "\n" not in plain
