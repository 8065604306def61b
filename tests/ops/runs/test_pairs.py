"""A walk by pairs leaves out combinations, and no two values that meet (`tests/runs/pairs.py`)."""

from itertools import combinations, product

import pytest

from tests.runs.pairs import CHOSEN, by_pairs, chosen
from tests.security.accounts import test_pre_hijacking, test_whose_account

CASES = [case for case in product("abcd", (0, 1, 2), "vwxyz", (True, False)) if case[0] != "a" or case[1] == 0]


def pairs(cases: object) -> set[object]:
    return {pair for case in cases for pair in combinations(enumerate(case), 2)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("cases", "most"), [(CASES, 25), (test_whose_account.CASES, 130), (test_pre_hijacking.CASES, 30)])
def test_all_that_meets_meets_in_the_choice(cases: list[tuple[object, ...]], most: int) -> None:
    few = chosen(cases)
    assert pairs(few) == pairs(cases)
    assert set(few) <= set(cases)
    assert len(few) == len(set(few)) <= most


def test_a_case_that_only_it_sees_can_stay() -> None:
    stays = ("d", 2, "z", False)
    assert stays in chosen(CASES, beside=[stays])
    assert pairs(chosen(CASES, beside=[stays])) == pairs(CASES)


def test_a_package_that_is_due_walks_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOSEN, raising=False)
    assert by_pairs("ownership", CASES) == CASES
    monkeypatch.setenv(CHOSEN, "others")
    assert by_pairs("ownership", CASES) == CASES
    monkeypatch.setenv(CHOSEN, "others,ownership")
    assert by_pairs("ownership", CASES) == chosen(CASES)
