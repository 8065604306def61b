"""Who lacks something that a measurement needs reads what to install, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

from ops.bench.report import ROOT


def bench(*words: str, only: Path | None = None, without_libraries: bool = False) -> "subprocess.CompletedProcess[str]":
    """`only` is the directory of all the programs that there are."""
    python = [sys.executable, *(["-S"] if without_libraries else [])]
    variables = {**os.environ, **({} if only is None else {"PATH": str(only)})}
    done = subprocess.run(
        [*python, "-m", "ops.bench", *words],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_without_the_libraries_it_says_how_to_install_them() -> None:
    done = bench("start", without_libraries=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"This Python ({sys.executable}) has no " in line
    assert "`make .venv/ready-dev`" in line


def test_without_programs_it_says_how_to_install_each(tmp_path: Path) -> None:
    done = bench("--no-record", "h2", "providers", only=tmp_path)
    assert done.returncode == 0
    said = done.stderr.splitlines()
    for name, how in (("wrk", "ops/install-test-tools"), ("h2load", "nghttp2-client"), ("openssl", "openssl"), ("npm", "Node.js")):
        assert [line for line in said if line.startswith(f"{name} is not installed. ") and how in line]
    shown = done.stdout.splitlines()
    assert "skipped: h2load is not installed. Run `ops/install-test-tools` as root, or install Debian's package nghttp2-client." in shown[2]
    assert "skipped: node is not installed. Install Node.js" in shown[3]


def test_a_comparison_begins_nothing_without_its_programs(tmp_path: Path) -> None:
    done = bench("against", "HEAD", "lookups", only=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "python -m ops.bench against: error: git is not installed. Install git."
