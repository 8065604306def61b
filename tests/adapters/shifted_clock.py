"""A clock that goes right and shows a wrong time."""

from datetime import UTC, datetime, timedelta


class ShiftedClock:
    """Implements `ports.system.Clock`."""

    def __init__(self, ahead: timedelta) -> None:
        self.ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead
