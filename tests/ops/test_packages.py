"""Packages by area: the foundation, at the root of each layer, imports no area; no folder holds too many files; no two public classes have
the same name.
"""

import ast
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import grimp
import pytest

from tests.places import ROOT

AREAS = {"record", "identity", "tenancy", "services", "federation", "platform"}
LAYERS = ("core/domain", "ports", "core/usecases", "adapters/postgres")
# The unit of work gives every area's repositories, as in `uow.accounts`, so it imports all areas.
KNOWS_AREAS = {"ports/unit_of_work.py", "adapters/postgres/unit_of_work.py"}
FULL: Final = 25
# The folders that may hold more files, each with the reason.
MAY_BE_FULLER: Final[Mapping[str, str]] = {
    "docs/decisions": "The list of decisions is append-only. People come by a link from the code or from architecture.md.",
}
PRODUCT: Final = ("core", "ports", "adapters", "actors", "entrypoints")


def imported(file: Path) -> set[str]:
    return {node.module for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom) and node.module}


def test_the_foundation_of_a_layer_knows_no_area_of_it() -> None:
    faults = []
    for layer in LAYERS:
        areas = {f"{layer.replace('/', '.')}.{area}" for area in AREAS}
        for file in (ROOT / layer).glob("*.py"):
            # A small area is one file.
            if file.stem in AREAS:
                continue
            known = sorted(module for module in imported(file) if any(f"{module}.".startswith(f"{area}.") for area in areas))
            if known and file.relative_to(ROOT).as_posix() not in KNOWS_AREAS:
                faults.append(f"{file} imports {', '.join(known)}")
    assert faults == []


def in_circles(imports: Mapping[str, Collection[str]]) -> list[str]:
    """The modules that import themselves by way of others, and those between such modules."""
    left = {module: set(known) for module, known in imports.items()}
    while ends := {module for module, known in left.items() if not known} | (left.keys() - set().union(*left.values())):
        left = {module: known - ends for module, known in left.items() if module not in ends}
    return sorted(left)


def test_no_file_of_the_product_imports_itself_by_way_of_others() -> None:
    """Files hold several nouns, so a circle comes easily. Imports for types alone are not counted. None stands, and none may come."""
    graph = grimp.build_graph(*PRODUCT, exclude_type_checking_imports=True, cache_dir=None)
    assert in_circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def test_a_circle_is_found() -> None:
    assert in_circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["b"], "e": []}) == ["b", "c"]
    assert in_circles({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def tracked(*under: str) -> list[Path]:
    """The files that git tracks, and the new files that the next commit would add."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("only git knows which files belong to the project")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *under]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(name) for name in listed if name and (ROOT / name).is_file()]


def test_no_folder_holds_more_files_than_a_reader_looks_over() -> None:
    counts = Counter(file.parent.as_posix() for file in tracked())
    full = {folder: count for folder, count in counts.items() if count > FULL}
    assert {folder: count for folder, count in full.items() if folder not in MAY_BE_FULLER} == {}
    assert MAY_BE_FULLER.keys() - full.keys() == set(), "these exceptions are not needed any more"


def defined_twice(*under: str) -> dict[str, list[str]]:
    """Names of public classes, each with the modules that define it."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in tracked(*under):
        if file.suffix == ".py":
            for node in ast.parse((ROOT / file).read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(file.as_posix())
    return {name: files for name, files in places.items() if len(files) > 1}


def test_a_public_class_name_means_one_thing_in_the_product() -> None:
    assert defined_twice(*PRODUCT) == {}


def test_a_class_name_means_one_thing_in_the_tests() -> None:
    assert defined_twice("tests") == {}
