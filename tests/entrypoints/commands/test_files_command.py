"""An installed package writes the operator's files of its version."""

import tomllib
from pathlib import Path

import pytest

from entrypoints.cli import files
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import OK, StartFailed
from tests.places import ROOT


def written(*words: str) -> int:
    return files.run(command_line().parse_args(["files", *words]))


@pytest.mark.parametrize("kind", files.FILES)
def test_the_files_of_a_kind_are_written_as_they_are(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        assert written(kind, "--to", str(folder)) == OK
        assert capsys.readouterr().out.split() == [str(folder / Path(path).name) for path in files.FILES[kind]]
    for path in files.FILES[kind]:
        assert (folder / Path(path).name).read_bytes() == (ROOT / path).read_bytes()


def test_the_package_has_them_beside_it(tmp_path: Path) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        shipped = tomllib.load(file)["tool"]["setuptools"]["data-files"]
    guides = {folder: shipped.pop(folder) for folder in list(shipped) if folder.startswith("share/postern/guides")}
    assert shipped == {"share/postern": [path for paths in files.FILES.values() for path in paths]}
    shown = sorted(path for patterns in guides.values() for pattern in patterns for path in ROOT.glob(pattern))
    assert shown == sorted((ROOT / "docs" / "guides").rglob("*.md")), "a folder of guides is missing"
    for folder, (pattern,) in guides.items():
        assert pattern == f"docs/guides{folder.removeprefix('share/postern/guides')}/*.md"
    (tmp_path / "alerts.yaml").write_text("groups: []")
    assert files._found("ops/prometheus/alerts.yaml", tmp_path / "none", [tmp_path]) == tmp_path / "alerts.yaml"
    with pytest.raises(StartFailed, match=r"operations\.md is neither in .* nor in a checkout"):
        files._found("docs/operations.md", tmp_path, [tmp_path])


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartFailed, match=r"alerts\.yaml cannot be written: "):
        written("alerts", "--to", str(tmp_path / "file"))
