"""`postern explain` reads an error from a file or from standard input. It needs no settings and no database."""

import io
import json
import sys
from pathlib import Path

import pytest

from entrypoints.cli.main import main
from entrypoints.failures import FAILURE, OK


def _piped(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_an_error_is_explained_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace"
    file.write_text("Traceback\n  …\nOAuthError: invalid_grant: used")
    assert main(["explain", str(file)]) == OK
    said = capsys.readouterr().out
    assert said.startswith("invalid_grant: ")
    assert "What to change:" in said
    assert main(["explain", str(tmp_path / "gone")]) == FAILURE
    assert "No such file" in capsys.readouterr().err


def test_an_error_is_explained_from_standard_input_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _piped(monkeypatch, "oidc: expected audience board")
    assert main(["explain", "--json"]) == OK
    (one,) = json.loads(capsys.readouterr().out)["errors"]
    assert one["error"] == "audience"


@pytest.mark.parametrize(("text", "said"), [("all is well", "does not know this error"), ("a" * 20_000, "longer than 16 KiB")])
def test_what_cannot_be_explained_is_said(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _piped(monkeypatch, text)
    assert main(["explain"]) == FAILURE
    assert said in capsys.readouterr().err
