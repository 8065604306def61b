"""A warm process is like a cold one, and what would differ is started cold."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.postern import environment
from tests.e2e.warm.processes import COMMAND, PosternProcess, may_be_warm, run
from tests.patience import PATIENCE
from tests.places import ROOT

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all processes are cold")
HERE: Final = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["version"], {}),
        (["nonsense"], {}),
        (["config"], {"POSTERN_LOG_LEVEL": "loud"}),
        (["config"], {"POSTERN_BASE_URL": "https://warm.example.org"}),
        (["jobs", "list"], {"POSTERN_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}),
    ],
)
def test_it_answers_as_a_cold_one(words: list[str], settings: dict[str, str], tmp_path: Path) -> None:
    given = environment(tmp_path, settings)
    warm = run([*COMMAND, *words], env=given, given="", patience=PATIENCE)
    cold = subprocess.run([*COMMAND, *words], env=given, cwd=ROOT, capture_output=True, text=True, check=False, input="")
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_a_full_disk_under_its_output_is_told(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        process = PosternProcess([*COMMAND, "version"], env=environment(tmp_path, {}), cwd=ROOT, stdout=full, stderr=subprocess.PIPE)
    _, said = process.communicate()
    assert (process.returncode, said) == (1, b"postern: No space left on device\n")


@only_linux
def test_it_is_our_child_in_a_group_of_its_own_and_hears_signals(tmp_path: Path) -> None:
    process = PosternProcess([*COMMAND, "serve"], env=environment(tmp_path, {}), cwd=ROOT, stdout=subprocess.DEVNULL, process_group=0)
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    assert (int(fields[1]), int(fields[2])) == (os.getpid(), process.pid)
    assert b"tests.e2e.warm.mother" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    process.send_signal(signal.SIGKILL)
    assert process.wait(PATIENCE) == -signal.SIGKILL


@only_linux
@pytest.mark.parametrize("ours", [signal.default_int_handler, signal.SIG_IGN], ids=["heard", "ignored"])
def test_it_ignores_the_signals_that_we_ignore(tmp_path: Path, ours: Any) -> None:
    """A shell has what it runs in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, ours)
    try:
        process = PosternProcess([*COMMAND, "serve"], env=environment(tmp_path, {}), cwd=ROOT, stdout=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, before)
    told = dict(line.split(":\t") for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    process.kill()
    process.wait()
    assert bool(int(told["SigIgn"], 16) >> (signal.SIGINT - 1) & 1) is (ours is signal.SIG_IGN)


@only_linux
@pytest.mark.parametrize(
    ("words", "settings", "cwd", "warm"),
    [
        ([*COMMAND, "serve"], {"POSTERN_BIND": "127.0.0.1:0"}, ROOT, True),
        ([*COMMAND, "serve"], {}, Path("/"), False),
        ([*COMMAND, "serve"], {"LC_ALL": "POSIX"}, ROOT, False),
        ([*COMMAND, "serve"], {"PYTHONOPTIMIZE": "2"}, ROOT, False),
        (["/bin/true"], {}, ROOT, False),
    ],
)
def test_what_would_differ_is_started_cold(words: list[str], settings: dict[str, str], cwd: Path, warm: bool) -> None:
    assert may_be_warm(words, cwd, {**HERE, **settings}) is warm


def test_what_stands_in_no_request_is_started_cold() -> None:
    """Descriptors beside the standard ones, and what runs between fork and exec, do not reach the mother."""
    told, tell = os.pipe()
    given: dict[str, Any] = {"pass_fds": (tell,), "preexec_fn": lambda: os.write(tell, b"x")}
    assert PosternProcess([*COMMAND, "version"], cwd=ROOT, stdout=subprocess.DEVNULL, **given).wait(PATIENCE) == 0
    assert os.read(told, 1) == b"x"
    os.close(told)
    os.close(tell)
