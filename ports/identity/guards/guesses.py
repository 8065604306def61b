"""Counts of guesses over many accounts."""

from typing import Protocol

from core.domain.identity.guards.guesses import FailedGuess


class GuessStore(Protocol):
    async def count(self, guess: FailedGuess) -> None:
        """Counts it, and notes what is no coincidence, without a round trip of its own."""
