"""How long work shows how far it is."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from entrypoints.cli.output.progress import lines, progress, say
from tests.places import ROOT


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_elsewhere_than_on_a_terminal_a_line_comes_every_ten_seconds_and_at_the_end() -> None:
    clock, told = Clock(), list[str]()
    with lines(told.append, clock)("Changing users", 1000, "rows") as advance:
        for _ in range(24):
            clock.now += 1
            advance(25)
    assert told == [
        "Changing users:  25% 250/1.00k [00:10<00:30, 25.0 rows/s]",
        "Changing users:  50% 500/1.00k [00:20<00:20, 25.0 rows/s]",
        "Changing users:  60% 600/1.00k [00:24<00:16, 25.0 rows/s]",
    ]


def test_work_that_is_done_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Changing users", 10, "rows") as advance:
        advance(10)
        say("the result")
    assert capsys.readouterr() == ("the result\n", "")


def test_without_a_total_or_beyond_it_a_line_tells_what_it_knows() -> None:
    clock, told = Clock(), list[str]()
    for total in (None, 100):
        with lines(told.append, clock)("Reading", total, "entries") as advance:
            clock.now += 10
            advance(200)
    assert told[0] == "Reading: 200 entries [00:10, 20.0 entries/s]"
    assert told[2] == told[0]


def test_without_a_unit_only_the_time_counts() -> None:
    clock, told = Clock(), list[str]()
    with lines(told.append, clock)("Applying 0042_moons", None, "") as advance:
        clock.now += 75
        advance(0)
    assert told == ["Applying 0042_moons: 01:15"] * 2


def test_an_error_ends_it_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), lines(print)("Reading", None, "entries"):
        raise ZeroDivisionError


_WORK = """
import time
from entrypoints.cli.output.progress import progress, say
with progress("Changing users", 8, "rows") as advance:
    for number in range(8):
        time.sleep(0.1)
        advance(1)
        if number == 6:
            say("in between")
"""


def test_a_terminal_shows_a_bar_and_whole_lines_of_the_result(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    out = tmp_path / "out"
    with out.open("w") as result:
        subprocess.run([sys.executable, "-c", _WORK], stderr=theirs, stdout=result, cwd=ROOT, check=True)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says so when nobody has the other end any more.
            break
        if not part:
            break
        shown += part
    os.close(ours)
    text = shown.decode()
    assert out.read_text() == "in between\n"
    assert "Changing users:" in text
    assert "█" in text
    assert "8.00/8.00 [00:0" in text
    assert "rows/s]" in text
