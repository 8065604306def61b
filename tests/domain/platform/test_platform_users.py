"""The counts of second factors."""

import pytest

from core.domain.platform.platform_users import MfaMetrics


@pytest.mark.parametrize(
    ("users", "enabled", "percent"), [(0, 0, 0.0), (3, 1, 33.33), (8, 1, 12.5), (5, 5, 100.0), (150_000, 150_100, 100.0)]
)
def test_adoption_is_a_percentage(users: int, enabled: int, percent: float) -> None:
    assert MfaMetrics(users, enabled, 0, 0).adoption == percent
