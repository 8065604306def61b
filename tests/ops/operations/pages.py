"""The runbook: an index, and the pages below it."""

import re
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from tests.places import ROOT

INDEX: Final = ROOT / "docs" / "operations.md"
PAGES: Final = sorted((ROOT / "docs" / "operations").glob("*.md"))
WHOLE: Final = (INDEX, *PAGES)
RUNBOOK: Final = "\n".join(page.read_text() for page in WHOLE)
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> AbstractSet[str]:
    """The anchors that GitHub and the site make of the headings of a page."""
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)}


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
