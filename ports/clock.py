"""The time: always UTC, with its time zone."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The system has one, and tests have one that they set."""

    def now(self) -> datetime: ...
