"""What ships is due by its contents, and a page of a sweep by its looks (`tests/runs/packages.py`)."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.places import ROOT
from tests.runs import packages as of_runs
from tests.runs.packages import PAGE, Checked, Noting, Package, Sweep, digest_of, is_in_the_fifth, left_out, packages, reasons

# `packages.toml` promises these to every run.
NEVER_LEFT_OUT = {
    "tests/e2e/test_releases.py",
    "tests/entrypoints/backups/test_restore.py",
    "tests/entrypoints/moving/test_move.py",
    "tests/entrypoints/test_cold_commands.py",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(of_runs, "ROOT", tmp_path)
    monkeypatch.setattr(of_runs, "CHECKED", tmp_path / "checked.json")
    monkeypatch.setattr(of_runs, "_content", of_runs._content.__wrapped__)
    for file in ("tests/test_one.py", "tests/two/test_two.py", "product/a.py", "product/deep/b.txt", "other.md"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file)
    return tmp_path


ONE = Package(name="one", tests=["tests/test_one.py"], paths=["product/", "other.*"])
TWO = Package(name="two", tests=["tests/two/"], paths=["other.md"])


def test_all_that_the_list_of_packages_names_is_there() -> None:
    for package in packages():
        assert package.files(), package.name
        for path in (*package.tests, *package.paths):
            assert list(of_runs._files(path)), f"{package.name}: {path}"


def test_what_every_run_needs_is_in_no_package() -> None:
    assert all((ROOT / file).exists() for file in NEVER_LEFT_OUT)
    waiting = left_out((), packages())
    assert not waiting & NEVER_LEFT_OUT
    # Who may do what is never left to a package.
    assert not any(
        file.startswith(("tests/security/", "tests/http/", "tests/house/", "tests/domain/", "tests/usecases/")) for file in waiting
    )


def test_a_package_that_nobody_has_seen_green_is_due() -> None:
    assert set(reasons({}, [ONE, TWO])) == {"one", "two"}


@pytest.mark.parametrize(
    ("changed", "due"),
    [
        ("product/deep/b.txt", {"one"}),
        ("product/new.py", {"one"}),
        ("tests/test_one.py", {"one"}),
        ("tests/two/helper.py", {"two"}),
        ("other.md", {"one", "two"}),
        ("elsewhere.py", set()),
        ("product/__pycache__/a.pyc", set()),
    ],
)
def test_a_change_makes_the_packages_due_that_name_its_path(tree: Path, changed: str, due: set[str]) -> None:
    green = {package.name: package.digest() for package in (ONE, TWO)}
    assert reasons(green, [ONE, TWO]) == {}
    (tree / changed).parent.mkdir(exist_ok=True)
    (tree / changed).write_text("changed")
    assert set(reasons(green, [ONE, TWO])) == due


@pytest.mark.usefixtures("tree")
def test_a_file_of_two_packages_runs_as_soon_as_one_is_due() -> None:
    both = Package(name="both", tests=["tests/test_one.py", "tests/two/"], paths=[])
    assert left_out({"one"}, [ONE, both]) == {"tests/two/test_two.py"}
    assert left_out({"both"}, [ONE, both]) == set()
    assert left_out((), [ONE, both]) == {"tests/test_one.py", "tests/two/test_two.py"}


def test_a_file_that_is_gone_or_renamed_changes_the_digest(tree: Path) -> None:
    before = digest_of(["product/"])
    (tree / "product/a.py").rename(tree / "product/c.py")
    assert digest_of(["product/"]) != before


def run_with(green: Mapping[str, str], checked: Path) -> str:
    """What a run of the folder of the package "image" prints, with this list of what was green."""
    checked.write_text(json.dumps({"packages": green}))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    command = [sys.executable, "-m", "pytest", "-n", "1", "--packages", "due", "-k", "test_config", "tests/ops/image"]
    environment["TESTS_CHECKED"] = str(checked)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    # Whoever names a folder has not run all.
    assert json.loads(checked.read_text()) == {"packages": green}
    return done.stdout


def test_a_run_says_first_what_is_due_and_why_and_last_what_it_left_out(tmp_path: Path) -> None:
    image = next(package for package in packages() if package.name == "image")
    said = run_with({"image": image.digest()}, tmp_path / "checked.json")
    assert "Every test runs. The tests of what Postern ships run only where it has changed since they were green. This time:" in said
    assert "\n  wheel: nobody has seen its tests green\n" in said
    assert "Left out, since nothing of it changed: image (" in said
    assert "no tests ran" in said
    said = run_with({"image": "0" * 16}, tmp_path / "checked.json")
    assert "\n  image: its tests, or files that it is made of, have changed\n" in said
    assert " passed" in said


def finished(status: pytest.ExitCode = pytest.ExitCode.OK, keyword: str = "", named: Any = pytest.Config.ArgsSource.TESTPATHS) -> Any:
    config = SimpleNamespace(option=SimpleNamespace(keyword=keyword, markexpr=""), args_source=named)
    return SimpleNamespace(exitstatus=status, config=config)


def report(file: str, outcome: str = "passed", pages: Sequence[tuple[str, str]] = ()) -> Any:
    said = {one: one == outcome for one in ("passed", "failed", "skipped")}
    return SimpleNamespace(nodeid=f"{file}::test", when="call", user_properties=[(PAGE, page) for page in pages], **said)


@pytest.fixture
def noting(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Noting:
    monkeypatch.setattr(of_runs, "packages", lambda: [ONE, TWO])
    monkeypatch.delenv("CI", raising=False)
    Checked(packages={"two": TWO.digest(), "gone": "1"}, pages={"old": "1", "seen": "1"}, files={"tests/gone.py": "1"}).write()
    assert (tree / "checked.json").exists()
    noting = Noting(every=False)
    noting.pytest_xdist_node_collection_finished(["tests/test_one.py::test", "tests/two/test_two.py::test"])
    return noting


def test_a_green_run_notes_the_packages_that_it_ran_whole_the_pages_and_the_files(noting: Noting) -> None:
    noting.pytest_runtest_logreport(report("tests/test_one.py", pages=[("seen", "2")]))
    noting._note(finished())
    found = Checked.read()
    assert found.packages == {"one": ONE.digest(), "two": TWO.digest()}
    assert found.pages == {"old": "1", "seen": "2"}
    assert found.files == {"tests/test_one.py": digest_of(["tests/test_one.py"])}


def test_what_somebody_writes_during_a_run_is_not_noted_as_green(noting: Noting, tree: Path) -> None:
    before = ONE.digest()
    (tree / "product/a.py").write_text("written meanwhile")
    noting.pytest_runtest_logreport(report("tests/test_one.py"))
    noting._note(finished())
    assert Checked.read().packages["one"] == before != ONE.digest()


@pytest.mark.parametrize(
    "session",
    [finished(pytest.ExitCode.INTERRUPTED), finished(keyword="one"), finished(named=pytest.Config.ArgsSource.ARGS)],
    ids=["interrupted", "a part by name", "a file by name"],
)
def test_an_interrupted_or_narrowed_run_notes_nothing(noting: Noting, session: Any) -> None:
    before = of_runs.CHECKED.read_text()
    noting.pytest_runtest_logreport(report("tests/test_one.py"))
    noting._note(session)
    assert of_runs.CHECKED.read_text() == before


def test_a_package_with_a_skipped_test_is_not_noted_but_in_ci(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    noting.pytest_runtest_logreport(report("tests/test_one.py", "skipped"))
    noting._note(finished())
    assert "one" not in Checked.read().packages
    monkeypatch.setenv("CI", "true")
    noting._note(finished())
    assert "one" in Checked.read().packages


def test_a_red_run_notes_what_it_saw_green(noting: Noting) -> None:
    """So the next run has only the red ones left."""
    noting._packages = [ONE, TWO]
    noting._digests = {"one": ONE.digest(), "two": "another"}
    noting.pytest_runtest_logreport(report("tests/test_one.py"))
    noting.pytest_runtest_logreport(report("tests/two/test_two.py"))
    noting.pytest_runtest_logreport(report("tests/two/test_two.py", "failed", [("a page", "1")]))
    noting._note(finished(pytest.ExitCode.TESTS_FAILED))
    found = Checked.read()
    assert found.packages == {"one": ONE.digest(), "two": TWO.digest()}
    assert set(found.files) == {"tests/test_one.py"}
    assert "a page" not in found.pages


def test_a_package_of_which_a_file_was_not_run_is_not_noted(noting: Noting) -> None:
    """A worker crashed before it came to the file."""
    noting._note(finished(pytest.ExitCode.TESTS_FAILED))
    assert "one" not in Checked.read().packages


def test_a_file_of_which_nothing_can_be_collected_keeps_no_package_from_being_noted(noting: Noting, tree: Path) -> None:
    """What its tests need is not installed, so that nobody could run them."""
    (tree / "tests/two/test_more.py").touch()
    noting._digests = {"two": "another"}
    noting.pytest_runtest_logreport(report("tests/two/test_two.py"))
    noting._note(finished())
    assert Checked.read().packages["two"] == "another"


def sweep(packages: str | None) -> Sweep:
    node = SimpleNamespace(user_properties=[])
    return Sweep(SimpleNamespace(node=node, config=SimpleNamespace(option=SimpleNamespace(packages=packages))))  # type: ignore[arg-type]


def test_a_page_is_visited_when_it_looks_other_than_it_did_and_otherwise_once_in_five(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [f"page {number}" for number in range(200)]
    green = {page: hashlib.sha256(page.encode()).hexdigest()[:16] for page in pages}
    monkeypatch.setattr(of_runs, "_checked_pages", lambda: green)
    visited = []
    for fifth in range(5):
        monkeypatch.setenv("FIFTH", str(fifth))
        visited.append([page for page in pages if sweep("due").is_due(page, page.encode())])
    # Each page has its turn, and no fifth is empty or everything.
    assert sorted(page for some in visited for page in some) == sorted(pages)
    assert all(15 < len(some) < 80 for some in visited)
    assert all(sweep("due").is_due(page, b"other looks") for page in pages)
    assert all(sweep(every).is_due(page, page.encode()) for page in pages for every in ("all", None))


def test_the_news_choose_the_pages_that_are_visited_although_they_are_not_due(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [f"page {number}" for number in range(100)]
    monkeypatch.setattr(of_runs, "_news", lambda: "- One line")
    before = [page for page in pages if is_in_the_fifth(page)]
    assert before == [page for page in pages if is_in_the_fifth(page)]
    monkeypatch.setattr(of_runs, "_news", lambda: "- Another line")
    assert before != [page for page in pages if is_in_the_fifth(page)]


def test_a_visited_page_is_noted_with_the_looks_that_it_had() -> None:
    one = sweep("all")
    one.is_due("a page", b"looks")
    assert one._node.user_properties == [(PAGE, ("a page", hashlib.sha256(b"looks").hexdigest()[:16]))]
