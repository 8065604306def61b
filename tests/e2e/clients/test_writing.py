"""Writing the clients where something is missing: a sentence, and nothing that is half done."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ops.clients import __main__, build


def test_without_the_formatter_it_says_so_and_leaves_all_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (kept := tmp_path / "python" / "kept.py").parent.mkdir()
    kept.write_text("of an earlier run")
    monkeypatch.setattr(build, "_FORMATTER", "no_such_tool")
    monkeypatch.setattr("sys.argv", ["clients", str(tmp_path)])
    assert __main__.main() == 1
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "no_such_tool formats the client for Python, and is missing here: `make clients` installs it\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]


def test_a_formatter_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(command: Any, **_given: Any) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(subprocess.CalledProcessError):
        build.write_clients(tmp_path / "clients", "1.2.3")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
