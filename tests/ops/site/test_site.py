"""The documents as a site: links and anchors are whole, nothing is asked of others, and the search finds what newcomers ask for."""

import re
import shutil
import tarfile
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit

import pytest

from ops.browser.chromium import PROGRAM, started
from ops.browser.page import WIDE, Page, new_page
from ops.release.archives import archive
from ops.release.version import current_version
from ops.site.__main__ import INSTALLED, build_site
from ops.site.versions import LATEST, NOINDEX, lay_out, minor, unpack
from tests.patience import PATIENCE
from tests.places import ROOT
from tests.tools import needs, place_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED.exists(), reason="make site installs Sphinx")]

QUESTIONS: Mapping[str, list[str]] = tomllib.loads((Path(__file__).with_name("questions.toml")).read_text())["questions"]
# Of the twenty.
FOUND_AT_LEAST = 18
NEWEST = minor(current_version(ROOT))
OLD = "0.0"
# The pages that the old version has.
OLD_PAGES = ("index", "README", "docs/guides/passkeys")


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
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with two versions."""
    made = tmp_path_factory.mktemp("site")
    build_site(made)
    for name in OLD_PAGES:
        (made / OLD / name).parent.mkdir(parents=True, exist_ok=True)
        text = (made / NEWEST / f"{name}.html").read_text()
        (made / OLD / f"{name}.html").write_text(text.replace(f'data-version="{NEWEST}"', f'data-version="{OLD}"'))
    shutil.copytree(made / NEWEST / "_static", made / OLD / "_static")
    lay_out(made)
    return made


@pytest.fixture(scope="module")
def site(versions: Path) -> Path:
    """The version of the checkout."""
    return versions / NEWEST


@pytest.fixture(scope="module")
def pages(site: Path) -> Mapping[str, SitePage]:
    return {file.relative_to(site).as_posix(): SitePage(file) for file in site.rglob("*.html")}


def broken(pages: Mapping[str, SitePage], site: Path) -> Iterator[str]:
    for name, leading in pages.items():
        for link in leading.links:
            parts = urlsplit(urljoin(f"https://site.example/{site.name}/{name}", link))
            if parts.netloc != "site.example" or parts.scheme != "https":
                continue
            target, anchor = site.parent / unquote(parts.path.lstrip("/")), unquote(parts.fragment)
            page = pages.get(target.relative_to(site).as_posix()) if target.is_relative_to(site) else None
            if not target.is_file() or (anchor and page and anchor not in page.ids):
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
    with started(place_of(PROGRAM), tmp_path / "chromium", examples_at="127.0.0.1:9") as process:
        async with process.attached() as chromium, new_page(chromium, "file:///", scripts=True) as opened:
            await opened.show(width=WIDE)
            yield opened


@needs(PROGRAM)
async def test_the_search_finds_what_newcomers_ask_for(site: Path, page: Page) -> None:
    assert len(QUESTIONS) == 20
    missed = {}
    for asked, wanted in QUESTIONS.items():
        await page.open(f"{(site / 'search.html').as_uri()}?q={quote(asked)}")
        first = await found(page, site)
        if not set(first[:3]) & set(wanted):
            missed[asked] = first[:5]
    assert len(QUESTIONS) - len(missed) >= FOUND_AT_LEAST, missed


@needs(PROGRAM)
async def test_guides_come_before_decisions(site: Path, page: Page) -> None:
    """And whoever names a framework finds its guide first."""
    first = {
        "fastapi": "fastapi",
        "django": "django",
        "flask": "flask",
        "react": "react",
        "vue": "vue",
        "express": "express",
        "nextauth": "nextjs",
        "spring boot": "untested",
        "react native": "untested",
        "laravel": "untested",
    }
    for asked, wanted in first.items():
        await page.open(f"{(site / 'search.html').as_uri()}?q={quote(asked)}")
        assert (await found(page, site))[0] == f"docs/guides/start/{wanted}", asked
    for asked in ("passkeys", "audit log", "migration"):
        await page.open(f"{(site / 'search.html').as_uri()}?q={quote(asked)}")
        decides = [one.startswith("docs/decisions/") for one in await found(page, site) if one != "index"]
        assert sorted(decides) == decides, asked
        assert set(decides) == {False, True}, asked


@needs(PROGRAM)
async def test_the_start_page_asks_what_one_has_in_our_colour(site: Path, page: Page) -> None:
    await page.open((site / "index.html").as_uri())
    cards = await page.evaluate("[...document.querySelectorAll('.starts a')].map((one) => one.innerText)")
    assert cards == ["Next.js", "React", "Vue", "FastAPI", "Django", "Flask", "Express"]
    colour = "getComputedStyle(document.querySelector('.starts a')).color"
    assert await page.evaluate(colour) == "rgb(15, 95, 92)"
    assert await page.evaluate(
        "document.querySelector('.sidebar-logo').complete && document.querySelector('.sidebar-logo').naturalWidth > 0"
    )
    await page.show(width=WIDE, scheme="dark")
    assert await page.evaluate(colour) == "rgb(111, 202, 191)"
    async with page.loading():
        await page.click("FastAPI")
    assert (await page.title()).startswith("Sign in with FastAPI in five minutes")


async def found(page: Page, site: Path) -> list[str]:
    """The pages of the results, in their order. The last result shows when the summary does."""
    done = "/found|did not match/.test(document.querySelector('.search-summary')?.innerText ?? '')"
    waited = f"new Promise((go, stop) => {{ const end = Date.now() + {int(PATIENCE * 1000)}; const look = () => {{ if ({done}) go(); "
    waited += "else if (Date.now() > end) stop(new Error('no results')); else setTimeout(look, 50) }; look() })"
    await page.evaluate(waited)
    links = await page.evaluate("[...document.querySelectorAll('#search-results ul.search li > a')].map((one) => one.href)")
    return [unquote(urlsplit(link).path).removeprefix(f"{site}/").removesuffix(".html") for link in links]


def test_only_the_newest_version_is_for_search_engines_and_only_once(versions: Path, pages: Mapping[str, SitePage]) -> None:
    assert {file.relative_to(versions / LATEST).as_posix() for file in (versions / LATEST).rglob("*.html")} == set(pages)
    shown = {name for name in (LATEST, NEWEST, OLD) for file in (versions / name).rglob("*.html") if NOINDEX not in file.read_text()}
    assert shown == {LATEST}
    assert not any(NOINDEX in file.read_text() for file in (versions / LATEST).rglob("*.html"))


def test_the_root_leads_to_the_newest_version_and_lists_all(versions: Path) -> None:
    for name in ("index.html", "versions.html"):
        assert SitePage(versions / name).links == [f"{LATEST}/index.html", f"{OLD}/index.html"]
    assert f'content="0; url={LATEST}/index.html"' in (versions / "index.html").read_text()
    assert "refresh" not in (versions / "versions.html").read_text()
    for folder, name in ((LATEST, "docs/guides/passkeys.html"), (OLD, "index.html")):
        file = versions / folder / name
        (back,) = [link for link in SitePage(file).links if link.rpartition("/")[2] == "versions.html"]
        assert (file.parent / back).resolve() == versions / "versions.html"


def test_laying_out_again_changes_nothing(versions: Path) -> None:
    before = {file: file.read_bytes() for file in versions.rglob("*") if file.is_file()}
    lay_out(versions)
    assert {file: file.read_bytes() for file in versions.rglob("*") if file.is_file()} == before


OPTIONS = "[...document.querySelectorAll('.versions option')].map((one) => [one.text, one.selected])"
CHOOSE = (
    "(() => { const one = document.querySelector('.versions select'); one.selectedIndex = %d; one.dispatchEvent(new Event('change')) })()"
)


@needs(PROGRAM)
async def test_the_chooser_goes_to_the_same_page_of_another_version(versions: Path, page: Page) -> None:
    await page.open((versions / OLD / "docs/guides/passkeys.html").as_uri())
    assert await page.evaluate(OPTIONS) == [[f"Version {NEWEST}, the newest", False], [f"Version {OLD}", True]]
    notice = f"This page is about version {OLD}. Version {NEWEST} is the newest."
    assert await page.evaluate("document.querySelector('.old-version').innerText") == notice
    async with page.loading():
        await page.evaluate(CHOOSE % 0)
    assert await page.evaluate("location.href") == (versions / LATEST / "docs/guides/passkeys.html").as_uri()
    assert await page.evaluate("document.querySelector('.old-version')") is None
    assert await page.evaluate(OPTIONS) == [[f"Version {NEWEST}, the newest", True], [f"Version {OLD}", False]]
    # A page that the old version has not: its index.
    await page.open((versions / LATEST / "docs/operations.html").as_uri())
    async with page.loading():
        await page.evaluate(CHOOSE % 1)
    assert await page.evaluate("location.href") == (versions / OLD / "index.html").as_uri()


def packed(version: str, text: str, folder: Path) -> Path:
    source, target = folder / version, folder / f"postern-{version}-site.tar.gz"
    for name in (minor(version), LATEST):
        (source / name).mkdir(parents=True)
        (source / name / "index.html").write_text(f"<head>{NOINDEX}</head>{text}")
    archive(source, target, root=target.name.removesuffix(".tar.gz"))
    return target


def test_the_archives_of_releases_become_one_site(tmp_path: Path) -> None:
    made = [packed(version, version, tmp_path) for version in ("0.9.1", "0.10.2", "0.9.12", "0.9.2", "0.10.1")]
    site = tmp_path / "site"
    site.mkdir()
    unpack(made, site)
    lay_out(site)
    assert sorted(one.name for one in site.iterdir()) == ["0.10", "0.9", "index.html", LATEST, "versions.html", "versions.js"]
    assert {name: (site / name / "index.html").read_text()[-6:] for name in ("0.9", "0.10", LATEST)} == {
        "0.9": "0.9.12",
        "0.10": "0.10.2",
        LATEST: "0.10.2",
    }
    assert SitePage(site / "versions.html").links == [f"{LATEST}/index.html", "0.9/index.html"]


def test_what_is_no_archive_of_a_release_is_not_unpacked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no site of a release"):
        unpack([packed("0.9.1", "x", tmp_path).rename(tmp_path / "other.tar.gz")], tmp_path)
    escaping = tmp_path / "postern-0.9.1-site.tar.gz"
    with tarfile.open(escaping, "w:gz") as written:
        written.addfile(tarfile.TarInfo("postern-0.9.1-site/0.9/../../../escaped"))
    with pytest.raises(tarfile.OutsideDestinationError):
        unpack([escaping], tmp_path / "site")
