"""A measurement stays as long as somebody reads its figures: a document names each case of `ops.bench` and each drill."""

import re
from typing import Final

from ops.bench.cases import CASES
from ops.bench.report import ROOT
from ops.drill.__main__ import DRILLS

_DOCUMENTS: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_COMMAND: Final = re.compile(r"\bops\.(bench|drill)((?:[ \n]+[\w-]+)*)`")


def _named(tool: str) -> set[str]:
    commands = (found for document in _DOCUMENTS for found in _COMMAND.findall(document.read_text(encoding="utf-8")))
    return {word for of, words in commands if of == tool for word in words.split()}


def test_a_document_names_each_case() -> None:
    assert set(CASES) - _named("bench") == set()


def test_a_document_names_each_drill() -> None:
    assert set(DRILLS) - _named("drill") == set()
