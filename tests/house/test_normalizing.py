"""One function normalizes texts, with a bound: `core/domain/normal_forms.py`."""

import ast
from collections.abc import Iterator
from typing import Final

from tests.places import ROOT

_LAYERS: Final = ("core", "ports", "adapters", "actors", "entrypoints")
_ITS_PLACE: Final = "core/domain/normal_forms.py"
_NORMALIZES: Final = {"normalize", "is_normalized", "ucd_3_2_0"}


def uses(text: str) -> Iterator[int]:
    """The lines that reach for a normalizing function, by whatever name the module was imported."""
    tree = ast.parse(text)
    modules = {
        one.asname or one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for one in node.names
        if one.name in {"unicodedata", "stringprep"}
    }
    for node in ast.walk(tree):
        if (isinstance(node, ast.ImportFrom) and node.module == "unicodedata" and _NORMALIZES & {one.name for one in node.names}) or (
            isinstance(node, ast.Attribute) and node.attr in _NORMALIZES and isinstance(node.value, ast.Name) and node.value.id in modules
        ):
            yield node.lineno


def test_only_one_module_normalizes_texts() -> None:
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for layer in _LAYERS
        for file in sorted((ROOT / layer).rglob("*.py"))
        if str(file.relative_to(ROOT)) != _ITS_PLACE
        for line in uses(file.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_the_rule_sees_each_way_to_normalize() -> None:
    assert [*uses("import unicodedata\nunicodedata.normalize('NFC', text)")] == [2]
    assert [*uses("import unicodedata as u\nu.normalize('NFC', text)")] == [2]
    assert [*uses("from unicodedata import normalize as plain")] == [1]
    assert [*uses("import unicodedata\nunicodedata.ucd_3_2_0.normalize('NFKC', text)")] == [2]
    assert [*uses("import unicodedata\nunicodedata.category('a')")] == []
