"""Which e-mail addresses are taken."""

import pytest

from adapters.email_syntax import LibraryEmailSyntax
from core.domain.errors import BadRequest


@pytest.mark.parametrize(
    "text",
    ["a@example.com", "First.Last+tag@sub.example.org", "Ünïcode@exämple.de", "owner@postern.local", "a@b.test", f"{'a' * 64}@example.com"],
)
def test_an_address_is_kept_as_its_owner_wrote_it(text: str) -> None:
    assert LibraryEmailSyntax().parse(text).address == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "@example.com",
        "a@",
        "a@b",
        "a b@example.com",
        " a@example.com",
        "a@example.com\n",
        "a@example.com\r\nBcc: b@example.com",
        "Name <a@example.com>",
        "a@[127.0.0.1]",
        "a@exa\0mple.com",
        f"{'a' * 65}@example.com",
        f"a@{'b.' * 200}com",
        "a@b@example.com",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="invalid"):
        LibraryEmailSyntax().parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "\ufb01nn@example.com",  # a ligature: compared as finn
        "\uff55ser@example.com",  # a wide letter
        "\u212aurt@example.com",  # the sign for kelvin
        "wei\u00df@example.com",
        "boss@he\u00dfen.de",  # mailed to hessen.de
        "a@\u03b1\u03c2.gr",  # a final sigma: mailed to the domain with a plain one
        "a@\u0646\u0627\u0645\u0647\u200c\u0627\u06cc.com",  # a joiner that IDNA 2003 drops
    ],
)
def test_what_would_be_taken_for_somebody_elses_address_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="invalid"):
        LibraryEmailSyntax().parse(text)


@pytest.mark.parametrize(
    "text", ["e\u0301va@example.com", "\u00c9va@Ex\u00e4mple.DE", "a@xn--heen-7na.de", "\u7528\u6237@\u4f8b\u5b50.\u4e2d\u56fd"]
)
def test_other_scripts_and_forms_stay_welcome(text: str) -> None:
    assert LibraryEmailSyntax().parse(text).address == text
