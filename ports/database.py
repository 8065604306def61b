"""The database as a whole: is it there, how is it doing."""

from datetime import datetime
from typing import Protocol

from ports.metrics import PoolState, Population


class Database(Protocol):
    async def ping(self) -> bool:
        """A trivial query, within a second. Never raises."""

    async def clock(self) -> datetime: ...

    async def population(self) -> Population:
        """Bounded in cost: estimates where exact counts would scan."""

    def pool_state(self) -> PoolState: ...


class Housekeeping(Protocol):
    """What the janitor sweeps. Each call deletes at most one small batch and says how many went; the janitor comes back for more."""

    async def delete_expired(self, limit: int) -> int: ...
