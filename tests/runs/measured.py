"""`--coverage`: which lines and branches of `core` the tests reach. A run that misses more of them than luck can miss fails.

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
_NO_CODE: Final = ["if TYPE_CHECKING:", r"\.\.\.$", r"class .*\(Protocol[)\[]", "assert_never"]
# Marks that were reached stay: to remove a mark would exchange the code of a function while the function runs.
_NEVER: Final = -1
# Some lines need two requests that meet, and no two runs meet alike. A run says which it missed, and fails with more than these.
LEFT_TO_LUCK: Final = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--coverage", action="store_true", help=f"name what is missed of {PACKAGE}, and fail with more than {LEFT_TO_LUCK}")


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
        self._silent: list[str] = []
        self._all: Any = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if said := getattr(node, "workeroutput", {}).get(PACKAGE):
            self._of_workers.append(json.loads(said))
        else:
            self._silent.append(node.gateway.id)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[PACKAGE] = json.dumps(self._measured.get_coverage())
            return
        self._all, *others = self._of_workers or [self._measured.get_coverage()]
        for other in others:
            slipcover.merge_coverage(self._all, other)
        count = sum(map(len, self._missed().values()))
        if count > LEFT_TO_LUCK and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        # These are the last lines of a run, because whoever reads the end of a log must see why the run failed.
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or self._all is None or hasattr(config, "workeroutput"):
            return
        missed, summary = self._missed(), self._all["summary"]
        for worker in self._silent:
            reporter.write_line(f"{worker} crashed, and has not sent what it reached.", red=True)
        for file, of_file in missed.items():
            reporter.write_line(f"{file}: {', '.join(of_file)}", red=True)
        count = sum(map(len, missed.values()))
        counted = count + summary["covered_lines"] + summary["covered_branches"]
        reporter.write_line(f"Of the {counted} lines and branches of {PACKAGE}, tests reach all but {count} (luck: {LEFT_TO_LUCK}).")

    def _missed(self) -> Mapping[str, Sequence[str]]:
        """For each file with missed lines or branches: the numbers of the lines, and of both ends of each branch."""
        missed = {
            file: [*map(str, found["missing_lines"]), *("{} -> {}".format(*branch) for branch in found["missing_branches"])]
            for file, found in sorted(self._all["files"].items())
        }
        return {file: of_file for file, of_file in missed.items() if of_file}
