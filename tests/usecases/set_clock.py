"""A clock that does not go."""

from datetime import UTC, datetime, timedelta


class SetClock:
    """Its time is what the test says."""

    def __init__(self, at: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def pass_(self, time: timedelta) -> None:
        self.at += time
