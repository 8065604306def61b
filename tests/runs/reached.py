"""`--reached`: which cases of the tests run which functions of the product, and which branches of `core`.

Each function of the product gets one more line at its beginning, as its module is imported: it puts the function's number into a set. So
what counts is a function that ran, not a module that was imported. In `core` each branch gets such a line, too: the branches are those that
`measured` counts. Processes that tests start are not seen.

A run writes two things. `tests/reached` is the map for `make near`: text, a file for each family of the product, with each function and the
files of tests that ran it. What more than forty files reach says nothing of a change, and has its name alone: `ops/near.py` has the tests
that always run. The other is what `tests/runs/choosing.py` chooses from: what each case reached, as a set of bits
(`tests/runs/recorded.py`).

What a fixture of a module or of a session runs counts for each case of that worker that uses the fixture, and what a cache without
arguments runs counts for each case of the file that asked first. Otherwise all of it would be the first case's.
"""

import ast
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
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
from tests.runs.packages import ENDED, digest_of, is_narrowed
from tests.runs.recorded import BRANCH, OF_CHOSEN, RECORDED, OfCase, OfWorker, Recording, bits, those

# A test of this module gives its runs another folder.
FOLDER: Final = Path(os.environ.get("TESTS_REACHED", ROOT / "tests" / "reached"))
MOST_FILES: Final = 40
_LAYERS: Final = ("core", "ports", "adapters", "actors", "entrypoints")
_FAMILIES: Final = ("platform", "federation", "services", "tenancy", "identity", "record")
_BRANCHES_OF: Final = "core"
MARK: Final = "__reached_by_tests__"
"""The name in a module of the product of what its marks call."""
_CACHED: Final = "__cached_by_tests__"
_CACHES: Final = {"cache", "lru_cache"}
_SAID: Final = "reached"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reached", action="store_true", help=f"write which tests run which function to tests/reached, and by case to {RECORDED.name}"
    )


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Before anything has imported the product, and after `measured`, whose marks are added to these.
    given = early_config.known_args_namespace
    if given.reached:
        early_config.pluginmanager.register(_Reaching(runs_tests=not given.numprocesses or "PYTEST_XDIST_WORKER" in os.environ))


def family_of(module: str) -> str:
    """The file of the map that has this module: its family, or its layer where it belongs to the foundation."""
    return next((family for family in _FAMILIES if f"/{family}/" in module or module.endswith(f"/{family}.py")), module.partition("/")[0])


def all_functions() -> set[str]:
    """Every function of the product, as `module:qualified name`."""
    numbers: dict[str, int] = {}
    for layer in _LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            _Marked(path.relative_to(ROOT).as_posix(), numbers).visit(ast.parse(path.read_text(encoding="utf-8")))
    return {*numbers}


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
        first = node.body[0]
        at = 1 if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str) else 0
        node.body.insert(at, _mark(self._numbers, f"{self._module}:{name}", node.body[min(at, len(node.body) - 1)]))
        if _is_cache_without_arguments(node):
            node.decorator_list.append(ast.fix_missing_locations(ast.copy_location(ast.Name(_CACHED, ast.Load()), node.decorator_list[-1])))
        return node


class _MarkedBranches(ast.NodeTransformer):
    """Gives each branch its line, behind SlipCover's own: so the two count the same branches, and every branch has a place."""

    def __init__(self, module: str, numbers: dict[str, int]) -> None:
        self._module, self._numbers = module, numbers

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._marked(node, (node.body, node.orelse))

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._marked(node, (node.body, node.orelse))

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._marked(node, (node.body, node.orelse))

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        return self._marked(node, (node.body, node.orelse))

    def visit_Match(self, node: ast.Match) -> ast.AST:
        return self._marked(node, [case.body for case in node.cases])

    def _marked(self, node: ast.stmt, blocks: Sequence[list[ast.stmt]]) -> ast.AST:
        self.generic_visit(node)
        for number, block in enumerate(blocks):
            block.insert(1, _mark(self._numbers, f"{self._module}:{node.lineno}{BRANCH}{number}", node))
        return node


def _mark(numbers: dict[str, int], name: str, place: ast.stmt) -> ast.stmt:
    number = numbers.setdefault(name, len(numbers))
    call = ast.Expr(ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(number)], []))
    marked = ast.copy_location(call, place)
    # A whole statement has lines that its mark does not have.
    marked.end_lineno, marked.end_col_offset = marked.lineno, marked.col_offset
    return ast.fix_missing_locations(marked)


def _is_cache_without_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """One with arguments runs again for each new value: what it runs belongs to the case that has the value."""
    given = node.args
    if given.args or given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg:
        return False
    called = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return any(isinstance(one, ast.Name) and one.id in _CACHES for one in called)


class _Loader(SourceFileLoader):
    """`measured` counts lines and branches in the same run, by marks of its own."""

    def __init__(self, loader: SourceFileLoader, reaching: "_Reaching", measured: Slipcover | None) -> None:
        super().__init__(loader.name, loader.path)
        self._reaching, self._measured = reaching, measured

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - the loader has one module
        # Never from a file of bytecode, which has no marks, nor into one.
        module, numbers = Path(self.path).relative_to(ROOT).as_posix(), self._reaching.numbers
        marked = _Marked(module, numbers).visit(ast.parse(self.get_data(self.path)))
        has_branches = module.startswith(f"{_BRANCHES_OF}/")
        if has_branches or self._measured is not None:
            marked = preinstrument(marked)
        if has_branches:
            marked = _MarkedBranches(module, numbers).visit(marked)
        code: CodeType = compile(marked, self.path, "exec", dont_inherit=True)
        return code if self._measured is None else self._measured.instrument(code)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[MARK] = self._reaching.reach
        vars(module)[_CACHED] = self._reaching.cached
        if self._measured is not None:
            self._measured.register_module(module)
        super().exec_module(module)


class _Reaching(MetaPathFinder):
    """Each worker sends what its cases reached, and the controller writes it. Without workers one process is both."""

    def __init__(self, *, runs_tests: bool) -> None:
        self.numbers: dict[str, int] = {}
        self._now: set[int] = set()
        self.reach = self._now.add
        self._file = ""
        self._own: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        # By fixture, and by file of tests: what was run once for several cases.
        self._by_fixture: dict[int, tuple[set[int], float]] = {}
        self._fixtures_of: dict[str, Sequence[int]] = {}
        self._by_file: dict[str, set[int]] = defaultdict(set)
        self._cached_by_file: dict[str, set[int]] = defaultdict(set)
        self._seconds_by_file: dict[str, float] = defaultdict(float)
        self._aside_of_case = 0.0
        self._passed: set[str] = set()
        self._others: set[str] = set()
        self._digests: dict[str, str] = {}
        self._workers: list[OfWorker] = []
        if runs_tests:
            sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in _LAYERS:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next((found for one in others if (found := one.find_spec(fullname, path, target)) is not None), None)
        if spec is not None and isinstance(spec.loader, SlipcoverLoader):
            spec.loader = _Loader(spec.loader.orig_loader, self, spec.loader.sci)
        elif spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader, self, None)
        return spec

    def cached(self, function: Callable[[], object]) -> Callable[[], object]:
        @wraps(function)
        def run() -> object:
            with self._aside() as reached:
                result = function()
            self._cached_by_file[self._file] |= reached
            return result

        return run

    @contextmanager
    def _aside(self) -> Iterator[set[int]]:
        """What is reached meanwhile is not the case's own."""
        before, reached = set(self._now), set[int]()
        self._now.clear()
        try:
            yield reached
        finally:
            reached |= self._now
            self._now.clear()
            self._now |= before

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        began, others = time.perf_counter(), self._aside_of_case
        with self._aside() as reached:
            result = yield
        # Less what a fixture took that this one has asked for.
        spent = time.perf_counter() - began - (self._aside_of_case - others)
        before, seconds = self._by_fixture.get(id(fixturedef), (set[int](), 0.0))
        # A session's fixture costs the run once, whoever uses it first.
        self._by_fixture[id(fixturedef)] = before | reached, max(seconds, 0.0 if fixturedef.scope == "session" else spent)
        self._by_file[self._file] |= reached
        self._seconds_by_file[self._file] += spent
        self._aside_of_case += spent
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        used: Mapping[str, Any] = item._request._fixture_defs if isinstance(item, pytest.Function) else {}
        self._fixtures_of[item.nodeid] = [id(one) for one in used.values() if one.scope != "function"]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            self._now.clear()
            self._file = file
            self._digests[file] = digest_of([file])
        began, self._aside_of_case = time.perf_counter(), 0.0
        ended = yield
        self._seconds[item.nodeid] = time.perf_counter() - began - self._aside_of_case
        self._own[item.nodeid] = bits(self._now)
        self._by_file[file] |= self._now
        self._now.clear()
        return ended

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif not report.passed:
            self._others.add(report.nodeid)

    def _of_worker(self) -> OfWorker:
        return OfWorker(
            names=list(self.numbers),
            cases={case: self._of_case(case) for case in self._own},
            files={file: bits(reached | self._cached_by_file[file]) for file, reached in self._by_file.items()},
            seconds=self._seconds_by_file,
            digests=self._digests,
        )

    def _of_case(self, case: str) -> OfCase:
        fixtures = [self._by_fixture[one] for one in self._fixtures_of.get(case, ()) if one in self._by_fixture]
        shared = self._cached_by_file[case.partition("::")[0]].union(*(reached for reached, _ in fixtures))
        return OfCase(
            seconds=self._seconds[case],
            price=self._seconds[case] + sum(seconds for _, seconds in fixtures),
            passed=case in self._passed - self._others,
            reached=self._own[case] | bits(shared),
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if said := getattr(node, "workeroutput", {}).get(_SAID):
            self._workers.append(OfWorker.read(said))

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        ended = yield
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_SAID] = self._of_worker().written()
        elif session.exitstatus in ENDED:
            self._write(session)
        return ended

    def _write(self, session: pytest.Session) -> None:
        workers = self._workers or [self._of_worker()]
        by_file: dict[str, set[str]] = defaultdict(set)
        for worker in workers:
            for file, reached in worker.files.items():
                by_file[file] |= {name for name in those(worker.names, reached) if BRANCH not in name}
        given = session.config.option
        whole = given.packages == "all" and not is_narrowed(session.config)
        recording = Recording(workers=workers, whole=whole, green=session.exitstatus == pytest.ExitCode.OK)
        if given.chosen:
            # A part says nothing of the whole.
            recording.write(OF_CHOSEN)
            return
        recording.write(RECORDED)
        FOLDER.mkdir(exist_ok=True)
        for family, text in written(by_file).items():
            (FOLDER / f"{family}.txt").write_text(text)
