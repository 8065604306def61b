"""Resource servers: the one form of an identifier, and the scopes that an API may have."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.federation.oauth.resources import SCOPES
from core.domain.identifiers import OrganizationId
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.domain.services.resource_identifiers import resource_identifier
from core.domain.services.resource_servers import (
    MOST_SCOPES,
    RESERVED_SCOPES,
    ResourceScope,
    ResourceServer,
    ResourceServerSettings,
    ResourceState,
    made,
)
from core.frozen import replace

NOW = datetime(2026, 11, 26, tzinfo=UTC)
READ = ResourceScope("read", "See orders")


def server(identifier: str = "https://api.example.com/orders", **settings: Any) -> ResourceServer:
    given = ResourceServerSettings(**{"name": "Orders", **settings})
    return made(UUID(int=1), OrganizationId(UUID(int=2)), identifier, given, token="t", now=NOW)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://api.example.com/", "api.example.com"),
        ("https://api.example.com/Orders/v1/", "api.example.com"),
        ("https://api.example.com:8443/orders?tenant=a%2Fb", "api.example.com"),
        ("https://xn--bcher-kva.example/%C3%BC", "xn--bcher-kva.example"),
        ("https://192.0.2.1/api", "192.0.2.1"),
        ("https://[2001:db8::1]/api", "[2001:db8::1]"),
        ("https://intranet/api", "intranet"),
        ("http://localhost:8000/mcp", "localhost"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://[::1]:3000/", "[::1]"),
    ],
)
def test_an_identifier_in_the_one_form_stays_as_it_is(text: str, host: str) -> None:
    found = resource_identifier(text)
    assert (found.text, found.host) == (text, host)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "api.example.com",
            "//api.example.com",
            "https:api.example.com",
            "https:///orders",
            "urn:api:orders",
            "ftp://api.example.com",
        ),
        *(
            "HTTPS://api.example.com",
            "https://API.example.com",
            "https://api.example.com.",
            "https://api_1.example.com",
            "https://.example",
        ),
        *("https://api.example.com", "https://api.example.com?a=1", "https://api.example.com:8443", "http://localhost:8000"),
        *("https://api.example.com:443/", "https://api.example.com:0", "https://api.example.com:08443", "https://api.example.com:65536"),
        *("https://api.example.com:", "https://api.example.com:a", "https://a:b@api.example.com", "https://a@api.example.com"),
        *("https://api.example.com/#a", "https://api.example.com#", "https://api.example.com/a/../b", "https://api.example.com/."),
        *("https://api.example.com/%2e%2E/b", "https://api.example.com?", "https://api.example.com/a?"),
        *("https://api.example.com/%61", "https://api.example.com/%c3%BC", "https://api.example.com/%0A", "https://api.example.com/%7F"),
        *("https://api.example.com/a b", "https://api.example.com/\N{LATIN SMALL LETTER U WITH DIAERESIS}", "https://bücher.example/"),
        *("https://api.example.com/a\\b", "https://api.example.com/a\n", "https://api.example.com/*", "https://api.example.com/%"),
        *("https://api.example.com/[a]", "https://api.example.com/?[", 'https://api.example.com/"', "https://api.example.com/<a>"),
        *("http://api.example.com", "http://localhost:80/", "http://127.0.0.2/", "http://app.localhost/", "http://LOCALHOST/"),
        *("https://localhost/", "https://127.0.0.1/", "https://127.8.9.1/", "https://[::1]/", "https://0.0.0.0/", "https://[::]/"),
        *("https://a.localhost/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/"),
        *("https://127.1/", "https://0x7f.0.0.1/", "https://2130706433/", "https://010.0.0.1/", "https://1.2.3.4.5/"),
        *("https://[2001:DB8::1]/", "https://[2001:db8:0::1]/", "https://[fe80::1%25eth0]/", "https://[1/", "https://[]/", "https://a]/"),
        f"https://api.example.com/{'a' * 477}",
        f"https://{'a' * 64}.example/",
    ],
)
def test_what_programs_would_write_otherwise_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="identifier: ") as refusal:
        resource_identifier(text)
    assert refusal.value.words


def test_the_longest_identifier() -> None:
    assert len(resource_identifier(f"https://api.example.com/{'a' * 476}").text) == 500


@pytest.mark.parametrize(
    ("text", "is_local", "is_name"),
    [
        ("https://api.example.com/", False, True),
        ("https://intranet/", False, False),
        ("https://192.0.2.1/", False, False),
        ("https://[2001:db8::1]/", False, False),
        ("http://localhost/", True, False),
        ("http://[::1]/", True, False),
    ],
)
def test_who_needs_a_proof(text: str, is_local: bool, is_name: bool) -> None:
    found = resource_identifier(text)
    assert (found.is_local, found.is_name) == (is_local, is_name)


def test_look_alikes_have_one_key() -> None:
    alike = ("https://a.example/mcp", "https://a.example/mcp/", "https://a.example/MCP//")
    assert len({resource_identifier(text).key for text in alike}) == 1
    assert resource_identifier("https://a.example/mcp2").key not in {resource_identifier(text).key for text in alike}


def test_the_scopes_of_postern_are_reserved() -> None:
    assert set(SCOPES) < RESERVED_SCOPES


@pytest.mark.parametrize(
    "scope",
    [
        *(ResourceScope(name, "See orders") for name in ("", "a b", 'a"', "a\\b", "ü", "a\n", "a" * 101)),
        *(ResourceScope(name, "See orders") for name in ("openid", "OpenID", "address", "offline_access", "provider_token")),
        *(ResourceScope("read", text) for text in ("", " ", "\u200b", "a" * 201, "<b>all</b>", "see https://a.example")),
        *(ResourceScope("read", text) for text in ("[all](//a.example)", "www.example.com", "WWW.example.com", "a" * 2001)),
        ResourceScope("read", "See orders", "orders.read"),
        *(ResourceScope("read", "See orders", acr_values=values) for values in ((ONE_FACTOR,), (TWO_FACTORS, ""), ("mfa",))),
        *(ResourceScope("read", "See orders", max_age=seconds) for seconds in (-1, 0, 59, 2_592_001)),
    ],
)
def test_a_scope_that_cannot_be_is_refused(scope: ResourceScope) -> None:
    with pytest.raises(BadRequest, match=r"scopes\[1\]\.") as refusal:
        server(scopes=(ResourceScope("first", "First"), scope))
    assert refusal.value.words


@pytest.mark.parametrize(
    "settings",
    [
        *({"name": name} for name in ("", " ", "a" * 101, "\u200b")),
        *({"token_lifetime": seconds} for seconds in (0, 59, 86_401, -1)),
        {"scopes": (READ, READ)},
        {"scopes": tuple(ResourceScope(f"s{n}", "A scope") for n in range(MOST_SCOPES + 1))},
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as refusal:
        server(**settings)
    assert refusal.value.words


def test_texts_are_one_line_and_names_are_sorted() -> None:
    found = server(
        name=" Our\norders ",
        token_lifetime=60,
        service_slug="shop",
        admitted=("till", "shop", "till"),
        scopes=(ResourceScope("read:all", "  See\t orders ", "orders.read"),),
    )
    assert (found.name, found.admitted) == ("Our orders", ("shop", "till"))
    assert found.scopes == (ResourceScope("read:all", "See orders", "orders.read"),)
    assert found.scope("read:all") == found.scopes[0]
    assert found.scope("read") is None


def test_the_state_follows_from_proof_approval_and_time() -> None:
    claim = server()
    assert claim.state(NOW) is ResourceState.WAITING
    assert server("http://localhost/").state(NOW) is ResourceState.ACTIVE
    for given in (replace(claim, verified_at=NOW), replace(claim, approved_at=NOW)):
        assert given.state(NOW) is ResourceState.ACTIVE
        later = replace(given, settles_at=NOW + timedelta(hours=1))
        assert later.state(NOW) is ResourceState.SETTLING
        assert not later.is_active(NOW)
        assert later.is_active(NOW + timedelta(hours=1))
