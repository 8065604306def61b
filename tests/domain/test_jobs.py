"""The time of a job's next try, and the last try."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from core.domain.jobs import Retry

START = datetime(2026, 1, 1, tzinfo=UTC)
RETRY = Retry(first=timedelta(seconds=30), longest=timedelta(hours=1), give_up_after=timedelta(days=1))


def test_pauses_double_up_to_the_longest() -> None:
    pauses = [RETRY.pause(attempts, spread=0).total_seconds() for attempts in range(1, 10)]
    assert pauses == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


@given(st.integers(min_value=1, max_value=10**6), st.floats(min_value=0, max_value=1, exclude_max=True))
def test_the_spread_adds_at_most_a_fifth(attempts: int, spread: float) -> None:
    plain = RETRY.pause(attempts, spread=0)
    assert plain <= RETRY.pause(attempts, spread=spread) <= plain * 1.2


def test_it_gives_up_when_the_next_attempt_would_come_too_late() -> None:
    assert not RETRY.gives_up(9, START, START + timedelta(days=1))
    assert RETRY.gives_up(9, START, START + timedelta(days=1, seconds=1))


def test_it_gives_up_after_the_most_attempts() -> None:
    five = Retry(first=timedelta(seconds=1), longest=timedelta(minutes=8), most_attempts=5)
    assert not five.gives_up(4, START, START + timedelta(days=365))
    assert five.gives_up(5, START, START)


def test_without_a_limit_it_never_gives_up() -> None:
    endless = Retry(first=timedelta(seconds=1), longest=timedelta(minutes=8))
    assert not endless.gives_up(10**6, START, START + timedelta(days=365))
