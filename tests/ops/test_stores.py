"""Stores may be asked outside a unit of work for what their docstrings name, and for nothing else."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.places import ROOT

_OUTSIDE: Final = re.compile(r"Outside a unit of work, ([^.]*)\.")
_NAME: Final = re.compile(r"`(\w+)`")


def _classes(*layers: str) -> Iterator[tuple[Path, ast.ClassDef]]:
    for layer in layers:
        for file in sorted((ROOT / layer).rglob("*.py")):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    yield file.relative_to(ROOT), node


def _methods(node: ast.ClassDef) -> set[str]:
    """Its own, and those of the Protocols that it extends."""
    bases = {base.value.id for base in node.bases if isinstance(base, ast.Subscript) and isinstance(base.value, ast.Name)}
    extended = {name for _, other in _classes("ports") if other.name in bases for name in _methods(other)}
    return extended | {part.name for part in node.body if isinstance(part, ast.AsyncFunctionDef)}


@cache
def _stores() -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """The stores of the unit of work: what each permits outside it, and all that it has."""
    units = [node for _, node in _classes("ports") if node.name in {"AskedStores", "UnitOfWork"}]
    names = {ast.unparse(part.annotation) for unit in units for part in unit.body if isinstance(part, ast.AnnAssign)}
    stores = {}
    for _, node in _classes("ports"):
        if node.name in names:
            said = _OUTSIDE.search(" ".join((ast.get_docstring(node) or "").split()))
            stores[node.name] = (frozenset(_NAME.findall(said[1]) if said else ()), frozenset(_methods(node)))
    return stores


def _fields(node: ast.ClassDef) -> Mapping[str, str]:
    """The attributes of a class that are stores, with the names of their Protocols."""
    fields = {}
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            fields[part.target.id] = ast.unparse(part.annotation)
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            given = {
                argument.arg: ast.unparse(argument.annotation)
                for argument in (*part.args.args, *part.args.kwonlyargs)
                if argument.annotation is not None
            }
            for line in ast.walk(part):
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Name) and line.value.id in given:
                    for target in line.targets:
                        if isinstance(target, ast.Attribute):
                            fields[target.attr] = given[line.value.id]
    return {name: kind for name, kind in fields.items() if kind in _stores()}


def _forbidden(node: ast.ClassDef) -> Iterator[str]:
    """The calls of a class on stores of its own that need a unit of work."""
    fields = _fields(node)
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Attribute):
            asked = call.func.value
            kind = fields.get(asked.attr) if ast.unparse(asked.value) == "self" else None
            if kind is not None and call.func.attr not in _stores()[kind][0]:
                yield f"{node.name} calls {kind}.{call.func.attr}"


def test_use_cases_ask_stores_of_their_own_only_for_what_needs_no_unit_of_work() -> None:
    found = [f"{file}: {call}" for file, node in _classes("core", "actors", "entrypoints") for call in _forbidden(node)]
    assert found == []


def test_a_call_that_needs_a_unit_of_work_is_found() -> None:
    wrong = "class Wrong:\n    kept: DeviceStore\n    async def rename(self) -> None:\n        await self.kept.rename()\n"
    (node,) = ast.parse(wrong).body
    assert isinstance(node, ast.ClassDef)
    assert list(_forbidden(node)) == ["Wrong calls DeviceStore.rename"]


def test_each_method_that_a_docstring_permits_exists() -> None:
    assert {name: sorted(permitted - own) for name, (permitted, own) in _stores().items() if permitted - own} == {}
    assert sum(1 for permitted, _ in _stores().values() if permitted) > 0


def test_no_method_repeats_the_docstring_of_the_port_that_it_implements() -> None:
    said = {(name, told) for _, node in _classes("ports") for name, told in _told(node)}
    repeated = [
        f"{file}: {node.name}.{name}" for file, node in _classes("adapters", "actors") for name, told in _told(node) if (name, told) in said
    ]
    assert repeated == []


def _told(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The docstrings of its methods, by name."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and (told := ast.get_docstring(part)):
            yield part.name, " ".join(told.split())
