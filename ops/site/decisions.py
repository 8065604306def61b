"""Which decisions the menu of the site lists: all but those that a page of today sums up."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LINKED: Final = re.compile(r"\]\((\d{4}-[^)#]+\.md)[)#]")


def pages_of_today(decisions: Path) -> Sequence[Path]:
    """Each says in one place what holds in its subject today, and sums up the decisions that it links to."""
    return sorted(decisions.glob("[0-9]*-today.md"))


def summed_by(page: Path) -> Sequence[Path]:
    return [page.with_name(name) for name in sorted({*_LINKED.findall(page.read_text())})]


def summed_up(decisions: Path) -> set[Path]:
    return {summed for page in pages_of_today(decisions) for summed in summed_by(page)}
