"""The origins whose pages may read answers in a browser."""

import pytest

from core.usecases.federation.clients import ClientOrigins
from tests.http.client import Pairs, Received
from tests.http.federation.relying import Relying
from tests.signing import SettableClock

PAGE = "https://app.example"


async def asked(relying: Relying, method: str, path: str, origin: str, headers: Pairs = ()) -> Received:
    return await relying.client.request(method, path, headers=[("origin", origin), *headers])


async def test_the_pages_of_a_public_web_client_may_read_answers_and_refusals(relying: Relying) -> None:
    for method, path in (
        ("POST", "/auth/token"),
        ("POST", "/oauth/token"),
        ("POST", "/auth/revoke"),
        ("POST", "/auth/device/code"),
        ("GET", "/oauth/userinfo"),
    ):
        answer = await asked(relying, method, path, PAGE)
        assert answer.status in {400, 401}
        assert answer.header("access-control-allow-origin") == PAGE
        assert answer.header("vary") == "Origin"
        before = await asked(relying, "OPTIONS", path, PAGE, [("access-control-request-method", method)])
        assert (before.status, before.header("access-control-allow-origin")) == (204, PAGE)
        assert method in (before.header("access-control-allow-methods") or "")
        assert "authorization" in (before.header("access-control-allow-headers") or "")


OTHERS = ["https://other.example", "http://app.example", "https://app.example:8443", "https://app", "null", "*", "x" * 3000]


@pytest.mark.parametrize("origin", OTHERS)
async def test_no_others(relying: Relying, origin: str) -> None:
    for method, path in (("POST", "/auth/token"), ("GET", "/oauth/userinfo")):
        assert (await asked(relying, method, path, origin)).header("access-control-allow-origin") is None
        before = await asked(relying, "OPTIONS", path, origin, [("access-control-request-method", method)])
        assert before.header("access-control-allow-methods") is None
    assert (await asked(relying, "POST", "/oauth/introspect", PAGE)).header("access-control-allow-origin") is None
    assert (await asked(relying, "GET", "/api/user", PAGE)).header("access-control-allow-origin") is None


@pytest.mark.parametrize(
    ("registered", "origin"),
    [
        ("https://App.Example.com/Callback", "https://app.example.com"),
        ("https://app.example.com:443/callback", "https://app.example.com"),
        ("https://app.example.com:4443", "https://app.example.com:4443"),
        ("https://app.example.com:80/callback", "https://app.example.com:80"),
        ("http://localhost:80?a=b:443", "http://localhost"),
        ("http://[::1]:443/callback", "http://[::1]:443"),
    ],
)
async def test_an_origin_is_what_a_browser_makes_of_the_address(relying: Relying, registered: str, origin: str) -> None:
    """An origin has lower-case letters, and no default port (RFC 6454 section 6.2)."""
    relying.people.change("update services set redirect_uris = %s where slug = 'page'", [registered])
    assert (await asked(relying, "POST", "/auth/token", origin)).header("access-control-allow-origin") == origin
    assert (await asked(relying, "POST", "/auth/token", "https://app.example")).header("access-control-allow-origin") is None


NOT_PUBLIC = {
    "it keeps a secret": "insert into client_secrets (id, service_id, prefix, digest, created_at)"
    " select gen_random_uuid(), id, 'cs', 'x', now() from services where slug = 'page'",
    "it has keys": "update services set jwks = '{}' where slug = 'page'",
    "it is no web application": "update services set service_type = 'desktop' where slug = 'page'",
    "it is deleted": "update all_services set deleted_at = now() where slug = 'page'",
    "its organization is suspended": "update organizations set status = 'suspended'",
    "it sends people elsewhere": "update services set redirect_uris = '{com.example.app:/callback}' where slug = 'page'",
}


@pytest.mark.parametrize("case", NOT_PUBLIC)
async def test_only_while_it_is_a_public_web_client(relying: Relying, case: str) -> None:
    relying.people.change(NOT_PUBLIC[case])
    assert (await asked(relying, "POST", "/auth/token", PAGE)).header("access-control-allow-origin") is None


async def test_what_is_public_is_for_all(relying: Relying) -> None:
    for path in ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json"):
        answer = await relying.client.get(path)
        assert answer.header("access-control-allow-origin") == "*"
        assert answer.header("vary") is None
        before = await asked(relying, "OPTIONS", path, "https://anybody.example", [("access-control-request-method", "GET")])
        assert before.header("access-control-allow-origin") == "*"


class CountedOrigin:
    """A look-up that allows every origin, and counts its calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def includes(self, origin: str) -> bool:
        self.asked.append(origin)
        return True


async def test_an_origin_is_looked_up_once_a_minute_and_few_are_remembered() -> None:
    known, clock = CountedOrigin(), SettableClock()
    origins = ClientOrigins(known, clock, most=2)
    for origin in ("a", "a", "b", "c", "a"):
        assert await origins.includes(origin)
    assert known.asked == ["a", "b", "c", "a"]
    clock.at = clock.at.replace(minute=2)
    assert await origins.includes("a")
    assert known.asked[-2:] == ["a", "a"]
