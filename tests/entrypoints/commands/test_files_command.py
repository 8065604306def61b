"""An installed package writes the operator's files of its version."""

import re
import tomllib
from pathlib import Path

import pytest

from entrypoints.cli import files
from entrypoints.cli.parsing.command_line import command_line
from entrypoints.failures import OK, StartFailed
from tests.ops.operations.pages import PAGES
from tests.places import ROOT


def written(*words: str) -> int:
    return files.run(command_line().parse_args(["files", *words]))


@pytest.mark.parametrize("kind", files.FILES)
def test_the_files_of_a_kind_are_written_as_they_are(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        assert written(kind, "--to", str(folder)) == OK
        assert capsys.readouterr().out.split() == [str(folder / files.place(path)) for path in files.FILES[kind]]
    for path in files.FILES[kind]:
        assert (folder / files.place(path)).read_bytes() == (ROOT / path).read_bytes()


def test_the_links_of_a_runbook_that_was_written_lead_to_its_pages(tmp_path: Path) -> None:
    assert written("runbook", "--to", str(tmp_path)) == OK
    index = (tmp_path / "operations.md").read_text()
    pages = set(re.findall(r"\]\((operations/[^)#]+)", index))
    assert pages == {page.relative_to(tmp_path).as_posix() for page in (tmp_path / "operations").iterdir()}
    assert len(pages) == len(PAGES)


def test_the_package_has_them_beside_it(tmp_path: Path) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        shipped = tomllib.load(file)["tool"]["setuptools"]["data-files"]
    guides = {folder: shipped.pop(folder) for folder in list(shipped) if folder.startswith("share/postern/guides")}
    carried = {
        f"{folder}/{found.name}": found.relative_to(ROOT).as_posix()
        for folder, patterns in shipped.items()
        for pattern in patterns
        for found in ROOT.glob(pattern)
    }
    # For `postern upgrade rehearse`.
    assert carried.pop("share/postern/CHANGELOG.md") == "CHANGELOG.md"
    assert carried == {f"share/postern/{files.place(path)}": path for paths in files.FILES.values() for path in paths}
    shown = sorted(path for patterns in guides.values() for pattern in patterns for path in ROOT.glob(pattern))
    assert shown == sorted((ROOT / "docs" / "guides").rglob("*.md")), "a folder of guides is missing"
    for folder, (pattern,) in guides.items():
        assert pattern == f"docs/guides{folder.removeprefix('share/postern/guides')}/*.md"
    (tmp_path / "alerts.yaml").write_text("groups: []")
    assert files._found("ops/prometheus/alerts.yaml", tmp_path / "none", [tmp_path]) == tmp_path / "alerts.yaml"
    (tmp_path / "operations").mkdir()
    (tmp_path / "operations" / "alerts.md").write_text("# Alerts")
    assert files._found("docs/operations/alerts.md", tmp_path / "none", [tmp_path]) == tmp_path / "operations" / "alerts.md"
    with pytest.raises(StartFailed, match=r"operations\.md is neither in .* nor in a checkout"):
        files._found("docs/operations.md", tmp_path, [tmp_path])


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartFailed, match=r"alerts\.yaml cannot be written: "):
        written("alerts", "--to", str(tmp_path / "file"))
