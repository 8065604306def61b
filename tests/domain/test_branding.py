"""Branding: the usable part of an organization's looks, and readable text on its colour."""

import pytest
from hypothesis import given, strategies

from core.domain.branding import (
    LONGEST_NAME,
    PLAIN,
    POSTERN,
    READABLE,
    Branding,
    Font,
    Look,
    NamedApplication,
    branding,
    contrast,
    look_of,
    named_application,
)
from core.domain.lines import one_line, unlinked

DIGEST = "0f" * 32


def test_good_looks_are_kept() -> None:
    assert branding("Acme", DIGEST, "#A01040") == Branding("Acme", f"/logos/{DIGEST}", "#a01040")


@pytest.mark.parametrize("logo", [None, "", "https://cdn.example.com/logo.png", DIGEST.upper(), f"{DIGEST}\n", f"{DIGEST}0", '"onerror="x'])
def test_a_logo_that_is_not_kept_here_is_left_out(logo: str | None) -> None:
    assert branding("Acme", logo, None).logo is None


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
    [("#000000", "#ffffff"), ("#ffffff", "#000000"), ("#ffd166", "#000000"), ("#a01040", "#ffffff"), ("#0f5f5c", "#ffffff")],
)
def test_the_writing_on_a_colour_can_be_read(color: str, ink: str) -> None:
    assert Branding("Acme", None, color).ink == ink


COLORS = strategies.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}")


@given(COLORS)
def test_on_every_colour_there_is_writing_that_can_be_read(color: str) -> None:
    assert contrast(Branding("Acme", color=color).ink, color) >= READABLE


def test_that_holds_for_the_greys_between_white_and_black_too() -> None:
    """Black and white text have nearly the same contrast there, and the chosen one must be readable."""
    for grey in range(256):
        color = f"#{grey:02x}{grey:02x}{grey:02x}"
        assert contrast(Branding("Acme", color=color).ink, color) >= READABLE


@given(COLORS, COLORS)
def test_contrast_is_that_of_two_colours(one: str, other: str) -> None:
    assert contrast(one, other) == contrast(other, one)
    assert 1 <= contrast(one, other) <= 21
    assert contrast(one, one) == 1


@pytest.mark.parametrize(
    ("color", "links", "edge"),
    [("#0f5f5c", True, True), ("#949494", False, True), ("#ffe066", False, False), ("#ffffff", False, False), ("#000000", True, True)],
)
def test_a_pale_colour_is_neither_for_links_nor_for_edges(color: str, links: bool, edge: bool) -> None:
    brand = Branding("Acme", color=color)
    assert (brand.may_write_on("#ffffff"), brand.stands_out_on("#ffffff")) == (links, edge)
    # It must be readable on all of them.
    assert not brand.may_write_on("#ffffff", "#000000")


@pytest.mark.parametrize(
    ("name", "initial"), [("Acme", "A"), ("acme", "A"), ("\u00dfa", "S"), ("\u064a\u0627", "\u064a"), ("\u01c6", "\u01c4")]
)
def test_a_name_is_told_by_its_first_letter(name: str, initial: str) -> None:
    assert Branding(name).initial == initial


FULL = Look(
    dark_logo=DIGEST,
    favicon=DIGEST,
    background=DIGEST,
    second_color="#a01040",
    corner=4,
    font=Font.SLAB,
    notice_from="2026-11-27T00:00:00Z",
)


def test_looks_come_back_as_they_were_stored() -> None:
    assert look_of(FULL.as_text()) == FULL
    assert branding("Acme", None, None, (None, None, None, FULL.as_text(), None, None)).look == FULL
    assert look_of(None) == PLAIN
    assert PLAIN.as_text() is None


@pytest.mark.parametrize(
    "kept",
    [
        '{"second_color": "red;}body{display:none}"}',
        '{"background": "x);}"}',
        '{"dark_logo": "../../x"}',
        '{"favicon": "https://evil.example"}',
        '{"corner": 5}',
        '{"font": "comic"}',
        '{"of_a_newer_release": true}',
        "{}",
    ],
)
def test_what_no_page_can_use_is_left_out(kept: str) -> None:
    assert look_of(kept) == PLAIN


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("Shop", True),
        ("Shop 2.0 beta", False),
        ("https://evil.example", False),
        ("Win at evil.example", False),
        ("a@evil", False),
        ("x" * 40, True),
        ("x" * 41, False),
        ("Dr. Shop", True),
    ],
)
def test_a_name_that_leads_somewhere_is_not_mailed_to_strangers(name: str, may: bool) -> None:
    assert NamedApplication(name).may_be_mailed is may


def test_an_application_is_named_with_its_picture() -> None:
    assert named_application(None) is None
    assert named_application(["Shop\u202e", None]) == NamedApplication("Shop")
    assert named_application(["Shop", DIGEST]) == NamedApplication("Shop", f"/logos/{DIGEST}")
    assert named_application(["Shop", "../x"]) == NamedApplication("Shop")


@pytest.mark.parametrize("address", ["ada@x.example", "ada.b+c@x.example", "(ada@x.example),", "“ada@x.example”"])
def test_an_address_of_mail_stays_as_it_is(address: str) -> None:
    assert unlinked(f"Ask {address} now") == f"Ask {address} now"


@pytest.mark.parametrize("name", ["evil.example/@login", "evil.example/?a@b", "a@b.example/evil.example", "evil.example:@x"])
def test_a_name_with_an_at_sign_in_a_path_is_no_address_of_mail(name: str) -> None:
    """Mail programs make links of these."""
    assert "evil.example" not in unlinked(name)
