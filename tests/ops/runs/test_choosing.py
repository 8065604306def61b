"""Of what each case reached, two cheap cases are chosen for each function and each branch (`tests/runs/choosing.py`)."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ops.near import WALKS
from ops.runs import chosen as of_list
from ops.runs.chosen import Chosen, Listed
from tests.runs import choosing
from tests.runs.choosing import chosen_of, thinned, two_of_each
from tests.runs.packages import digest_of
from tests.runs.recorded import OfCase, OfWorker, Recording, bits, those

FILE = "tests/domain/test_email.py"
NOTHING = Chosen(files={}, chosen=0, among=0)


def case(price: float, *numbers: int, passed: bool = True) -> OfCase:
    return OfCase(seconds=price, price=price, passed=passed, reached=bits(numbers))


def recording(cases: Mapping[str, OfCase], names: Sequence[str] = ("f", "g", "h"), *, green: bool = True, whole: bool = True) -> Recording:
    digests = {name.partition("::")[0]: "abc" for name in cases}
    worker = OfWorker(names=names, cases=cases, files={}, seconds={FILE: 5.0}, digests=digests)
    return Recording(workers=[worker], whole=whole, green=green)


def test_the_two_cheapest_cases_of_each_are_chosen() -> None:
    cases = {"dear": case(8, 0), "cheap": case(1, 0), "cheaper": case(0.1, 0), "alone": case(90, 0, 1), "nothing": case(0.1)}
    assert sorted(two_of_each(cases, NOTHING)) == ["alone", "cheap", "cheaper"]


def test_a_case_of_more_than_ten_seconds_is_chosen_only_for_what_nothing_cheaper_reaches() -> None:
    assert two_of_each({"cheap": case(1, 0), "dear": case(10.1, 0)}, NOTHING) == ["cheap"]
    assert sorted(two_of_each({"cheap": case(1, 0), "dear": case(10.1, 0, 1)}, NOTHING)) == ["cheap", "dear"]
    assert sorted(two_of_each({"cheap": case(1, 0), "less cheap": case(9.9, 0)}, NOTHING)) == ["cheap", "less cheap"]


def test_a_case_that_did_not_pass_is_not_chosen() -> None:
    assert two_of_each({"red": case(1, 0, passed=False), "green": case(9, 0)}, NOTHING) == ["green"]


def test_a_chosen_case_stays_until_another_costs_less_than_half() -> None:
    """Otherwise each run would choose others, by the mood of the machine."""
    cases = {f"{FILE}::{name}": case(price, 0) for name, price in (("a", 1.0), ("b", 1.1), ("c", 1.2), ("d", 1.3))}
    before = Chosen(files={FILE: Listed(digest="abc", seconds=1, cases=["c", "d"])}, chosen=2, among=4)
    assert sorted(two_of_each(cases, before)) == [f"{FILE}::c", f"{FILE}::d"]
    assert sorted(two_of_each({**cases, f"{FILE}::a": case(0.1, 0)}, before)) == [f"{FILE}::a", f"{FILE}::c"]


@pytest.mark.parametrize("seed", range(20))
def test_everything_that_two_cases_reach_is_reached_by_two_chosen_ones(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same each time is meant
    cases = {str(name): case(draw.random(), *draw.sample(range(50), draw.randrange(20))) for name in range(40)}
    chosen = two_of_each(cases, NOTHING)
    for number in range(50):
        reaching = [name for name, one in cases.items() if one.reached >> number & 1]
        assert len({*reaching} & {*chosen}) >= min(2, len(reaching))


@pytest.mark.parametrize("seed", range(20))
def test_a_case_of_which_everything_is_reached_twice_without_it_can_be_left_out(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - the same each time is meant
    cases = {str(name): case(draw.random(), *draw.sample(range(20), draw.randrange(10))) for name in range(40)}
    chosen = two_of_each(cases, NOTHING)
    kept = thinned(chosen, cases)
    assert set(kept) < set(chosen)
    for number in range(20):
        reaching = [name for name, one in cases.items() if one.reached >> number & 1]
        assert len({*reaching} & {*kept}) >= min(2, len(reaching))


def test_the_list_has_the_chosen_cases_and_of_files_that_always_run_all() -> None:
    cases = {
        f"{FILE}::a": case(1, 0),
        f"{FILE}::b": case(2, 0),
        f"{FILE}::c": case(4, 0),
        f"{FILE}::d": case(8, 0),
        f"{WALKS[0]}::a": case(1, 1),
    }
    found = chosen_of(recording(cases), cases, [f"{FILE}::a", f"{FILE}::b", f"{FILE}::d", f"{FILE}::gone"], NOTHING)
    assert found.files[FILE] == Listed(digest="abc", seconds=16.0, cases=["a", "b", "d"])
    assert found.files[WALKS[0]] == Listed(digest="abc", seconds=1.0, cases=None)
    assert (found.chosen, found.among) == (4, 5)
    # A file of which nothing ran is no new file.
    assert found.files["tests/domain/test_rate_limits.py"].cases == []
    assert found.files["tests/domain/test_rate_limits.py"].digest == digest_of(["tests/domain/test_rate_limits.py"])


def test_workers_number_what_is_reached_each_in_its_way(tmp_path: Path) -> None:
    one, other = recording({"a": case(1, 0, 2)}), recording({"b": case(1, 0)}, ["h", "new"])
    Recording(workers=[*one.workers, *other.workers], whole=True, green=False).write(tmp_path / "recorded")
    read = Recording.read(tmp_path / "recorded")
    names, cases = read.numbered()
    assert {name: list(those(names, one.reached)) for name, one in cases.items()} == {"a": ["f", "h"], "b": ["h"]}
    assert (read.whole, read.green, cases["a"].price, cases["a"].passed) == (True, False, 1, True)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(of_list, "LIST", tmp_path / "chosen.txt")
    monkeypatch.setattr(choosing, "RECORDED", tmp_path / "recorded.json.gz")
    monkeypatch.setattr(choosing, "OF_CHOSEN", tmp_path / "recorded-chosen.json.gz")
    monkeypatch.setattr(choosing, "SEEN", tmp_path / "kept-seen.txt")
    (tmp_path / "kept-seen.txt").touch()
    return tmp_path


CASES = {f"{FILE}::a": case(1, 0)}


def test_what_saw_a_kept_mutation_is_chosen(places: Path) -> None:
    recording({**CASES, f"{FILE}::dear": case(9), f"{FILE}::dearer": case(10)}).write(places / "recorded.json.gz")
    (places / "kept-seen.txt").write_text(f"{FILE}::dear\n{FILE}::gone\n")
    assert choosing.main([]) == 0
    assert Chosen.read().files[FILE].cases == ["a", "dear"]


@pytest.mark.parametrize(
    ("green", "whole", "seen"), [(False, True, True), (True, False, True), (True, True, False)], ids=["red", "a part", "no mutations"]
)
def test_only_a_green_check_of_everything_chooses(places: Path, green: bool, whole: bool, seen: bool) -> None:
    recording(CASES, green=green, whole=whole).write(places / "recorded.json.gz")
    if not seen:
        (places / "kept-seen.txt").unlink()
    with pytest.raises(SystemExit, match="Only a green `make check-all` chooses"):
        choosing.main([])
    assert not (places / "chosen.txt").exists()
    assert choosing.main(["--first"]) == 0
    assert " a\n" in (places / "chosen.txt").read_text()


def test_a_listed_case_that_is_gone_is_red_and_the_new_list_is_written(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The step before the last would be red for ever, if nothing wrote the list."""
    recording(CASES).write(places / "recorded.json.gz")
    Chosen(files={FILE: Listed(digest="abc", seconds=1, cases=["a", "of_old"])}, chosen=2, among=2).write()
    assert choosing.main([]) == 1
    assert f"{FILE}::of_old was listed and is gone. Commit the new list.\n" in capsys.readouterr().out
    assert choosing.main([]) == 0


def test_a_run_of_the_part_is_compared_with_the_whole(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["core/a.py:f", "core/a.py:g", "core/a.py:3>0", "core/a.py:3>1"]
    recording({"a": case(1, 0, 1, 2, 3)}, names).write(places / "recorded.json.gz")
    recording({"a": case(1, 0, 1, 2)}, names).write(places / "recorded-chosen.json.gz")
    assert choosing.main(["--compare"]) == 0
    said = capsys.readouterr().out
    assert "functions: 2 of 2, 100.0 %" in said
    assert "branches of core: 1 of 2, 50.0 %. Missed:\n  core/a.py:3>1" in said
