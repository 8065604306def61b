"""A command of the Makefile that is silent by itself says what it does, and that it still does it (`ops/runs/aloud.py`)."""

import os
import subprocess
import sys

from tests.places import ROOT

ALOUD = [sys.executable, str(ROOT / "ops" / "runs" / "aloud.py")]


def test_it_says_what_it_does_and_again_and_again_until_the_command_ends() -> None:
    command = [*ALOUD, "Waiting", sys.executable, "-c", "import sys; sys.stdin.read(); sys.stdout.write('done\\n')"]
    with subprocess.Popen(
        command, env={**os.environ, "ALOUD_EVERY": "0.01"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdin is not None
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "Waiting …\n"
        for _ in range(3):
            assert waiting.stdout.readline().startswith("  … ")
        waiting.stdin.close()
        *_, last = (line for line in waiting.stdout if not line.startswith("  … "))
        assert last == "done\n"
    assert waiting.returncode == 0


def test_it_ends_as_the_command_does() -> None:
    assert subprocess.run([*ALOUD, "Failing", sys.executable, "-c", "raise SystemExit(7)"], check=False).returncode == 7
