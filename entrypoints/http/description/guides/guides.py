"""The guides of this version, as pages at `/docs/guides`: whoever runs or uses an installation need not look for them elsewhere. A package
has them beside it; without them there are no such pages, and no links to them.
"""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from core.frozen import Frozen
from entrypoints.beside import INSTALLED, REPOSITORY
from entrypoints.http.description.guides.markdown import in_html, name_of, plain

AT: Final = "/docs/guides"
FOLDERS: Final[Mapping[str, str]] = {
    "start": "Sign in with your framework",
    "": "Step by step",
    "applications": "Products as applications",
    "apis": "APIs, MCP servers and agents",
    "programs": "Programs that use Postern",
    "workloads": "Programs without a secret",
    "looks": "Looks and words",
    "directories": "Directories of customers",
    "proxies": "Applications behind a proxy",
    "running": "Run Postern",
}
"""The folders of `docs/guides`, in the order of the page, with the words for them."""


class Guide(Frozen):
    name: str
    """In its address."""
    folder: str
    title: str
    about: str
    """Its first sentence, in plain words."""
    content: Markup

    @property
    def address(self) -> str:
        return f"{AT}/{self.name}"


def guides() -> Mapping[str, Guide]:
    """All guides by their names."""
    folder = next((one for one in (REPOSITORY / "docs" / "guides", *(each / "guides" for each in INSTALLED)) if one.is_dir()), None)
    if folder is None:
        return {}
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md"))
    read = {path: (folder / path).read_text(encoding="utf-8") for path in paths}
    made = [_guide(path, text, read) for path, text in read.items()]
    return {one.name: one for one in sorted(made, key=lambda one: (list(FOLDERS).index(one.folder), one.title))}


def guide_name(path: str) -> str:
    """The name of the guide at a path below `docs/guides`."""
    return path.removesuffix(".md").removesuffix("/README").replace("/", "-")


def _guide(path: str, text: str, read: Mapping[str, str]) -> Guide:
    heading, _, content = text.partition("\n")
    title = plain(heading.removeprefix("# "))
    about = " ".join(plain(content.strip().partition("\n\n")[0]).split()).partition(". ")[0]
    folder = path.rpartition("/")[0]

    def linking(target: str) -> str:
        if target.startswith(("https://", "http://", "#")):
            return target
        file, _, anchor = target.partition("#")
        found = posixpath.normpath(posixpath.join(folder, file))
        return f"{AT}/{guide_name(found)}{f'#{anchor}' if anchor else ''}" if found in read else ""

    return Guide(guide_name(path), folder, title, about, in_html(content, linking))


def by_folder(all_guides: Mapping[str, Guide]) -> Sequence[tuple[str, str, Sequence[Guide]]]:
    """What the page of contents shows: a name, words, and the guides."""
    named = [(name_of(words), words, [one for one in all_guides.values() if one.folder == folder]) for folder, words in FOLDERS.items()]
    return [one for one in named if one[2]]
