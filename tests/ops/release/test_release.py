"""A release changes every place that names the version, and its files have digests that anybody can compare."""

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pytest
import yaml

from ops.image.debian import NotMade
from ops.pictures import MADE_OF, made_of
from ops.release.__main__ import due_rooms
from ops.release.archives import archive
from ops.release.files import DIGESTS, write_digests
from ops.release.version import COPIES, FIGURES, KUSTOMIZATION, NotReleased, changes, current_version, release
from tests.places import ROOT
from tests.runs.rooms import rooms
from tests.tools import needs

DAY = date(2026, 12, 1)
STYLE = "entrypoints/http/pages/kit/pages.css"
DIGEST = f"sha256:{'5' * 64}"


def digest_of_image(_tree: Path) -> str:
    return DIGEST


def nothing_is_due() -> Sequence[str]:
    return ()


def git(tree: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=tree, check=True, capture_output=True, text=True).stdout.strip()


def figures_of(*days: str) -> str:
    rows = "".join(f"| start | to ready {number} | 1 s | ≤ 4 | yes | {day}, 1234567 |\n" for number, day in enumerate(days))
    return f"# Benchmarks\n\nMachine: one.\n\n## Starting\n\n| case | what | figure | bar | held | measured |\n|-|-|-|-|-|-|\n{rows}"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the files that a release changes."""
    for name in ("pyproject.toml", *COPIES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, text in ((STYLE, "a { color: red }"), ("adapters/texts/en.toml", '[a]\nb = "c"'), (MADE_OF, "")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / MADE_OF).write_text(made_of(tmp_path))
    (tmp_path / FIGURES).parent.mkdir(exist_ok=True)
    (tmp_path / FIGURES).write_text(figures_of("2026-11-01"))
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n- Something new.\n\n## 0.1.0 (2026-11-22)\n\nThe first version.\n"
    )
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "config", "user.name", "Ada")
    git(tmp_path, "config", "user.email", "ada@example.org")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    return tmp_path


@needs("git")
def test_a_release_names_its_version_everywhere_and_tags_the_commit(tree: Path) -> None:
    former = re.escape(current_version(tree))
    before = {
        name: sum(len(re.findall(one.replace(r"\d+\.\d+\.\d+", former), (ROOT / name).read_text(), re.MULTILINE)) for one in COPIES[name])
        for name in COPIES
    }
    release(tree, "9.9.9", DAY, digest_of_image, nothing_is_due)
    assert current_version(tree) == "9.9.9"
    assert git(tree, "log", "-1", "--format=%s") == "Release 9.9.9"
    assert git(tree, "rev-parse", "v9.9.9^{commit}") == git(tree, "rev-parse", "HEAD")
    assert git(tree, "status", "--porcelain") == ""
    text = (tree / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 9.9.9 (2026-12-01)\n\n- Something new.\n\n## 0.1.0 (2026-11-22)" in text
    assert (changes(tree, "9.9.9"), changes(tree, "0.1.0")) == ("- Something new.\n", "The first version.\n")
    # `tests/ops/test_version.py` compares these places in the checkout.
    for name in COPIES:
        assert len(re.findall(r"9\.9\.9", (tree / name).read_text())) == before[name]


@needs("git")
def test_a_release_names_its_image_by_version_and_digest(tree: Path) -> None:
    def made(of: Path) -> str:
        assert current_version(of) == "9.9.9"  # the image is of the new version
        return DIGEST

    release(tree, "9.9.9", DAY, made, nothing_is_due)
    release(commit_news(tree), "9.9.10", DAY, lambda _: f"sha256:{'6' * 64}", nothing_is_due)
    (named,) = yaml.safe_load((tree / KUSTOMIZATION).read_text())["images"]
    assert (named["newTag"], named["digest"]) == ("9.9.10", f"sha256:{'6' * 64}")
    assert DIGEST in git(tree, "show", f"v9.9.9:{KUSTOMIZATION}")


def commit_news(tree: Path) -> Path:
    file = tree / "CHANGELOG.md"
    file.write_text(file.read_text().replace("## Unreleased\n", "## Unreleased\n\n- Something newer.\n"))
    git(tree, "commit", "--quiet", "--all", "--message", "Tell news")
    return tree


@needs("git")
def test_without_an_image_nothing_is_changed(tree: Path) -> None:
    def fails(_tree: Path) -> str:
        raise NotMade("no mirror has a package")

    head = git(tree, "rev-parse", "HEAD")
    with pytest.raises(NotMade):
        release(tree, "9.9.9", DAY, fails, nothing_is_due)
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain"), git(tree, "tag")) == (head, "", "")


def changed(tree: Path) -> None:
    (tree / "README.md").write_text("changed")


def without_news(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("## Unreleased\n\n## 0.1.0 (2026-11-22)\n\nThe first version.\n")
    git(tree, "commit", "--quiet", "--all", "--message", "Forget the news")


def without_a_place(tree: Path) -> None:
    (tree / "README.md").write_text("No version here.\n")
    git(tree, "commit", "--quiet", "--all", "--message", "Lose a place")


def with_another_style(tree: Path) -> None:
    (tree / STYLE).write_text("a { color: blue }")
    git(tree, "commit", "--quiet", "--all", "--message", "Make links blue")


@pytest.mark.parametrize(
    ("version", "before", "why"),
    [
        ("1.0", lambda _: None, "no version like"),
        ("0.0.9", lambda _: None, "does not come after"),
        ("9.9.9", changed, "not committed"),
        ("9.9.9", lambda tree: git(tree, "tag", "v9.9.9"), "the tag v9.9.9 is there"),
        ("9.9.9", without_news, "nothing under"),
        ("9.9.9", with_another_style, "run make pictures"),
        ("9.9.9", without_a_place, "README.md does not name the version"),
    ],
)
@needs("git")
def test_what_is_not_ready_is_not_released(tree: Path, version: str, before: Callable[[Path], object], why: str) -> None:
    before(tree)
    head, state = git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain")
    with pytest.raises(NotReleased, match=why):
        release(tree, version, DAY, digest_of_image, nothing_is_due)
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain")) == (head, state)


@needs("git")
def test_what_nobody_has_seen_green_as_it_is_now_is_not_released(tree: Path) -> None:
    head = git(tree, "rev-parse", "HEAD")
    with pytest.raises(NotReleased, match=r"run make check-all, and commit what it writes: .*: image, oldest server$"):
        release(tree, "9.9.9", DAY, digest_of_image, lambda: ["image", "oldest server"])
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain")) == (head, "")
    assert set(due_rooms()) <= {room.name for room in rooms()}


def test_an_archive_of_the_same_files_is_the_same(tmp_path: Path) -> None:
    digests = set()
    for number in range(2):
        folder = tmp_path / f"made{number}"
        (folder / "docs").mkdir(parents=True)
        for name in ("index.html", "docs/b.html", "docs/a.html")[:: 1 if number else -1]:
            (folder / name).write_text(name)
            os.utime(folder / name, (number, number))
            (folder / name).chmod(0o600 if number else 0o755)
        target = tmp_path / str(number) / "site.tar.gz"
        target.parent.mkdir()
        archive(folder, target, root="site")
        digests.add(hashlib.sha256(target.read_bytes()).hexdigest())
    assert len(digests) == 1
    with tarfile.open(tmp_path / "0" / "site.tar.gz") as packed:
        assert packed.getnames() == ["site/docs/a.html", "site/docs/b.html", "site/index.html"]


@needs("sha256sum")
def test_the_digests_are_checked_by_the_usual_tool(tmp_path: Path) -> None:
    (tmp_path / "postern-1.whl").write_text("wheel")
    (tmp_path / "CHANGES.md").write_text("changes")
    write_digests(tmp_path)
    write_digests(tmp_path)  # the digests are not among themselves
    check = ["sha256sum", "--check", "--strict", DIGESTS]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.count(": OK") == 2
    (tmp_path / "CHANGES.md").write_text("other changes")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def measured(tree: Path, *days: str) -> None:
    (tree / FIGURES).write_text(figures_of(*days))
    git(tree, "commit", "--quiet", "--all", "--message", "Measure")


def next_version(tree: Path, place: int) -> str:
    """The version after the tree's: 0 counts the first number up, 2 the last."""
    numbers = [int(one) for one in current_version(tree).split(".")]
    return ".".join(str(one) for one in [*numbers[:place], numbers[place] + 1, *[0] * (2 - place)])


@needs("git")
@pytest.mark.parametrize("place", [0, 1], ids=["major", "minor"])
def test_a_version_that_brings_something_needs_figures_of_the_last_thirty_days(tree: Path, place: int) -> None:
    measured(tree, "2026-11-01", "2026-10-31", "before 1234567")
    head = git(tree, "rev-parse", "HEAD")
    with pytest.raises(NotReleased) as refused:
        release(tree, next_version(tree, place), DAY, digest_of_image, nothing_is_due)
    assert str(refused.value).splitlines()[1:] == [
        "start, to ready 1: 1 s, measured 2026-10-31, 1234567",
        "start, to ready 2: 1 s, measured before 1234567, 1234567",
    ]
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "status", "--porcelain"), git(tree, "tag")) == (head, "", "")
    measured(tree, "2026-11-01", "2026-11-30")
    release(tree, next_version(tree, place), DAY, digest_of_image, nothing_is_due)


@needs("git")
def test_a_patch_version_prints_older_figures_and_is_released(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(tree, "2026-10-01", "2026-11-30")
    version = next_version(tree, 2)
    release(tree, version, DAY, digest_of_image, nothing_is_due)
    assert capsys.readouterr().out.splitlines() == [
        "docs/benchmarks.md has figures that are older than thirty days:",
        "start, to ready 0: 1 s, measured 2026-10-01, 1234567",
    ]
    assert current_version(tree) == version
