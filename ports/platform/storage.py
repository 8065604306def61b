"""How much the tables hold, today and on former days."""

from typing import Protocol

from core.domain.platform.storage import Storage


class StorageSamples(Protocol):
    async def look(self) -> Storage:
        """The tables, the largest first."""

    async def keep(self) -> bool:
        """Keeps a sample of today, if there is none. Returns whether it did."""
