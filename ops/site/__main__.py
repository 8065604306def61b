"""Builds the documents as a site: `python -m ops.site [FOLDER]`, or `make site`. The folder is dist/site if none is named. Other versions
that the folder has stay there, so the site is that of all of them.

Sphinx gets a folder with the layout of the repository, so that the links between documents and to files stay as they are on the disk.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from ops.release.version import current_version
from ops.site.decisions import pages_of_today, summed_by, summed_up
from ops.site.versions import lay_out, minor
from ops.starts.guides import TESTED, UNTESTED

ROOT: Final = Path(__file__).resolve().parent.parent.parent
HERE: Final = Path(__file__).parent
INSTALLED: Final = ROOT / ".venv" / "site"
DECISIONS: Final = ROOT / "docs" / "decisions"
# The pages, and what pages link to.
_FILES: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
_FOLDERS: Final = ("docs", "core", "ports", "adapters", "actors", "entrypoints", "tests", "ops")
# The index: a caption, and the pages or folders below it, in this order.
_INDEX: Final = {
    "Start": (
        "README",
        "docs/guides/start/*",
        "docs/comparison",
        "docs/console",
        "docs/guides/first-sign-in",
        "docs/guides/first-organization",
        "docs/guides/protect-your-app",
    ),
    "Guides": ("docs/guides/*", "docs/guides/looks/*"),
    "Applications": (
        "docs/guides/applications/*",
        "docs/guides/apis/*",
        "docs/guides/proxies/*",
        "docs/guides/workloads/*",
        "docs/guides/programs/*",
    ),
    "Directories": ("docs/guides/directories/*",),
    "Run it": (
        "docs/operations",
        "docs/operations/install",
        "docs/operations/*",
        "docs/settings",
        "docs/metrics",
        "docs/guides/running/*",
        "CHANGELOG",
        "SECURITY",
    ),
    "Background": ("docs/architecture", "docs/security", "docs/personal-data", "docs/*", "CONTRIBUTING"),
    "Decisions": ("docs/decisions/README", "docs/decisions/*-today", "docs/decisions/*", "docs/decisions/history/*"),
}


_FIRST: Final = """# Postern

Like Auth0 or WorkOS, on your own machine, free: sign-in for your applications, organizations with their people, directories,
and an audit log that nobody edits unnoticed. [What it is, and how to start](README.md).

## I have

<nav class="starts" aria-label="I have">
{cards}</nav>

Five minutes each: install, paste, run, see. Untested lines: [{others}](docs/guides/start/{untested}.md).

- [Protect an API](docs/guides/apis/guards.md) · [Bind tokens to a key](docs/guides/apis/bound-tokens.md) ·
  [MCP servers and agents](docs/guides/apis/mcp-servers.md) · [Program against the API](docs/guides/programs/clients.md)
- [Run it for others](docs/operations.md) · [Settings](docs/settings.md) · [Kubernetes](docs/guides/running/kubernetes.md)
- [Compared with Keycloak, Auth0, authentik and Zitadel](docs/comparison.md)

## All pages
"""
_OTHERS: Final = "Spring, Rails, Laravel, Go, ASP.NET, mobile"


def index() -> str:
    """The start page: what one has, and below it the menu, with each page once: under the first caption that fits. Decisions that a page of
    today sums up are in no menu. The start page leads to them by their numbers.
    """
    cards = "".join(f'<a href="docs/guides/start/{one.key}.html">{one.name}</a>\n' for one in TESTED)
    parts, listed = [_FIRST.format(cards=cards, others=_OTHERS, untested=UNTESTED)], {_name(page) for page in summed_up(DECISIONS)}
    for caption, names in _INDEX.items():
        found = [page for name in names for page in _pages(name) if page not in listed]
        listed.update(found)
        maxdepth = "" if caption == "Decisions" else ":titlesonly:\n"
        parts.append(f"```{{toctree}}\n:caption: {caption}\n:maxdepth: 1\n{maxdepth}\n" + "\n".join(dict.fromkeys(found)) + "\n```\n")
    return "\n".join([*parts, "Decisions that pages of today sum up:\n", *(f"- {_sum(page)}" for page in pages_of_today(DECISIONS)), ""])


def _sum(page: Path) -> str:
    """A page of today, and the numbers of the decisions that it sums up."""
    _, _, title = page.read_text().partition("\n")[0].partition(": ")
    numbers = " ".join(f"[{summed.name[:4]}]({_name(summed)}.md)" for summed in summed_by(page))
    return f"[{title}]({_name(page)}.md): {numbers}"


def _pages(name: str) -> list[str]:
    return sorted(_name(file) for file in ROOT.glob(f"{name}.md"))


def _name(file: Path) -> str:
    return file.relative_to(ROOT).with_suffix("").as_posix()


def build_site(folder: Path) -> None:
    """Builds this version among those that the folder has."""
    target = folder / minor(current_version(ROOT))
    shutil.rmtree(target, ignore_errors=True)
    build(target)
    lay_out(folder)


def build(target: Path) -> None:
    """The pages of one version. Raises `CalledProcessError` if a link leads nowhere."""
    with tempfile.TemporaryDirectory(prefix="postern-site-") as workshop:
        source = Path(workshop, "source")
        # Copies, because Sphinx follows a symbolic link to the place where the page is none of the site.
        for folder in _FOLDERS:
            shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for name in _FILES:
            shutil.copy(ROOT / name, source)
        (source / "index.md").write_text(index())
        for summed in summed_up(source / "docs" / "decisions"):
            # Sphinx warns of a page that no menu has, unless the page says that it means it.
            summed.write_text(f"---\norphan: true\n---\n\n{summed.read_text()}")
        command = [sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
        subprocess.run(
            [*command, "--conf-dir", HERE, "--doctree-dir", Path(workshop, "doctrees"), source, target],
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(INSTALLED), str(ROOT)))},
            check=True,
        )


def main() -> int:
    if not INSTALLED.exists():
        print("make site installs what this needs")
        return 1
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "site"
    build_site(target)
    print(target / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
