"""`--coverage` fails a run whose tests miss a line of `core`, and names the line."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.places import ROOT
from tests.runs.measured import Measuring


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Another run of pytest. It must not take itself for a worker of the run that this test belongs to."""
    command = [sys.executable, "-m", "pytest", "-q", *options, "tests/domain/test_email.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_run_that_misses_a_line_fails_and_names_it() -> None:
    # Once in a single process, and once in a worker.
    for workers in ("0", "1"):
        done = run("-n", workers, "--coverage")
        assert done.returncode == 1, done.stdout + done.stderr
        assert " passed" in done.stdout
        missed = dict(re.findall(r"^(core/\S+): (.+)$", done.stdout, re.MULTILINE))
        assert "core/domain/email.py" not in missed
        assert "-> " in missed["core/domain/rate_limits.py"]
        assert re.search(r"^Of the \d+ lines and branches of core, tests reach all but \d+\.$", done.stdout, re.MULTILINE)


def test_a_run_that_does_not_measure_says_nothing_of_it() -> None:
    done = run("-n", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lines and branches" not in done.stdout


@pytest.mark.parametrize("file", ["core/domain/email.py", "core/usecases/tenancy/setup/setup_links.py"])
@pytest.mark.parametrize(("lines", "branches"), [([], []), ([168], []), ([], [[167, 168]])])
def test_one_line_or_branch_of_any_file_is_too_much_to_miss(file: str, lines: list[int], branches: list[list[int]]) -> None:
    measuring = Measuring(runs_tests=False)
    measuring._of_workers = [{"files": {file: {"missing_lines": lines, "missing_branches": branches}}}]
    session: Any = SimpleNamespace(config=SimpleNamespace(), exitstatus=pytest.ExitCode.OK)
    measuring.pytest_sessionfinish(session)
    assert session.exitstatus == (pytest.ExitCode.TESTS_FAILED if lines or branches else pytest.ExitCode.OK)
