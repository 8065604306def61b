"""A run of the chosen part runs what is listed, whole files where they are new or changed, and writes nothing about the whole."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ops.runs import chosen as of_list
from ops.runs.chosen import WHOLE, Chosen, Listed, is_whole
from tests.places import ROOT
from tests.runs.chosen import Plan, beginning
from tests.runs.packages import digest_of
from tests.runs.shares import all_files

ONE = "tests/domain/test_email.py"
TWO = "tests/domain/test_rate_limits.py"
OF_ONE = "test_addresses_that_differ_in_case_or_normal_form_are_the_same[Ada@Example.com-ada@example.COM]"


def listed(file: str, cases: Sequence[str] | None, seconds: float = 1.0, digest: str = "") -> Listed:
    return Listed(digest=digest or digest_of([file]), seconds=seconds, cases=cases)


def chosen(files: Mapping[str, Listed]) -> Chosen:
    return Chosen(files=files, chosen=3, among=4)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(of_list, "LIST", tmp_path / "chosen.txt")
    return tmp_path / "chosen.txt"


def test_the_list_has_a_case_a_line_and_the_digest_of_each_file_beside_its_name(place: Path) -> None:
    one = listed(ONE, ["test_b[with a blank]", "test_a"], 0.25, "abc")
    before = chosen({TWO: listed(TWO, None, 12, "def"), ONE: one, "tests/test_none.py": listed(ONE, [], 0, "012")})
    before.write()
    assert place.read_text().splitlines()[1:] == [
        f"{ONE} abc 0.2",
        " test_a",
        " test_b[with a blank]",
        f"{TWO} def 12.0",
        " *",
        "tests/test_none.py 012 0.0",
    ]
    read = Chosen.read()
    assert (read.chosen, read.among) == (3, 4)
    assert {file: one.cases for file, one in read.files.items()} == {
        ONE: ["test_a", "test_b[with a blank]"],
        TWO: None,
        "tests/test_none.py": [],
    }
    read.write()
    assert Chosen.read() == read


@pytest.mark.usefixtures("place")
def test_without_a_list_everything_runs() -> None:
    plan = Plan.of(Chosen.read(), [ONE, TWO], {})
    assert plan.cases == {ONE: None, TWO: None}
    assert beginning(Chosen.read(), plan, 6)[0] == "chosen.txt lists nothing yet, so this runs every test."


def test_a_new_or_changed_file_runs_whole_and_one_of_which_nothing_is_chosen_does_not_run() -> None:
    changed = chosen({ONE: listed(ONE, ["test_a"], digest="0" * 16), TWO: listed(TWO, [])})
    plan = Plan.of(changed, [ONE, TWO, "tests/domain/test_new.py"], {ONE: 9.0, TWO: 9.0})
    assert plan.cases == {ONE: None, "tests/domain/test_new.py": None}
    assert plan.seconds == {ONE: 9.0, TWO: 1.0}
    assert plan.changed == [ONE, "tests/domain/test_new.py"]


def test_shares_follow_the_seconds_of_the_chosen_cases() -> None:
    files = {ONE: listed(ONE, ["test_a"], 30.0), TWO: listed(TWO, ["test_a"], 90.0)}
    plan = Plan.of(chosen(files), [ONE, TWO], {ONE: 1000.0, TWO: 1000.0})
    assert (plan.longest(1), plan.longest(2)) == (120.0, 90.0)


def test_a_run_says_first_what_it_does_and_how_long_that_takes(place: Path) -> None:
    files = chosen({ONE: listed(ONE, ["test_a"], 301.0)})
    files.write()
    plan = Plan.of(files, [ONE, *(f"tests/test_{number}.py" for number in range(7))], {})
    assert place.exists()
    first, check, how_long, whole = beginning(files, plan, 1)
    assert first.startswith("This runs a chosen part of the tests, 3 of 4 cases: ")
    assert check.endswith("`make check` runs every test, as CI does.")
    assert how_long == "It takes about 6 minutes on two processors."
    assert whole.endswith(" run whole: tests/test_0.py, tests/test_1.py, tests/test_2.py, tests/test_3.py, tests/test_4.py, and 2 more.")


def test_of_the_rules_of_the_house_and_the_walks_every_case_is_chosen() -> None:
    for one in WHOLE:
        assert (ROOT / one).exists(), one
    assert is_whole("tests/house/test_nouns.py")
    assert is_whole("tests/security/test_cross_tenant.py")
    assert not is_whole("tests/security/test_credentials.py")


def run(*arguments: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**inherited, **environment}, capture_output=True, text=True, check=False)


@pytest.fixture
def others() -> Mapping[str, Listed]:
    """No other file of tests has anything chosen."""
    return {file: listed(file, []) for file in all_files()}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_has_the_listed_cases_alone_and_names_what_is_gone(place: Path, others: Mapping[str, Listed], workers: str) -> None:
    chosen({**others, ONE: listed(ONE, [OF_ONE, "test_long_ago"]), "tests/test_of_old.py": listed(ONE, ["test_a"])}).write()
    before = written_about_the_whole()
    done = run("-n", workers, "--dist", "each", "--chosen", environment={"TESTS_CHOSEN": str(place)})
    assert "\n1 passed in " in done.stdout.replace("=", "").replace("\n ", "\n"), done.stdout + done.stderr
    assert f"{ONE}::test_long_ago is listed in chosen.txt and is gone.\n" in done.stdout
    assert "tests/test_of_old.py::test_a is listed in chosen.txt and is gone.\n" in done.stdout
    assert done.stdout.startswith("This runs a chosen part of the tests, 3 of 4 cases: ")
    assert done.returncode == 0
    assert written_about_the_whole() == before


def written_about_the_whole() -> Mapping[str, bytes]:
    places = [ROOT / "tests" / "checked.json", ROOT / "tests" / "seconds.json", *sorted((ROOT / "tests" / "reached").iterdir())]
    return {place.name: place.read_bytes() for place in places}


def test_a_part_that_says_what_it_reached_writes_nothing_about_the_whole(place: Path, others: Mapping[str, Listed], tmp_path: Path) -> None:
    chosen({**others, ONE: listed(ONE, [OF_ONE])}).write()
    places = {"TESTS_CHOSEN": str(place), "TESTS_RECORDED": str(tmp_path / "recorded.json.gz"), "TESTS_REACHED": str(tmp_path / "reached")}
    done = run("-n", "1", "--dist", "each", "--chosen", "--reached", ONE, environment=places)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["chosen.txt", "recorded-chosen.json.gz"]


@pytest.mark.parametrize("about_the_whole", [("--packages", "due"), ("--packages", "all"), ("--seconds",), ("--coverage",)])
def test_what_says_something_of_the_whole_does_not_go_with_a_part(about_the_whole: Sequence[str]) -> None:
    """So no case has a second try either: `tests/runs/luck.py` gives one in a run with `--packages` alone."""
    done = run("-n", "0", "--chosen", *about_the_whole, ONE, environment={})
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--chosen runs a part." in done.stderr


WAITS_IN_VAIN = """
import pytest
import trio


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call():
    raise trio.TooSlowError
"""


@pytest.mark.parametrize(("options", "status"), [(("--chosen",), 1), (("--packages", "due"), 0)], ids=["the part", "the whole"])
def test_a_case_of_the_part_that_waited_in_vain_has_no_second_try(
    place: Path, others: Mapping[str, Listed], tmp_path: Path, options: Sequence[str], status: int
) -> None:
    chosen({**others, ONE: listed(ONE, [OF_ONE])}).write()
    (tmp_path / "waits_in_vain.py").write_text(WAITS_IN_VAIN)
    (tmp_path / "checked.json").write_text(json.dumps({"files": {ONE: digest_of([ONE])}}))
    places = {"TESTS_CHOSEN": str(place), "TESTS_CHECKED": str(tmp_path / "checked.json"), "PYTHONPATH": str(tmp_path)}
    done = run("-n", "0", "-p", "waits_in_vain", *options, f"{ONE}::{OF_ONE}", environment=places)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("Waited in vain, and passed alone." in done.stdout) is (status == 0)
