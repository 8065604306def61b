"""The documentation page: complete, loaded from our own address alone, and under a strict policy."""

import re
import threading
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
import trio

from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.description import documentation
from entrypoints.http.description.documentation import _GUIDES
from entrypoints.http.description.guides import guide_name
from entrypoints.http.pages.kit import Pages
from entrypoints.http.routes import ROUTES
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.people import BASE_URL


class ParsedPage(HTMLParser):
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


TAGS = sorted({one.tags[0] for one in ROUTES if one.tags})
PATHS = ["/docs", *(f"/docs/{tag}" for tag in TAGS)]


async def loaded(client: Client, path: str) -> ParsedPage:
    answer = await client.get(path)
    assert (answer.status, answer.header("content-type")) == (200, "text/html; charset=utf-8")
    return ParsedPage(answer.body.decode())


@pytest.fixture
async def pages(lonely_client: Client) -> Mapping[str, ParsedPage]:
    return {path: await loaded(lonely_client, path) for path in PATHS}


async def test_every_endpoint_is_among_the_contents_and_in_its_chapter(pages: Mapping[str, ParsedPage]) -> None:
    links = pages["/docs"].linked()
    for one in ROUTES:
        name = one.handler.__name__
        assert name in pages["/docs"].ids, str(one)
        assert f"/docs/{one.tags[0]}#{name}" in links
        assert name in pages[f"/docs/{one.tags[0]}"].ids, str(one)


async def test_no_two_things_on_a_page_have_one_address(pages: Mapping[str, ParsedPage]) -> None:
    for path, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), path


async def test_a_topic_that_does_not_exist_is_not_found(lonely_client: Client) -> None:
    for name in ("nothing", "users%2F", "%00", "contents"):
        assert (await lonely_client.get(f"/docs/{name}")).status == 404


async def test_nothing_comes_from_elsewhere_and_every_link_leads_somewhere(lonely_client: Client, pages: Mapping[str, ParsedPage]) -> None:
    for path, page in pages.items():
        for link in set(page.linked()):
            assert re.match(r"/[a-z]|#", link), link
            target, _, anchor = link.partition("#")
            if anchor:
                assert anchor in pages[target or path].ids or anchor == "content", link
            elif target not in pages:
                # The link to the account leads to the sign-in first.
                assert (await lonely_client.get(link)).status == (303 if link == "/ui" else 200), link


async def test_no_page_has_an_inline_script_style_or_handler(pages: Mapping[str, ParsedPage]) -> None:
    for page in pages.values():
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


async def test_the_pages_are_made_once_and_not_where_requests_are_answered(
    lonely_postern: Postern, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A version that no other test asks for, since applications share equal descriptions.
    client = Client(build_application(lonely_postern, replace(SETTINGS, version="new")))
    threads: list[threading.Thread] = []
    render = documentation.rendered

    def watched(pages: Pages, document: dict[str, Any]) -> documentation.Documentation:
        threads.append(threading.current_thread())
        return render(pages, document)

    monkeypatch.setattr(documentation, "rendered", watched)
    bodies: list[bytes] = []

    async def ask() -> None:
        bodies.append((await client.get("/docs")).body)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert len(set(bodies)) == 1
    assert len(bodies) == 5
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_assets_may_be_kept_for_they_change_their_address(lonely_client: Client, pages: Mapping[str, ParsedPage]) -> None:
    assets = [link for link in pages["/docs"].linked() if link.startswith("/assets/")]
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
    assert "<code>kid</code> in a token" in (await lonely_client.get("/docs/keys")).body.decode()
    for path in PATHS:
        assert "`" not in (await lonely_client.get(path)).body.decode(), path


async def test_headers_are_shown_with_what_is_read_and_with_each_answer(lonely_client: Client) -> None:
    body = unescape((await lonely_client.get("/docs/scim")).body.decode())
    change = body.partition('id="change_scim_user"')[2].partition("</details>")[0]
    assert re.search(r'<code>If-Match</code> <span class="kind">string</span> <span class="aside">as a header</span>', change)
    assert re.search(r'Header <code>ETag</code>: <span class="aside">The version', change)
    assert "X-Request-Id" not in body, "what all answers have is told among the contents"
    contents = (await lonely_client.get("/docs")).body.decode()
    for name in ("X-Request-Id", "Retry-After", "WWW-Authenticate", "Accept-Language"):
        assert f"<code>{name}</code>" in contents


async def test_a_topic_that_is_called_by_letters_is_written_in_capitals(lonely_client: Client) -> None:
    contents = unescape((await lonely_client.get("/docs")).body.decode())
    titles = dict(re.findall(r'<a href="/docs/([^"#/]+)">([^<]+)</a>', contents))
    assert titles.pop("errors")
    assert titles.pop("guides")
    assert set(titles) == set(TAGS)
    texts = " ".join(f"{one.summary} {one.description}" for one in ROUTES)
    for tag, title in titles.items():
        written = [word for word in title.split() if word.lower() == tag and re.search(rf"\b{tag.upper()}\b", texts)]
        assert written in ([], [tag.upper()]), title


async def test_the_first_screen_says_how_to_get_a_token_and_use_it(lonely_client: Client) -> None:
    body = unescape((await lonely_client.get("/docs")).body.decode())
    sign_in, user = f"curl {BASE_URL}/api/auth/login", f'curl {BASE_URL}/api/user \\\n  -H "Authorization: Bearer $TOKEN"'
    places = [body.index(text) for text in ("<h1>", sign_in, user, 'type="search"', 'class="reference"')]
    assert places == sorted(places), "the heading first, the endpoints last"


async def test_every_endpoint_and_every_type_of_a_topic_can_be_folded(pages: Mapping[str, ParsedPage]) -> None:
    for tag in TAGS:
        page = pages[f"/docs/{tag}"]
        folding = {attributes["id"] for name, attributes in page.elements if name == "details" and "open" not in attributes}
        assert {one.handler.__name__ for one in ROUTES if one.tags[0] == tag} <= folding
        assert {name for name in page.ids if name.startswith("type-")} <= folding


async def test_pages_stay_small(lonely_client: Client) -> None:
    for path in PATHS:
        assert (size := len((await lonely_client.get(path)).body)) < 200_000, f"{path}: {size}"


async def test_a_topic_has_a_title_in_words_and_leads_to_its_guide(lonely_client: Client) -> None:
    bodies = {tag: unescape((await lonely_client.get(f"/docs/{tag}")).body.decode()) for tag in TAGS}
    for body in bodies.values():
        found = re.search(r"<h1>([^<]+)</h1>", body)
        assert found is not None
        assert "-" not in found[1].replace("Sign-in", "").replace("Setup", ""), found[1]
        assert "docs/guides/" not in body.replace('"/docs/guides/', "")
    linked = {name for name, guide in _GUIDES.items() if f'href="/docs/guides/{guide_name(guide)}"' in bodies[name]}
    assert linked == set(_GUIDES)
    assert "%20" not in (await lonely_client.get("/docs")).body.decode()


async def test_every_topic_is_found_by_other_words_than_ours(lonely_client: Client) -> None:
    body = unescape((await lonely_client.get("/docs")).body.decode())
    topics = re.findall(r'id="tag-([^"]+)" data-topic="([^"]+)"', body)
    assert sorted(name for name, _ in topics) == TAGS
    for name, words in topics:
        assert words.strip() == words, f"{name} has no other words: add some to the search's texts"


async def test_an_endpoint_shows_its_call_in_three_ways(lonely_client: Client) -> None:
    body = unescape((await lonely_client.get("/docs/teams")).body.decode())
    create = body.partition('id="create_team"')[2].partition("<h4>Body")[0]
    assert f"curl {BASE_URL}/api/organizations/" in create
    assert re.search(r'<summary>Python</summary><pre[^>]*><code>postern\.create_team\(\s*"', create)
    assert re.search(r'<summary>TypeScript</summary><pre[^>]*><code>await postern\.createTeam\(\s*"', create)
