"""The pages of the guides: the lines that a reader copies. A trial uses these lines and no others, so that a page cannot drift."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PAGES: Final = ROOT / "docs" / "guides" / "applications"
POSTERN: Final = "https://id.example.org"
"""The address of Postern in all guides."""

_SHELL: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCED: Final = re.compile(r"^```(?!sh$)\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The first line of a block for a file is a comment that names the file.
_NAME: Final = re.compile(r"(?:#|//|;|<!--) (\S+\.\w+)(?: -->)?\n")


class Page:
    def __init__(self, name: str, folder: Path = PAGES) -> None:
        self.name = name
        self.text = (folder / f"{name}.md").read_text()

    def shell(self) -> str:
        """What the reader pastes into a shell, to set Postern up."""
        return "\n".join(_SHELL.findall(self.text))

    def files(self) -> Mapping[str, str]:
        """What the reader writes into files of the product, by the files' names. Blocks of one file are joined."""
        found: dict[str, str] = {}
        for block in _FENCED.findall(self.text):
            if (named := _NAME.match(block)) is not None:
                found[named[1]] = found.get(named[1], "") + block
        return found


def pages() -> list[Page]:
    return [Page(path.stem) for path in sorted(PAGES.glob("*.md"))]
