"""The page about the OpenID Foundation's test plans names only tests that exist."""

import ast
import re

from tests.places import ROOT

PAGE = ROOT / "docs" / "openid-certification.md"


def named() -> set[tuple[str, str]]:
    return set(re.findall(r"`(tests/[a-z_/]+\.py)::(test_[a-z_]+)`", PAGE.read_text()))


def test_each_test_that_the_page_names_exists() -> None:
    assert len(named()) > 30
    for path, name in sorted(named()):
        functions = {
            node.name for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, f"{path}::{name}"


def test_each_case_is_shown_or_has_a_reason() -> None:
    cases = [line for line in PAGE.read_text().splitlines() if line.startswith("| `oidcc-")]
    assert len(cases) > 60
    for case in cases:
        _, _, shown = case.partition(" | ")
        assert "`tests/" in shown or "not offered" in shown or "skipped" in shown, case
