"""The systemd unit agrees with the program."""

import subprocess
import sys
from pathlib import Path

from entrypoints.failures import ALREADY_SERVED, USAGE
from tests.places import ROOT
from tests.tools import needs

UNIT = (ROOT / "ops" / "postern.service").read_text(encoding="utf-8")


def test_it_waits_for_our_word_and_does_not_repeat_what_cannot_help() -> None:
    lines = UNIT.splitlines()
    assert "Type=notify" in lines
    assert f"RestartPreventExitStatus={USAGE} {ALREADY_SERVED}" in lines
    assert any(line.startswith("WatchdogSec=") for line in lines)
    # The journal takes standard output, too.
    assert "Environment=POSTERN_LOG_FORMAT=json" in lines
    assert "ExecStart=/opt/postern/.venv/bin/postern serve" in lines


@needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    unit = tmp_path / "postern.service"
    unit.write_text(UNIT.replace("/opt/postern/.venv/bin/postern", sys.executable), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
