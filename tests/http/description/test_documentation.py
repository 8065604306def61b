"""The documentation page: complete, from our own address alone, and under a strict policy."""

import re
import threading
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
import trio

from entrypoints.http.description import documentation
from entrypoints.http.pages import Pages
from entrypoints.http.routes import ROUTES
from tests.http.client import Client
from tests.http.people import BASE_URL


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]

    def linked(self) -> list[str]:
        return [value for _, attributes in self.elements for name in ("href", "src") if (value := attributes.get(name))]


@pytest.fixture
async def page(lonely_client: Client) -> Page:
    answer = await lonely_client.get("/docs")
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
    return Page(answer.body.decode())


async def test_every_endpoint_is_on_the_page(page: Page) -> None:
    for one in ROUTES:
        assert one.handler.__name__ in page.ids, str(one)
    assert len(page.ids) == len(set(page.ids))


async def test_nothing_on_the_page_comes_from_elsewhere_and_every_link_leads_somewhere(lonely_client: Client, page: Page) -> None:
    for link in page.linked():
        if link.startswith("#"):
            assert link[1:] in page.ids, link
        else:
            assert re.match(r"/[a-z]", link), link
            # To one's account it leads by way of the sign-in.
            assert (await lonely_client.get(link)).status == (303 if link == "/ui" else 200), link


async def test_the_page_has_no_inline_script_style_or_handler(page: Page) -> None:
    for tag, attributes in page.elements:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag


async def test_the_policy_lets_scripts_and_styles_come_from_us_alone(lonely_client: Client) -> None:
    policy = (await lonely_client.get("/docs")).header("content-security-policy") or ""
    directives = [directive.split() for directive in policy.split(";")]
    assert directives[0] == ["default-src", "'none'"]
    assert ["script-src", "'self'"] in directives
    assert ["style-src", "'self'"] in directives
    assert ["frame-ancestors", "'none'"] in directives
    assert "unsafe" not in policy


async def test_the_page_is_made_once_and_not_where_requests_are_answered(lonely_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    render = documentation.page

    def watched(pages: Pages, document: dict[str, Any]) -> bytes:
        threads.append(threading.current_thread())
        return render(pages, document)

    monkeypatch.setattr(documentation, "page", watched)
    bodies: list[bytes] = []

    async def ask() -> None:
        bodies.append((await lonely_client.get("/docs")).body)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert len(set(bodies)) == 1
    assert len(bodies) == 5
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_assets_may_be_kept_for_they_change_their_address(lonely_client: Client, page: Page) -> None:
    assets = [link for link in page.linked() if link.startswith("/assets/")]
    assert {link.rpartition(".")[2] for link in assets} == {"css", "js", "svg"}
    for link in assets:
        answer = await lonely_client.get(link)
        assert answer.header("cache-control") == "public, max-age=31536000, immutable"
        assert (answer.header("content-type") or "").startswith(("text/css", "text/javascript", "image/svg+xml"))


@pytest.mark.parametrize("path", ["/assets/0000000000000000/postern.svg", "/assets/x/documentation.html", "/assets/x/..%2Fa.py"])
async def test_only_assets_are_served_as_assets(lonely_client: Client, path: str) -> None:
    answer = await lonely_client.get(path)
    assert (answer.status, answer.error_code) == (404, "NOT_FOUND")


@pytest.mark.parametrize("headers", [[], [("host", "evil.example"), ("x-forwarded-host", "evil.example")], [("forwarded", "host=evil")]])
async def test_the_front_door_leads_to_the_documentation(lonely_client: Client, headers: list[tuple[str, str]]) -> None:
    answer = await lonely_client.get("/", headers=headers)
    assert (answer.status, answer.header("location")) == (302, "/docs")


async def test_code_in_a_description_is_shown_as_code(lonely_client: Client) -> None:
    body = (await lonely_client.get("/docs")).body.decode()
    assert "<code>kid</code> in a token" in body
    assert "`" not in body


async def test_the_first_screen_says_how_to_get_a_token_and_use_it(lonely_client: Client) -> None:
    body = unescape((await lonely_client.get("/docs")).body.decode())
    sign_in, user = f"curl {BASE_URL}/api/auth/login", f'curl {BASE_URL}/api/user \\\n  -H "Authorization: Bearer $TOKEN"'
    places = [body.index(text) for text in ("<h1>", sign_in, user, 'type="search"', 'class="reference"')]
    assert places == sorted(places), "the heading first, the endpoints last"


async def test_every_endpoint_and_every_topic_can_be_folded(lonely_client: Client, page: Page) -> None:
    folding = {attributes["id"]: attributes for tag, attributes in page.elements if tag == "details"}
    for one in ROUTES:
        assert "open" not in folding[one.handler.__name__]
    assert {f"tag-{tag}" for one in ROUTES for tag in one.tags[:1]} <= set(folding)
    assert len((await lonely_client.get("/docs")).body) < 650_000
