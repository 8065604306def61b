"""Caches the custom texts of the installation and the rules for approvals, which every page needs."""

from datetime import datetime

from core.domain.texts.own_texts import InstallationWords
from ports.system import Clock
from ports.texts import InstallationWordsLookup


class KeptInstallationWords:
    """Implements `ports.texts.SpokenInstallationWords`."""

    def __init__(self, lookup: InstallationWordsLookup, clock: Clock) -> None:
        self._lookup = lookup
        self._clock = clock
        self._current = InstallationWords()

    @property
    def current(self) -> InstallationWords:
        return self._current

    def now(self) -> datetime:
        return self._clock.now()

    async def read(self) -> None:
        """Raises `Unavailable` and `Overloaded`: then what was read before stays in force."""
        self._current = await self._lookup.get()
