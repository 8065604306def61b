"""The tests may use the tools, and no tool needs the tests: who measures or tries a guide walks `ops` alone."""

import ast
from collections.abc import Iterator

from ops.bench.report import ROOT


def _imported(program: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def test_no_tool_imports_the_tests() -> None:
    files = sorted((ROOT / "ops").rglob("*.py"))
    found = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        for name in _imported(file.read_text(encoding="utf-8"))
        if name.partition(".")[0] == "tests"
    ]
    assert len(files) > 100
    assert found == []
