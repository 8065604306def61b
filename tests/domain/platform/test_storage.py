"""How fast tables grow, and until when a disk lasts."""

from datetime import date

import pytest

from core.domain.platform.installation import Storage, StoredTable

TODAY = date(2026, 11, 23)


def storage(*grew: int | None, since: date | None = date(2026, 11, 13)) -> Storage:
    return Storage(TODAY, since, 10_000, [StoredTable(f"t{number}", 1, 1_000, 0.0, one) for number, one in enumerate(grew)])


def test_growth_is_told_by_the_day() -> None:
    found = storage(1_000, 500, -500)
    assert [found.grows(one) for one in found.tables] == [100.0, 50.0, -50.0]
    assert found.all_grow == 100.0


@pytest.mark.parametrize(("grew", "since"), [((None, None), None), ((5,), TODAY), ((), date(2026, 11, 1))])
def test_nothing_is_known_before_the_second_day(grew: tuple[int | None, ...], since: date | None) -> None:
    found = storage(*grew, since=since)
    assert found.all_grow is None
    assert found.lasts_until(1) is None


@pytest.mark.parametrize(
    ("free", "until"),
    [(0, TODAY), (950, date(2026, 12, 2)), (1_000, date(2026, 12, 3)), (36_499 * 100, date(2126, 10, 29)), (36_500 * 100, None)],
)
def test_a_disk_lasts_as_long_as_its_space(free: int, until: date | None) -> None:
    assert storage(1_000).lasts_until(free) == until


def test_what_does_not_grow_lasts() -> None:
    assert storage(0, -5).lasts_until(1) is None
