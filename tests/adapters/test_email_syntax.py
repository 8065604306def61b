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
