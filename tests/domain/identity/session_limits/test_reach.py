"""Which changes of the limits of sessions can end any."""

import pytest

from core.domain.identity.session_limits import SessionLimits, reaches_anybody

NOTHING = SessionLimits(None, None, None)


@pytest.mark.parametrize(
    ("before", "after", "reaches"),
    [
        (NOTHING, NOTHING, False),
        (NOTHING, SessionLimits(8, None, None), True),
        (NOTHING, SessionLimits(None, 30, None), True),
        (NOTHING, SessionLimits(None, None, 2), True),
        (SessionLimits(8, 30, 2), SessionLimits(8, 30, 2), False),
        (SessionLimits(8, 30, 2), SessionLimits(9, 31, 3), False),
        (SessionLimits(8, 30, 2), NOTHING, False),
        (SessionLimits(8, 30, 2), SessionLimits(9, 30, 1), True),
    ],
)
def test_only_what_becomes_shorter_or_fewer_ends_sessions(before: SessionLimits, after: SessionLimits, *, reaches: bool) -> None:
    assert reaches_anybody(before, after) is reaches
