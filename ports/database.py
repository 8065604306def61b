"""The database as a whole: whether it is there, and how it is doing."""

from datetime import datetime
from typing import Protocol

from ports.metrics import PoolState, Population


class RoundTrips(Protocol):
    """How often the tasks of one context have waited for the database's answer."""

    @property
    def count(self) -> int: ...

    def stop(self) -> None:
        """Stop counting. For the task that began it."""


class Database(Protocol):
    async def ping(self) -> bool:
        """A trivial query, within a second. Never raises."""

    async def write_failure(self) -> str | None:
        """Why writes fail, in two or three words for anybody's eyes. None while they succeed, as far as is known. Within a second. Never
        raises.
        """

    def count_round_trips(self) -> RoundTrips:
        """Begin to count, in this task and in those that it starts."""

    def refused(self, error: Exception) -> bool:
        """Whether this is the database's refusal of a statement of ours. That is a bug: what passes by itself is `Unavailable`."""

    async def clock(self) -> datetime: ...

    async def population(self) -> Population:
        """Bounded in cost: estimates where exact counts would read whole tables."""

    def pool_state(self) -> PoolState: ...


class Housekeeping(Protocol):
    """What the janitor sweeps. Each call deletes at most one small batch and returns how many rows went. The janitor
    comes back for more.
    """

    async def delete_expired(self, limit: int) -> int: ...
