"""A walk of all combinations, and a choice of them in which each two values still meet.

A rule that fails does so for one value, or for two that meet. A package of `packages.toml` with `pairs = true` walks its choice in each
run, and everything when it is due.
"""

import os
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Final, TypeVar

CHOSEN: Final = "TESTS_BY_PAIRS"
"""The packages that walk by pairs in this run, with commas. The controller of a run says it to its workers."""
Case = TypeVar("Case", bound=tuple[Hashable, ...])


def by_pairs(package: str, cases: Sequence[Case], *, beside: Sequence[Case] = ()) -> Sequence[Case]:
    """All cases, or the choice if the package is not due. `beside` are cases that stay in any choice."""
    return chosen(cases, beside=beside) if package in os.environ.get(CHOSEN, "").split(",") else cases


def chosen(cases: Sequence[Case], *, beside: Sequence[Case] = ()) -> Sequence[Case]:
    """Cases in which each two values meet that meet in any case: each time the one with most pairs that are still missing."""
    missing = {pair for case in cases for pair in _pairs(case)} - {pair for case in beside for pair in _pairs(case)}
    found = list(beside)
    while missing:
        best = max(cases, key=lambda case: len(missing & _pairs(case)))
        found.append(best)
        missing -= _pairs(best)
    return sorted(found, key=cases.index)


def _pairs(case: tuple[Hashable, ...]) -> set[tuple[tuple[int, Hashable], ...]]:
    return set(combinations(enumerate(case), 2))
