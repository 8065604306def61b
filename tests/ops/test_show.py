"""The demonstration on the front page works as shown there."""

import re

import pytest

from ops import show
from tests.places import ROOT

README = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_a_row_that_is_altered_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.tampering() == 0
    shown = capsys.readouterr().out
    assert [line[:4] for line in re.findall(r"^(?:ok|FAIL) .*$", shown, re.MULTILINE)] == ["ok  ", "FAIL", "FAIL", "FAIL"]
    assert "was altered" in shown


@pytest.mark.slow
def test_nothing_that_was_answered_is_lost_by_a_kill(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "KILLS", 1)
    monkeypatch.setattr(show, "BETWEEN", 2)
    assert show.kill() == 0
    found = re.search(r"^ *(\d+) registrations answered, 0 of them lost; \d+ tries", capsys.readouterr().out, re.MULTILINE)
    assert found is not None
    assert int(found[1]) >= 6


@pytest.mark.parametrize("promise", ["kill", "tampering"])
def test_the_front_page_names_the_command(promise: str) -> None:
    assert f".venv/bin/python -m ops.show {promise}" in README
