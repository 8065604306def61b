"""The guides of this version as pages: complete, with links that lead somewhere, and found from `/docs`."""

import re
from html import unescape
from pathlib import Path

import pytest

from core.frozen import replace
from entrypoints.bootstrap import Postern
from entrypoints.http.application import build_application
from entrypoints.http.description import documentation
from entrypoints.http.description import guides as module
from entrypoints.http.description.guides import CONTENTS, FOLDERS, guides, in_html
from tests.http.client import Client
from tests.http.conftest import SETTINGS
from tests.http.description.test_documentation import loaded
from tests.places import ROOT

GUIDES = guides()
NAMES = list(GUIDES)
# What Markdown writes and a page does not show.
MARKS = re.compile(r"\*\*|\]\(|^#|`|^\|", re.MULTILINE)
HEAD = "<thead><tr><th>a</th><th>b</th></tr></thead>"
EXAMPLES = re.compile(r"<pre.*?</pre>|<code>.*?</code>", re.DOTALL)


async def test_a_guide_is_a_page_whose_links_lead_somewhere(lonely_client: Client) -> None:
    for name, guide in GUIDES.items():
        page = await loaded(lonely_client, guide.address)
        assert len(page.ids) == len(set(page.ids)), name
        for link in set(page.linked()) - {"#content"}:
            target, _, anchor = link.partition("#")
            if target.startswith("/docs/guides/") or not target:
                linked = GUIDES[target.rpartition("/")[2] or name]
                assert not anchor or f'id="{anchor}"' in linked.content, f"{name}: {link}"
            else:
                assert re.match(r"/docs|/ui$|/assets/|/openapi.json$|https://|http://(127\.0\.0\.1|localhost)[:/]", target), (
                    f"{name}: {link}"
                )


def test_no_marks_are_left_and_no_example_is_lost() -> None:
    for path in set((ROOT / "docs" / "guides").rglob("*.md")) - {ROOT / "docs" / "guides" / CONTENTS}:
        text = path.read_text()
        guide = GUIDES[module.guide_name(str(path.relative_to(ROOT / "docs" / "guides")))]
        assert MARKS.findall(EXAMPLES.sub("", guide.content)) == [], path
        shown = [unescape(one) for one in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", guide.content, re.DOTALL)]
        assert len(shown) == text.count("```") / 2, path
        for line in (line for one in shown for line in one.splitlines()):
            assert line.strip() in text, path


async def test_every_guide_is_among_the_contents_and_in_words(lonely_client: Client) -> None:
    contents = await loaded(lonely_client, "/docs")
    assert {f"/docs/guides/{name}" for name in NAMES} <= set(contents.linked())
    folders = {str(path.parent.relative_to(ROOT / "docs" / "guides")) for path in (ROOT / "docs" / "guides").rglob("*.md")}
    assert {"" if one == "." else one for one in folders} == set(FOLDERS), "words for each folder"
    assert all(one.title and one.about for one in GUIDES.values())


async def test_the_page_of_guides_lists_each_once_by_what_it_is_for(lonely_client: Client) -> None:
    page = await loaded(lonely_client, "/docs/guides")
    listed = [link for link in page.linked() if link.startswith("/docs/guides/")]
    assert sorted(listed) == sorted(one.address for one in GUIDES.values())
    assert [one for one in page.ids if one.startswith("guides-")] == [f"guides-{name}" for name, _, _ in module.by_folder(GUIDES)]
    assert "/docs/guides" in (await loaded(lonely_client, "/docs")).linked()


async def test_a_guide_that_does_not_exist_is_not_found(lonely_client: Client) -> None:
    # The list of all guides is for readers of the repository.
    for name in ("nothing", "..%2F..%2Fsettings", "README", "README.md", "proxies%2Fcaddy"):
        assert (await lonely_client.get(f"/docs/guides/{name}")).status == 404


def test_a_package_has_its_guides_beside_it_or_shows_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPOSITORY", tmp_path)
    monkeypatch.setattr(module, "INSTALLED", (tmp_path / "none", tmp_path / "share"))
    assert guides() == {}
    (tmp_path / "share" / "guides" / "apis").mkdir(parents=True)
    (tmp_path / "share" / "guides" / "apis" / "README.md").write_text("# Of *APIs*\n\nSee [this](../gone.md).\n")
    assert [(one.address, one.title, one.content) for one in guides().values()] == [("/docs/guides/apis", "Of APIs", "<p>See this.</p>")]


async def test_without_guides_nothing_leads_to_them(lonely_postern: Postern, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documentation, "guides", dict)
    # A version that no other test asks for, since applications share equal descriptions.
    client = Client(build_application(lonely_postern, replace(SETTINGS, version="bare")))
    for path in ("/docs", "/docs/teams", "/docs/services"):
        assert not [link for link in (await loaded(client, path)).linked() if "guides" in link]
    assert (await client.get("/docs/guides")).status == 404


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a < b & `<c>` **d *e*** ", "<p>a &lt; b &amp; <code>&lt;c&gt;</code> <b>d <i>e</i></b> </p>"),
        ("[x](javascript:y) <script>z</script>", "<p>x &lt;script&gt;z&lt;/script&gt;</p>"),
        (
            '[a"b](here) <https://example.com/?a&b>',
            '<p><a href="/here">a&#34;b</a> <a href="https://example.com/?a&amp;b">https://example.com/?a&amp;b</a></p>',
        ),
        ("- a\n  b\n- c", "<ul>\n<li>a\nb</li>\n<li>c</li>\n</ul>"),
        (
            "3. a\n\n   ```sh\n   x  <y\n   ```\nb",
            '<ol start="3">\n<li><p>a</p>\n<div><pre class="example" tabindex="0"><code>x  &lt;y</code></pre></div></li>\n</ol>\n<p>b</p>',
        ),
        ("## A `b`, c\nd", '<h2 id="a-b-c">A <code>b</code>, c</h2>\n<p>d</p>'),
        (
            "| a | b |\n|---|---|\n| `x|y` | z\\|z |",
            f'<div class="wide" tabindex="0"><table>{HEAD}<tbody><tr><td><code>x|y</code></td><td>z|z</td></tr></tbody></table></div>',
        ),
    ],
)
def test_markdown_becomes_html_and_text_is_escaped(text: str, shown: str) -> None:
    assert in_html(text, lambda target: "/here" if target == "here" else "") == shown
