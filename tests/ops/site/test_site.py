"""The documents as a site: links and anchors are whole, nothing is asked of others, and the search finds what newcomers ask for."""

import re
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit

import pytest

from ops.site.__main__ import INSTALLED, build
from tests.browser.chromium import PROGRAMS, started
from tests.browser.page import WIDE, Page, new_page
from tests.patience import PATIENCE
from tests.places import ROOT
from tests.tools import needs, place_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED.exists(), reason="make site installs Sphinx")]

QUESTIONS: Mapping[str, list[str]] = tomllib.loads((Path(__file__).with_name("questions.toml")).read_text())["questions"]
# Of the twenty.
FOUND_AT_LEAST = 18


class SitePage(HTMLParser):
    """The ids of a page, where its links lead, and what a browser loads for it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in {"script", "img", "source", "iframe"} and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") in {"stylesheet", "icon", "preload", "preconnect"}:
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    build(made)
    return made


@pytest.fixture(scope="module")
def pages(site: Path) -> Mapping[str, SitePage]:
    return {file.relative_to(site).as_posix(): SitePage(file) for file in site.rglob("*.html")}


def broken(pages: Mapping[str, SitePage], site: Path) -> Iterator[str]:
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(urljoin(f"https://site.example/{name}", link))
            if parts.netloc != "site.example" or parts.scheme != "https":
                continue
            target = unquote(parts.path.lstrip("/")) or "index.html"
            if not (site / target).is_file() or (parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids):
                yield f"{name}: {link}"


def test_every_document_is_a_page_that_the_index_leads_to(pages: Mapping[str, SitePage]) -> None:
    wanted = {file.relative_to(ROOT).with_suffix(".html").as_posix() for file in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    assert wanted <= set(pages)
    assert wanted <= {link.partition("#")[0] for link in pages["index.html"].links}


def test_every_link_and_every_anchor_leads_somewhere(pages: Mapping[str, SitePage], site: Path) -> None:
    assert sum(len(page.links) for page in pages.values()) > 10_000
    assert list(broken(pages, site)) == []


def test_a_page_loads_nothing_from_others(pages: Mapping[str, SitePage], site: Path) -> None:
    assert {at for page in pages.values() for at in page.loaded if urlsplit(at).scheme or at.startswith("//")} == set()
    styles = "".join(file.read_text() for file in (site / "_static").rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", styles) == []
    assert "prefers-color-scheme: dark" in styles.replace("prefers-color-scheme:dark", "prefers-color-scheme: dark")


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    with started(place_of(PROGRAMS[0]), tmp_path / "chromium", examples_at="127.0.0.1:9") as process:
        async with process.attached() as chromium, new_page(chromium, "file:///", scripts=True) as opened:
            await opened.show(width=WIDE)
            yield opened


@needs(PROGRAMS[0])
async def test_the_search_finds_what_newcomers_ask_for(site: Path, page: Page) -> None:
    assert len(QUESTIONS) == 20
    missed = {}
    for asked, wanted in QUESTIONS.items():
        await page.open(f"{(site / 'search.html').as_uri()}?q={quote(asked)}")
        first = await found(page, site)
        if not set(first[:3]) & set(wanted):
            missed[asked] = first[:5]
    assert len(QUESTIONS) - len(missed) >= FOUND_AT_LEAST, missed


async def found(page: Page, site: Path) -> list[str]:
    """The pages of the results, in their order. The last result shows when the summary does."""
    done = "/found|did not match/.test(document.querySelector('.search-summary')?.innerText ?? '')"
    waited = f"new Promise((go, stop) => {{ const end = Date.now() + {int(PATIENCE * 1000)}; const look = () => {{ if ({done}) go(); "
    waited += "else if (Date.now() > end) stop(new Error('no results')); else setTimeout(look, 50) }; look() })"
    await page.evaluate(waited)
    links = await page.evaluate("[...document.querySelectorAll('#search-results ul.search li > a')].map((one) => one.href)")
    return [unquote(urlsplit(link).path).removeprefix(f"{site}/").removesuffix(".html") for link in links]
