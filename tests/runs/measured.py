"""`--coverage`: which lines and branches of `core` the tests reach. A run that misses one of them fails.

The modules of `core` get marks in their bytecode as they are imported. Other tools trace the program on Python 3.11, which makes all of
Python half as slow again, also code that is not measured.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

import pytest
import slipcover
from slipcover.importer import SlipcoverLoader

PACKAGE: Final = "core"
_NO_CODE: Final = ["if TYPE_CHECKING:", r"\.\.\.$", r"class .*\(Protocol\):", "assert_never"]
# Marks that were reached stay: to remove a mark would exchange the code of a function while the function runs.
_NEVER: Final = -1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--coverage", action="store_true", help=f"fail unless all lines and branches of {PACKAGE} are reached")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # This runs before anything has imported the package.
    given = early_config.known_args_namespace
    if given.coverage:
        runs_tests = not given.numprocesses or "PYTEST_XDIST_WORKER" in os.environ
        early_config.pluginmanager.register(Measuring(runs_tests=runs_tests))


class _Marking(MetaPathFinder):
    """Finds the package's modules where Python finds them, and adds marks to their code."""

    def __init__(self, measured: slipcover.Slipcover) -> None:
        self._measured = measured

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None and spec.origin is not None:
            spec.loader = SlipcoverLoader(self._measured, spec.loader, spec.origin)
        return spec


class Measuring:
    """Each worker sends the lines that its tests reached, and the controller adds these up. Without workers one process is both."""

    def __init__(self, *, runs_tests: bool) -> None:
        self._measured = slipcover.Slipcover(branch=True, source=[PACKAGE], d_miss_threshold=_NEVER, exclude_also=_NO_CODE)
        if runs_tests:
            sys.meta_path.insert(0, _Marking(self._measured))
        self._of_workers: list[Any] = []
        self._all: Any = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # A worker that crashed has sent nothing.
        if said := getattr(node, "workeroutput", {}).get(PACKAGE):
            self._of_workers.append(json.loads(said))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[PACKAGE] = json.dumps(self._measured.get_coverage())
            return
        self._all, *others = self._of_workers or [self._measured.get_coverage()]
        for other in others:
            slipcover.merge_coverage(self._all, other)
        if self._missed() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        missed, summary = self._missed(), self._all["summary"]
        for file, of_file in missed.items():
            terminalreporter.write_line(f"{file}: {', '.join(of_file)}", red=True)
        count = sum(map(len, missed.values()))
        counted = count + summary["covered_lines"] + summary["covered_branches"]
        terminalreporter.write_line(f"Of the {counted} lines and branches of {PACKAGE}, tests reach all but {count}.")

    def _missed(self) -> Mapping[str, Sequence[str]]:
        """For each file with missed lines or branches: the numbers of the lines, and of both ends of each branch."""
        missed = {
            file: [*map(str, found["missing_lines"]), *("{} -> {}".format(*branch) for branch in found["missing_branches"])]
            for file, found in sorted(self._all["files"].items())
        }
        return {file: of_file for file, of_file in missed.items() if of_file}
