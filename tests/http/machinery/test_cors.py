"""Cross-origin requests: off by default, and then only for the listed origins."""

from collections.abc import Callable

import pytest

from tests.http.client import Client

Examples = Callable[..., Client]
ORIGIN = "https://app.example.org"
PREFLIGHT = [("origin", ORIGIN), ("access-control-request-method", "PATCH"), ("access-control-request-headers", "authorization")]


def cross_origin_headers(headers: object) -> set[str]:
    return {name for name, _ in headers if name.startswith("access-control")}  # type: ignore[attr-defined]  # pairs


async def test_by_default_no_origin_is_let_in(examples: Examples) -> None:
    client = examples()
    for answer in (await client.get("/orders", headers=PREFLIGHT[:1]), await client.request("OPTIONS", "/orders", headers=PREFLIGHT)):
        assert not cross_origin_headers(answer.headers)
        assert answer.header("vary") is None


async def test_a_listed_origin_may_read_answers_and_failures(examples: Examples) -> None:
    client = examples(cors_origins=(ORIGIN,))
    for target, status in (("/orders", 200), ("/orders?page=x", 400), ("/nothing-here", 404)):
        answer = await client.get(target, headers=PREFLIGHT[:1])
        assert (answer.status, answer.header("access-control-allow-origin"), answer.header("vary")) == (status, ORIGIN, "Origin")
        assert "x-request-id" in (answer.header("access-control-expose-headers") or "")
        assert answer.header("access-control-allow-credentials") is None


async def test_a_listed_origin_is_told_what_it_may_send(examples: Examples) -> None:
    answer = await examples(cors_origins=("https://other.example", ORIGIN)).request("OPTIONS", "/orders", headers=PREFLIGHT)
    assert (answer.status, answer.header("access-control-allow-origin")) == (204, ORIGIN)
    assert answer.header("access-control-allow-methods") == "GET, HEAD, POST, OPTIONS"
    assert "authorization" in (answer.header("access-control-allow-headers") or "")
    assert answer.header("access-control-max-age") == "600"


@pytest.mark.parametrize(
    "origin",
    ["null", "https://app.example.org.evil.example", "http://app.example.org", "https://app.example.org/", "*", "HTTPS://APP.EXAMPLE.ORG"],
)
async def test_another_origin_gets_no_leave_but_caches_are_warned(examples: Examples, origin: str) -> None:
    client = examples(cors_origins=(ORIGIN,))
    headers = [("origin", origin), *PREFLIGHT[1:]]
    for answer in (await client.get("/orders", headers=headers), await client.request("OPTIONS", "/orders", headers=headers)):
        assert not cross_origin_headers(answer.headers)
        assert answer.header("vary") == "Origin"


async def test_an_answer_without_origin_warns_caches_too(examples: Examples) -> None:
    assert (await examples(cors_origins=(ORIGIN,)).get("/orders")).header("vary") == "Origin"
