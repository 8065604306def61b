"""The build of Argon2 for this processor: its decisions. The build never fails the set-up."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.crypto.password_digests import BUILD_RECORD as READERS_RECORD
from ops import build_argon2
from ops.build_argon2 import RECORD, Processor, StayWithTheWheel, needed_features, pinned, this_processor
from tests.places import ROOT
from tests.tools import needs

SCRIPT = ROOT / "ops" / "build_argon2.py"
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], check=False, capture_output=True, text=True, env=os.environ | environment)


def test_the_reader_and_the_writer_of_the_record_mean_the_same_file() -> None:
    assert READERS_RECORD == RECORD


def test_the_requirement_is_taken_from_the_lock_with_its_hashes_and_nothing_else() -> None:
    requirement = pinned(LOCK, "argon2-cffi-bindings")
    lines = requirement.splitlines()
    assert lines[0].startswith("argon2-cffi-bindings==")
    assert len([line for line in lines if "--hash=sha256:" in line]) > 1
    assert all(line.startswith(" ") for line in lines[1:])
    with pytest.raises(StayWithTheWheel, match="does not name"):
        pinned(LOCK, "argon2-cffi-bindin")


def test_a_processor_is_read_from_what_the_kernel_says(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor : 0\nmodel name\t: Example(R)  CPU\nflags\t\t: fpu avx2\n\nprocessor : 1\nmodel name : Other\nflags : none\n"
    )
    processor = this_processor(cpuinfo)
    assert processor == Processor("Example(R) CPU", frozenset({"fpu", "avx2"}))


def test_elsewhere_than_on_linux_the_wheel_stays(tmp_path: Path) -> None:
    with pytest.raises(StayWithTheWheel, match="only on Linux"):
        this_processor(tmp_path / "none")


@needs("cc")
def test_what_a_baseline_needs_is_told_in_the_kernels_words() -> None:
    v3 = needed_features("cc", "x86-64-v3")
    assert {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm", "popcnt", "sse4_2", "ssse3", "pni"} <= v3
    assert not {name for name in v3 if name.startswith("avx512")}
    assert {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= needed_features("cc", "x86-64-v4")
    assert needed_features("cc", "x86-64") == frozenset()
    assert needed_features("cc", "x86-64-v4") <= build_argon2._LEVELS


@pytest.mark.parametrize(
    ("arguments", "environment", "reason"),
    [
        ((), {"PATH": "/nonexistent"}, "there is no C compiler"),
        (("--baseline", "no-such-processor"), {"CC": "cc"}, "cc does not know -march=no-such-processor"),
        ((), {"CC": "/bin/false"}, "/bin/false does not know -march=native"),
        ((), {"CC": "/no/such/compiler"}, "of FileNotFoundError"),
    ],
)
def test_the_set_up_goes_on_with_one_line_when_anything_is_missing(
    arguments: tuple[str, ...], environment: dict[str, str], reason: str
) -> None:
    before = build_argon2._module_digest()
    ended = run(*arguments, **environment)
    assert ended.returncode == 0
    assert ended.stderr == ""
    assert ended.stdout.count("\n") == 1
    assert reason in ended.stdout
    assert build_argon2._module_digest() == before


class Pip:
    """Stands in for pip, which would need an index, and notes each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, prefix: Path) -> None:
        self.calls: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []
        self.fails = False
        monkeypatch.setattr("sys.prefix", str(prefix))
        monkeypatch.setattr(build_argon2.subprocess, "run", self._run)  # type: ignore[attr-defined]  # the module's own name for it

    def _run(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if "pip" not in command:
            return RUN(command, **options)
        self.calls.append(command)
        self.environments.append(options["env"])
        assert Path(command[-1]).read_text(encoding="utf-8").startswith("argon2-cffi-bindings==")
        return subprocess.CompletedProcess(command, int(self.fails), "", "one\nerror: two\n" if self.fails else "")


RUN = subprocess.run
HERE = Processor("Example CPU", frozenset({"avx2"}))


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pip:
    return Pip(monkeypatch, tmp_path)


@needs("cc")
def test_a_build_is_made_from_the_pinned_source_once_and_recorded(pip: Pip, tmp_path: Path) -> None:
    assert build_argon2.build("native", HERE)
    (command,) = pip.calls
    assert {"--require-hashes", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--force-reinstall"} <= set(command)
    assert command[command.index("--no-binary") + 1] == "argon2-cffi-bindings"
    assert not [argument for argument in command if "index" in argument or "://" in argument]
    assert pip.environments[0]["CFLAGS"] == "-O3 -march=native"
    assert not build_argon2.build("native", HERE), "it is in force already"
    record = json.loads((tmp_path / RECORD).read_text())
    assert (record["baseline"], record["processor"], record["module"]) == ("native", "Example CPU", build_argon2._module_digest())
    assert set(record["needs"]) <= HERE.features | build_argon2._LEVELS


@needs("cc")
def test_another_processor_or_another_baseline_is_another_build(pip: Pip) -> None:
    assert build_argon2.build("x86-64-v2", HERE)
    assert not build_argon2.build("x86-64-v2", HERE)
    assert build_argon2.build("x86-64-v3", HERE)
    assert build_argon2.build("x86-64-v3", replace(HERE, name="Another CPU"))
    assert len(pip.calls) == 3


@needs("cc")
def test_a_build_that_computes_something_else_gives_way_to_the_wheel(pip: Pip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_argon2, "_SELF_TEST", "import os; os.abort()")
    with pytest.raises(StayWithTheWheel, match="does not compute what it should"):
        build_argon2.build("x86-64", HERE)
    assert [command[command.index("--require-hashes") + 1] for command in pip.calls] == ["--no-binary", "--only-binary"]
    assert not (tmp_path / RECORD).exists()


def test_a_foreign_build_that_cannot_be_replaced_gives_way_to_the_wheel(pip: Pip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = {"module": build_argon2._module_digest(), "needs": ["a_feature_of_tomorrow"]}
    (tmp_path / RECORD).write_text(json.dumps(foreign))
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(StayWithTheWheel, match="no C compiler"):
        build_argon2.build("native", HERE)
    (command,) = pip.calls
    assert command[command.index("--only-binary") + 1] == ":all:"


@needs("cc")
def test_a_build_that_fails_says_the_reason_that_pip_gave(pip: Pip) -> None:
    pip.fails = True
    with pytest.raises(StayWithTheWheel, match=r"its build failed \(error: two\)"):
        build_argon2.build("native", HERE)
