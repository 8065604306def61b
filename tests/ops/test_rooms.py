"""Rooms by family: the foundation, at the root of each floor, knows no family, and no folder is too full to be surveyed."""

import ast
from collections import Counter
from pathlib import Path

from tests.places import ROOT

FAMILIES = {"record", "identity", "tenancy", "services", "federation", "platform"}
FLOORS = ("core/domain", "ports", "core/usecases", "adapters/postgres")
# It reads flat, as `uow.accounts`, and so it names what every family keeps in it.
KNOWS_FAMILIES = {"ports/unit_of_work.py", "adapters/postgres/unit_of_work.py"}
TOP = ("core", "ports", "adapters", "actors", "entrypoints", "tests", "ops")
FULL = 25


def imported(file: Path) -> set[str]:
    return {node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.module}


def test_the_foundation_of_a_floor_knows_no_family_of_it() -> None:
    faults = []
    for floor in FLOORS:
        families = tuple(f"{floor.replace('/', '.')}.{family}." for family in FAMILIES)
        for file in (ROOT / floor).glob("*.py"):
            known = sorted(module for module in imported(file) if module.startswith(families))
            if known and file.relative_to(ROOT).as_posix() not in KNOWS_FAMILIES:
                faults.append(f"{file} imports {', '.join(known)}")
    assert faults == []


def test_no_folder_holds_more_files_than_a_reader_looks_over() -> None:
    counts = Counter(file.parent for top in TOP for file in (ROOT / top).rglob("*.py"))
    assert {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > FULL} == {}
