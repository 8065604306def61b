"""The database as a whole: whether it answers, and how it is doing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from ports.metrics import PoolState, Population


class RoundTrips(Protocol):
    """Counts how often the tasks of one context have waited for the database's answer."""

    @property
    def count(self) -> int: ...

    def stop(self) -> None:
        """Stop counting. Only the task that began to count calls this."""


class Database(Protocol):
    """Only PostgreSQL implements it."""

    async def ping(self) -> bool:
        """A trivial query, within a second. Never raises."""

    async def write_failure(self) -> str | None:
        """Says in two or three words, which anybody may read, why writes fail. None while writes succeed, as far as is known. Answers
        within a second. Never raises.
        """

    def count_round_trips(self) -> RoundTrips:
        """Begin to count the round trips of this task and of the tasks that it starts."""

    def refused(self, error: Exception) -> bool:
        """Whether the error is the database's refusal of a statement of ours. Such a refusal is a bug; failures that pass by themselves are
        `Unavailable`.
        """

    async def clock(self) -> datetime: ...

    async def population(self) -> Population:
        """The cost is bounded: where an exact count would read a whole table, the number is an estimate."""

    def pool_state(self) -> PoolState: ...

    async def give_up_hung(self) -> int:
        """Ends the waits for a server that does not work on the statement any more. Within seconds. Returns how many waits. Raises no
        database error.
        """


class Housekeeping(Protocol):
    """One kind of rows that the janitor sweeps. Each call deletes at most one small batch and returns how many rows it deleted. The janitor
    comes back for more. PostgreSQL implements it, once for each kind.
    """

    async def delete_expired(self, limit: int) -> int: ...


class Partitions(Protocol):
    """A table that is cut by month, so that retention drops a month instead of deleting its rows. PostgreSQL implements it."""

    @property
    def table(self) -> str: ...

    async def make(self) -> Sequence[str]:
        """Makes the parts of this month and the next ones, where they are missing. Returns their names."""

    async def drop(self) -> Sequence[str]:
        """Drops the parts whose last row is older than the retention, unless something in them still waits. Returns their names."""

    async def ahead(self) -> timedelta:
        """How long there will be a part for what comes."""
