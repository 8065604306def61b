"""`make check` runs each test file in exactly one worker."""

from collections import Counter

import pytest

from tests.runs.shares import all_files, measured, shares


@pytest.mark.parametrize("workers", [1, 2, 6, 7])
def test_each_file_is_in_exactly_one_share(workers: int) -> None:
    found = shares(all_files(), measured(), workers)
    assert len(found) == workers
    assert Counter(file for share in found for file in share) == Counter(all_files())


def test_long_files_do_not_come_together() -> None:
    seconds = {"long": 9.0, "longer": 10.0, "short": 1.0, "shorter": 0.5}
    assert [*map(set, shares([*seconds], seconds, 2))] == [{"longer", "shorter"}, {"long", "short"}]


def test_a_file_that_nobody_has_measured_counts_as_one_in_the_middle() -> None:
    found = shares(["new", "quick", "slow", "middle"], {"quick": 1.0, "middle": 2.0, "slow": 9.0}, 2)
    assert [*map(set, found)] == [{"slow"}, {"middle", "new", "quick"}]


def test_all_workers_compute_the_same_shares() -> None:
    """In whatever order a file system lists the files."""
    assert shares(all_files(), measured(), 6) == shares(list(reversed(all_files())), measured(), 6)
