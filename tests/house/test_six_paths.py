"""Six paths through the product stand step by step in the docstring of the function where each begins. The functions that the steps name
exist, and a step is called by the first function or by another step.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from tests.places import ROOT

PRODUCT: Final = ("core", "ports", "adapters", "actors", "entrypoints")
# By path: the file and the function where it begins.
PATHS: Final[Mapping[str, tuple[str, str]]] = {
    "sign-in by password": ("core/usecases/identity/sign_in/landings.py", "SignIn.with_password"),
    "code to tokens": ("entrypoints/http/routes/federation/grants.py", "_exchange"),
    "refresh": ("core/usecases/identity/sessions.py", "Sessions.refresh"),
    "SCIM change": ("core/usecases/federation/scim/users.py", "ScimUsers.patch"),
    "hook": ("core/usecases/tenancy/hook_asking.py", "HookAsking.ask"),
    "provisioning run": ("core/usecases/federation/provisioning/keeping.py", "ProvisioningKeeping.run"),
}
FEWEST: Final = 8
MOST: Final = 12
STEP: Final = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
NAME: Final = re.compile(r"`((?:\w+\.)?\w+)`")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> dict[str, _Function]:
    """The functions of a module, and the methods of its classes as `Class.method`."""
    found: dict[str, _Function] = {}
    for node in tree.body:
        if isinstance(node, _Function):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found.update({f"{node.name}.{part.name}": part for part in node.body if isinstance(part, _Function)})
    return found


def used(function: _Function) -> set[str]:
    """The names that a function calls, or hands on to be called."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in nodes if isinstance(node, ast.Name)}


def steps(function: _Function) -> Sequence[str]:
    _, _, listed = (ast.get_docstring(function) or "").partition("\nSteps")
    numbered = STEP.findall(listed)
    assert [int(number) for number, _ in numbered] == list(range(1, len(numbered) + 1))
    return [text for _, text in numbered]


def lost(first: _Function, known: Mapping[str, Sequence[_Function]]) -> tuple[set[str], set[str]]:
    """Of the functions that the steps name: those that do not exist, and those that nothing on the path calls."""
    # A name in lower case without a class may also be a word of the API.
    named = {name for text in steps(first) for name in NAME.findall(text) if name in known or "." in name or name.islower()}
    missing = {name for name in named if name not in known}
    left, callers = named - missing, [first]
    while callers:
        calls = set[str]().union(*(used(one) for one in callers))
        reached = {name for name in left if name.rpartition(".")[2] in calls}
        left, callers = left - reached, [function for name in reached for function in known[name]]
    return missing, left


@pytest.fixture(scope="module")
def known() -> Mapping[str, Sequence[_Function]]:
    found: dict[str, list[_Function]] = {}
    for folder in PRODUCT:
        for file in (ROOT / folder).rglob("*.py"):
            for name, function in functions(ast.parse(file.read_text())).items():
                found.setdefault(name, []).append(function)
    return found


@pytest.mark.parametrize("path", PATHS)
def test_a_path_names_functions_that_exist_and_that_it_reaches(path: str, known: Mapping[str, Sequence[_Function]]) -> None:
    file, name = PATHS[path]
    first = functions(ast.parse((ROOT / file).read_text()))[name]
    assert FEWEST <= len(steps(first)) <= MOST
    assert all(NAME.search(text) for text in steps(first))
    assert lost(first, known) == (set(), set())


def test_a_step_that_is_gone_or_that_nothing_calls_is_found() -> None:
    text = (
        'class A:\n    def first(self):\n        """Begins.\n\n        Steps:\n        1. `A.second`, then `third`.\n'
        '        2. `A.gone` and `A.aside`.\n        """\n        self.second()\n\n'
        "    def second(self):\n        third()\n\n    def aside(self): ...\n\n\ndef third(): ...\n"
    )
    found = functions(ast.parse(text))
    assert lost(found["A.first"], {name: [function] for name, function in found.items()}) == ({"A.gone"}, {"A.aside"})
