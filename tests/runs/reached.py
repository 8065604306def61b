"""`--reached`: which file of tests runs which function of the product, for `make near`. `make check-all` writes the map to `tests/reached`.

Each function of the product gets one more line at its beginning, as its module is imported: it puts the function's number into a set. So
what counts is a function that ran, not a module that was imported. Processes that tests start are not seen.

The map is text, a file for each family of the product: a function, and the files of tests that ran it. What more than forty files reach
says nothing of a change, and has its name alone: `ops/near.py` has the tests that always run.
"""

import ast
import json
import os
import sys
from collections import defaultdict
from collections.abc import Generator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import pytest
from slipcover import Slipcover
from slipcover.branch import preinstrument
from slipcover.importer import SlipcoverLoader

from tests.places import ROOT
from tests.runs.rooms import ENDED

# A test of this module gives its runs another folder.
FOLDER: Final = Path(os.environ.get("TESTS_REACHED", ROOT / "tests" / "reached"))
MOST_FILES: Final = 40
_FLOORS: Final = ("core", "ports", "adapters", "actors", "entrypoints")
_FAMILIES: Final = ("platform", "federation", "services", "tenancy", "identity", "record")
_MARK: Final = "__reached_by_tests__"
_SAID: Final = "reached"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reached", action="store_true", help="write which tests run which function to tests/reached")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Before anything has imported the product, and after `measured`, whose marks are added to these.
    given = early_config.known_args_namespace
    if given.reached:
        early_config.pluginmanager.register(_Reaching(runs_tests=not given.numprocesses or "PYTEST_XDIST_WORKER" in os.environ))


def family_of(module: str) -> str:
    """The file of the map that has this module: its family, or its floor where it belongs to the foundation."""
    return next((family for family in _FAMILIES if f"/{family}/" in module or module.endswith(f"/{family}.py")), module.partition("/")[0])


def written(reached: Mapping[str, set[str]]) -> Mapping[str, str]:
    """The texts of the map by family, from the functions that each file of tests reached, as `module:qualified name`."""
    by_function: dict[str, set[str]] = defaultdict(set)
    for test, functions in reached.items():
        for function in functions:
            by_function[function].add(test)
    lines: dict[str, list[str]] = defaultdict(list)
    before = ""
    for function in sorted(by_function):
        module, _, name = function.partition(":")
        of_family = lines[family_of(module)]
        if module != before:
            of_family.append(module)
            before = module
        tests = sorted(by_function[function])
        # A name alone says that it is known, and that all reach it.
        of_family.append(" ".join(["", name, *(tests if len(tests) <= MOST_FILES else [])]))
    return {family: "\n".join(of_family) + "\n" for family, of_family in lines.items()}


class _Marked(ast.NodeTransformer):
    """Gives each function its line, below its docstring."""

    def __init__(self, module: str, numbers: dict[str, int]) -> None:
        self._module, self._numbers = module, numbers
        self._within: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._marked(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._marked(node)

    def _marked(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        # A function within a function is a part of it.
        name = ".".join([*self._within, node.name])
        number = self._numbers.setdefault(f"{self._module}:{name}", len(self._numbers))
        first = node.body[0]
        at = 1 if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str) else 0
        call = ast.Expr(ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(number)], []))
        placed = ast.fix_missing_locations(ast.copy_location(call, node.body[min(at, len(node.body) - 1)]))
        node.body.insert(at, placed)
        return node


class _Loader(SourceFileLoader):
    """`measured` counts lines and branches in the same run, by marks of its own."""

    def __init__(self, loader: SourceFileLoader, reaching: "_Reaching", measured: Slipcover | None) -> None:
        super().__init__(loader.name, loader.path)
        self._reaching, self._measured = reaching, measured

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the loader has one module
        # Never from a file of bytecode, which has no marks, nor into one.
        marked = _Marked(Path(self.path).relative_to(ROOT).as_posix(), self._reaching.numbers).visit(ast.parse(self.get_data(self.path)))
        if self._measured is not None:
            marked = preinstrument(marked)
        code: CodeType = compile(marked, self.path, "exec", dont_inherit=True)
        return code if self._measured is None else self._measured.instrument(code)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[_MARK] = self._reaching.reach
        if self._measured is not None:
            self._measured.register_module(module)
        super().exec_module(module)


class _Reaching(MetaPathFinder):
    def __init__(self, *, runs_tests: bool) -> None:
        self.numbers: dict[str, int] = {}
        self._now: set[int] = set()
        self.reach = self._now.add
        self._file = ""
        self._by_file: dict[str, set[str]] = defaultdict(set)
        if runs_tests:
            sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in _FLOORS:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next((found for one in others if (found := one.find_spec(fullname, path, target)) is not None), None)
        if spec is not None and isinstance(spec.loader, SlipcoverLoader):
            spec.loader = _Loader(spec.loader.orig_loader, self, spec.loader.sci)
        elif spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader, self, None)
        return spec

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            self._now.clear()
            self._file = file
        ended = yield
        self._by_file[file] |= self._taken()
        return ended

    def _taken(self) -> set[str]:
        names = list(self.numbers)
        taken = {names[number] for number in list(self._now)}
        self._now.clear()
        return taken

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, functions in json.loads(getattr(node, "workeroutput", {}).get(_SAID, "{}")).items():
            self._by_file[file] |= set(functions)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        ended = yield
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_SAID] = json.dumps({file: sorted(functions) for file, functions in self._by_file.items()})
        elif session.exitstatus in ENDED:
            FOLDER.mkdir(exist_ok=True)
            for family, text in written(self._by_file).items():
                (FOLDER / f"{family}.txt").write_text(text)
        return ended
