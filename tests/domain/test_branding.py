"""Branding: what is usable of an organization's looks, and writing on its colour that can be read."""

import pytest

from core.domain.branding import LONGEST_NAME, POSTERN, Branding, branding


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
def test_a_colour_that_is_none_gives_way_to_ours(color: str | None) -> None:
    assert branding("Acme", None, color).color == POSTERN.color


def test_a_name_stays_on_its_line_and_within_bounds() -> None:
    assert branding(" Acme\r\nBcc: eve@example.org\t", None, None).name == "Acme Bcc: eve@example.org"
    assert len(branding("x" * 1000, None, None).name) == LONGEST_NAME
    assert branding(" \n ", None, None).name == POSTERN.name
    assert branding("\u202eknaB ruoY\u2066", None, None).name == "knaB ruoY"
    # A non-joiner and a joiner, as Persian and Malayalam use them.
    assert branding("a\u200cb\u200dc", None, None).name == "a\u200cb\u200dc"


@pytest.mark.parametrize(
    ("color", "ink"),
    [("#000000", "#ffffff"), ("#ffffff", "#111111"), ("#ffd166", "#111111"), ("#a01040", "#ffffff"), ("#0f5f5c", "#ffffff")],
)
def test_the_writing_on_a_colour_can_be_read(color: str, ink: str) -> None:
    assert Branding("Acme", None, color).ink == ink
