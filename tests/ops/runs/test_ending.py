"""A run that is told to end leaves no process: not its PostgreSQL, and not what a test has started in a group of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.runs.ending import VARIABLE, end_all, processes_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which environment a process has")

# A case that waits for ever, for a process in a session of its own.
WAITS = """
import subprocess
import sys

SLEEPS = "import time; print(flush=True); time.sleep(3600)"


def pytest_runtest_call():
    started = subprocess.Popen([sys.executable, "-c", SLEEPS], start_new_session=True, stdout=subprocess.PIPE)
    started.stdout.readline()
    print("started", file=sys.__stderr__, flush=True)
    started.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_run_that_is_told_to_end_leaves_no_process(tmp_path: Path, workers: str) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    mark = f"of-{tmp_path.name}-{workers}"
    # A run of its own: with a PostgreSQL of its own, and not as a worker of this one.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_XDIST_", "POSTERN_TEST_"))}
    environment = {**inherited, "PYTHONPATH": str(tmp_path), "OF_THIS_TEST": mark}
    command = [sys.executable, "-m", "pytest", "-s", "-n", workers, "-p", "waits", "tests/domain/test_email.py"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0) as run:
        assert run.stdout is not None
        assert any(b"started" in line for line in run.stdout)
        assert any("postgres" in line for line in running(mark))
        os.killpg(run.pid, signal.SIGTERM)
        assert run.wait() == pytest.ExitCode.INTERRUPTED
    left = running(mark)
    for one in processes_of(mark, "OF_THIS_TEST"):
        os.kill(one, signal.SIGKILL)
    assert left == []


def running(mark: str) -> list[str]:
    """The commands of the processes that have the variable of this test."""
    return [(Path("/proc") / str(one) / "cmdline").read_text() for one in processes_of(mark, "OF_THIS_TEST")]


def test_only_processes_of_that_run_are_ended() -> None:
    sleeping = [sys.executable, "-c", "import time; print(flush=True); time.sleep(3600)"]
    environments = [{**os.environ, VARIABLE: mark} for mark in ("this", "this-other")]
    ours, others = (subprocess.Popen(sleeping, env=one, stdout=subprocess.PIPE) for one in environments)
    with ours, others:
        for one in (ours, others):
            assert one.stdout is not None
            one.stdout.readline()
        end_all("this")
        assert ours.wait() == -signal.SIGTERM
        assert others.poll() is None
        others.kill()
