"""Branding: the usable part of an organization's looks, and readable text on its colour."""

import pytest

from core.domain.branding import LONGEST_NAME, POSTERN, Branding, branding
from core.domain.lines import one_line


def test_good_looks_are_kept() -> None:
    assert branding("Acme", "https://cdn.example.com:8443/logos/acme.png?v=2", "#A01040") == Branding(
        "Acme", "https://cdn.example.com:8443/logos/acme.png?v=2", "#a01040"
    )


@pytest.mark.parametrize(
    "logo",
    [
        None,
        "",
        "http://cdn.example.com/logo.png",
        "javascript:alert(1)",
        "data:image/png;base64,AAAA",
        "//cdn.example.com/logo.png",
        'https://cdn.example.com/"onerror="x',
        "https://cdn.example.com/<script>",
        "https://user@cdn.example.com/logo.png",
        "https://cdn.example.com/a b.png",
        "https://cdn.example.com\n.evil.example/",
        "https://cdn.example.com/" + "x" * 500,
    ],
)
def test_a_logo_that_is_no_plain_https_address_is_left_out(logo: str | None) -> None:
    assert branding("Acme", logo, None).logo_url is None


@pytest.mark.parametrize("color", [None, "", "red", "#fff", "#12345g", "#123456;background:url(x)", "url(https://evil.example)"])
def test_an_invalid_colour_gives_way_to_ours(color: str | None) -> None:
    assert branding("Acme", None, color).color == POSTERN.color


def test_a_name_stays_on_its_line_and_within_bounds() -> None:
    assert branding(" Acme\r\nBcc: eve@example.org\t", None, None).name == "Acme Bcc: eve@example.org"
    assert len(branding("x" * 1000, None, None).name) == LONGEST_NAME
    assert branding(" \n ", None, None).name == POSTERN.name
    assert branding("\u202eknaB ruoY\u2066", None, None).name == "knaB ruoY"
    # A non-joiner and a joiner, as Persian and Malayalam use them.
    assert branding("a\u200cb\u200dc", None, None).name == "a\u200cb\u200dc"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\u200b\u200b",
        "\u200b \u200b",
        "\u200d",
        "\u200c \u200d",
        "\u3164",
        "\u2800\u115f",
        "\ufe0f",
        "\u034f",
        "\x1b\x00",
        "\u202e \xa0",
    ],
)
def test_a_line_of_which_nothing_can_be_seen_is_empty(text: str) -> None:
    assert one_line(text) == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\u200b Acme\u2060 ", "Acme"),
        ("a \u200b b", "a b"),
        ("a\x1b[31mb", "a[31mb"),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"),
        ("\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"),
        ("\u3164a", "\u3164a"),
        ("e\u0301", "e\u0301"),
        ("!", "!"),
    ],
)
def test_a_line_has_what_can_be_seen_and_what_joins_it(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(
    ("color", "ink"),
    [("#000000", "#ffffff"), ("#ffffff", "#111111"), ("#ffd166", "#111111"), ("#a01040", "#ffffff"), ("#0f5f5c", "#ffffff")],
)
def test_the_writing_on_a_colour_can_be_read(color: str, ink: str) -> None:
    assert Branding("Acme", None, color).ink == ink
