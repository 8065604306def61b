"""`--coverage` names each line of `core` that the tests of a run miss, and fails a run that misses more than luck can."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.places import ROOT
from tests.runs.measured import LEFT_TO_LUCK, Measuring


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Another run of pytest. It must not take itself for a worker of the run that this test belongs to."""
    command = [sys.executable, "-m", "pytest", "-q", *options, "tests/domain/test_causes.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_run_that_misses_many_lines_fails_and_names_them_at_its_end() -> None:
    # Once in a single process, and once in a worker.
    for workers in ("0", "1"):
        done = run("-n", workers, "--coverage")
        assert done.returncode == 1, done.stdout + done.stderr
        assert " passed" in done.stdout
        missed = dict(re.findall(r"^(core/\S+): (.+)$", done.stdout, re.MULTILINE))
        assert "core/domain/causes.py" not in missed
        assert "-> " in missed["core/domain/rate_limits.py"]
        *_, last = done.stdout.splitlines()
        assert re.fullmatch(r"Of the \d+ lines and branches of core, tests reach all but \d+ \(luck: 20\)\.", last)


def test_a_run_that_does_not_measure_says_nothing_of_it() -> None:
    done = run("-n", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lines and branches" not in done.stdout


LUCKY = list(range(LEFT_TO_LUCK))


def measured(*missed: tuple[str, list[int], list[list[int]]]) -> Measuring:
    measuring = Measuring(runs_tests=False)
    found = {file: {"missing_lines": lines, "missing_branches": branches} for file, lines, branches in missed}
    summary = {"covered_lines": 100, "covered_branches": 50}
    measuring._of_workers = [{"files": found, "summary": summary}]
    return measuring


@pytest.mark.parametrize(
    ("missed", "status"),
    [
        ([], pytest.ExitCode.OK),
        ([("core/a.py", LUCKY, [])], pytest.ExitCode.OK),
        ([("core/a.py", LUCKY, [[1, 2]])], pytest.ExitCode.TESTS_FAILED),
        ([("core/a.py", LUCKY, []), ("core/b.py", [1], [])], pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_lines_and_branches_of_all_files_count(missed: list[tuple[str, list[int], list[list[int]]]], status: pytest.ExitCode) -> None:
    session: Any = SimpleNamespace(config=SimpleNamespace(), exitstatus=pytest.ExitCode.OK)
    measured(*missed).pytest_sessionfinish(session)
    assert session.exitstatus == status


def test_a_worker_that_sent_nothing_is_named() -> None:
    written: list[str] = []
    reporter = SimpleNamespace(write_line=lambda line, **_: written.append(line))
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda _: reporter))
    measuring = measured(("core/a.py", [3], [[2, 3]]))
    measuring.pytest_testnodedown(SimpleNamespace(gateway=SimpleNamespace(id="gw4")))
    measuring.pytest_sessionfinish(SimpleNamespace(config=config, exitstatus=pytest.ExitCode.OK))  # type: ignore[arg-type]
    measuring.pytest_unconfigure(config)
    assert written == [
        "gw4 crashed, and has not sent what it reached.",
        "core/a.py: 3, 2 -> 3",
        "Of the 152 lines and branches of core, tests reach all but 2 (luck: 20).",
    ]
