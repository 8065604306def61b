"""`postern passwords build`: a filter of lists, and reasons in words."""

import json
from pathlib import Path

import pytest

from adapters.crypto.known_passwords.filters import open_filter
from core.domain.secrets import Password
from entrypoints.cli.main import main
from tests.adapters.crypto.known_passwords.lists import listed


def test_it_builds_a_filter_and_says_what_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists, out = [listed(tmp_path / name, [f"a stolen {name}"]) for name in ("one", "two")], tmp_path / "filter"
    assert main(["passwords", "build", *map(str, lists), "--to", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["path"], said["hashes"], said["kind"], said["bytes"]) == (str(out), 2, "sha1", out.stat().st_size)
    assert open_filter(out).contains(Password("a stolen two"))
    assert main(["passwords", "build", *map(str, lists), "--to", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 2 hashes in 8192 bytes. Set POSTERN_PASSWORD_FILTER to this file.\n"


def test_it_says_which_line_is_wrong_and_where_nothing_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wrong").write_text("password123\n")
    assert main(["passwords", "build", str(tmp_path / "wrong"), "--to", str(tmp_path / "filter")]) == 1
    assert f"{tmp_path / 'wrong'}, line 1: is no hash" in capsys.readouterr().err
    good = listed(tmp_path / "good", ["a stolen one"])
    assert main(["passwords", "build", str(good), "--to", str(tmp_path / "absent" / "filter")]) == 1
    assert "No such file or directory" in capsys.readouterr().err
