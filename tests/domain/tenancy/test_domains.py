"""Domains: their only form, and their proofs."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import DomainId, OrganizationId
from core.domain.tenancy.domains import Domain, domain_name
from tests.hostile_addresses import HOSTILE_ADDRESSES

DOMAIN = Domain(
    id=DomainId(UUID(int=1)),
    organization=OrganizationId(UUID(int=2)),
    name="login.acme.example",
    token="proof",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


@pytest.mark.parametrize("text", ["login.acme.example", " Login.ACME.example. ", "LOGIN.acme.EXAMPLE"])
def test_a_domain_has_one_form(text: str) -> None:
    assert domain_name(text) == "login.acme.example"
    assert domain_name("XN--bcher-kva.example") == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    "text",
    [
        *HOSTILE_ADDRESSES,
        *("", ".", "localhost", "acme", "acme..example", "acme.example..", ".acme.example", "-a.example", "a-.example", "a_b.example"),
        *("*.acme.example", "bücher.example", "acme.example/path", "http://acme.example", "acme.example:443", "user@acme.example"),
        *("acme.example\n", "a b.example", "acme.123", "127.1", "0x7f.1", "[::1]", "x" * 64 + ".example", "a." * 126 + "example"),
        *("acme.example\0", "acme。example", "a%2eexample"),
    ],
)
def test_everything_else_is_none(text: str) -> None:
    if text == "acme.example\n":
        assert domain_name(text) == "acme.example"
        return
    with pytest.raises(BadRequest, match="domain"):
        domain_name(text)


def test_what_is_published_proves_it_and_nothing_else_does() -> None:
    assert DOMAIN.is_proved_by("proof")
    assert DOMAIN.is_proved_by(" proof\r\n")
    assert not any(map(DOMAIN.is_proved_by, ("", "Proof", "a proof", "proof proof")))
    assert DOMAIN.record == "_postern-verification.login.acme.example"
    assert DOMAIN.file_url == "https://login.acme.example/.well-known/postern-verification.txt"
    assert [(one.scheme, one.port) for one in DOMAIN.files] == [("https", 443), ("http", 80)]
