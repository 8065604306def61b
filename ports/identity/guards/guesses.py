"""Counts of guesses over many accounts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from core.domain.identity.guards.guesses import FailedGuess, GuessAlert


class GuessStore(Protocol):
    """`count` needs a unit of work, and has no round trip of its own. `find_alerts` is asked outside one."""

    async def count(self, guess: FailedGuess) -> None: ...

    async def find_alerts(self, since: datetime, limit: int) -> Sequence[GuessAlert]:
        """Guesses about no one person, latest first."""
