"""What Sphinx reads: `python -m ops.site` starts it, over a folder that has the layout of the repository."""

import re
from pathlib import Path
from typing import Any

from ops.release.version import current_version
from ops.site.versions import minor

project = "Postern"
author = "Postern's authors"
release = current_version(Path(__file__).parents[2])
version = minor(release)
html_title = f"Postern {release}"
root_doc = "index"
language = "en"
extensions = ["myst_parser"]
include_patterns = ["index.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/**/*.md"]

myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]

# Blocks of HTTP and SQL have "…" where the reader fills something in.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_favicon = "../../entrypoints/http/pages/kit/postern.svg"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
# The chooser of versions, and what keeps old versions out of search engines.
templates_path = ["templates"]
html_static_path = ["static"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# The colours and the sign of the pages for people (pages.css).
html_logo = html_favicon
html_theme_options = {
    "source_repository": "",
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#0f5f5c", "color-brand-content": "#0f5f5c", "color-brand-visited": "#0f5f5c"},
    "dark_css_variables": {"color-brand-primary": "#6fcabf", "color-brand-content": "#6fcabf", "color-brand-visited": "#6fcabf"},
}

_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)\)")


def _without_links_to_folders(application: Any, document: str, source: list[str]) -> None:
    """A folder of the repository is no page of the site, but for the decisions."""
    here = Path(application.srcdir, document).parent

    def linked(found: re.Match[str]) -> str:
        target = here / found[2]
        if not target.is_dir():
            return found[0]
        if target.resolve().name == "decisions":
            return f"[{found[1]}]({found[2].rstrip('/')}/README.md)"
        return found[1]

    source[0] = _LINK.sub(linked, source[0])


def setup(application: Any) -> None:
    application.connect("source-read", _without_links_to_folders)
