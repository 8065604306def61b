"""A clock that does not go."""

from datetime import datetime


class SetClock:
    """Its time is what the test says."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at
