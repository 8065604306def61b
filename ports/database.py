"""The database as a whole: whether it answers, how it is doing, and rows that are removed in batches."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from core.frozen import Frozen
from ports.metrics import DatabaseHost, PoolState


class RoundTrips(Protocol):
    """Counts how often the tasks of one context have waited for the database's answer."""

    @property
    def count(self) -> int: ...

    def stop(self) -> None:
        """Stop counting. Only the task that began to count calls this."""


class Database(Protocol):
    async def ping(self) -> bool:
        """A trivial query, within a second, which also compares the clocks. Never raises."""

    async def write_failure(self) -> str | None:
        """Says in two or three words, which anybody may read, why writes fail. None while writes succeed, as far as is known. Answers
        within a second. Never raises.
        """

    async def look_at_hosts(self) -> Sequence[DatabaseHost]:
        """Looks which of several hosts takes writes, if that is in doubt, and whether another one may be read meanwhile. Within seconds.
        Returns what is known of each. Empty if the address names one host. Raises no database error.
        """

    @property
    def hosts_without_writer(self) -> Sequence[DatabaseHost]:
        """All hosts, while one of them answers and none takes writes. Otherwise empty."""

    def count_round_trips(self) -> RoundTrips:
        """Begin to count the round trips of this task and of the tasks that it starts."""

    def refused(self, error: Exception) -> bool:
        """Whether the error is the database's refusal of a statement of ours. Such a refusal is a bug; failures that pass by themselves are
        `Unavailable`.
        """

    @property
    def clock_ahead(self) -> timedelta:
        """By how much the process's clock is ahead of the database's, by the last `ping` that had an answer. Negative: behind."""

    async def doubt_of_clock(self) -> str | None:
        """Why the clock cannot be believed, so that nothing is deleted for its age: `apart`, if the clocks of the process and of the
        database differ; `unseen`, if nothing was written for two days before the last hour.
        """

    def pool_state(self) -> PoolState: ...

    async def give_up_hung(self) -> int:
        """Ends the waits for a server that does not work on the statement any more. Within seconds. Returns how many waits. Raises no
        database error.
        """


class Housekeeping(Protocol):
    """One kind of rows that the janitor sweeps. Each call deletes at most one small batch and returns how many rows it deleted. The janitor
    comes back for more. PostgreSQL implements it, once for each kind.
    """

    @property
    def name(self) -> str:
        """Names the sweep in the log."""

    @property
    def is_prompt(self) -> bool:
        """Whether somebody waits for the sweep, so that the janitor looks in every round."""

    async def delete_expired(self, limit: int) -> int: ...


class Partitions(Protocol):
    """A table that is cut by month, so that retention drops a month instead of deleting its rows."""

    @property
    def table(self) -> str: ...

    async def make(self) -> Sequence[str]:
        """Makes the parts of this month and the next ones, where they are missing. Returns their names."""

    async def drop(self, up: timedelta) -> Sequence[str]:
        """Drops one part whose last row is older than the retention, unless something in it still waits. Returns its name. Drops none for a
        process that is `up` for less than an hour, nor while the clock cannot be believed.
        """

    async def in_the_way(self) -> Sequence[str]:
        """The months ahead that cannot be made, since a table that is none of ours has their name."""

    async def ahead(self) -> timedelta:
        """How long there will be a part for what comes, without a gap."""


class Swept(Frozen):
    """One batch. The next begins after `last`, which is None when nothing was left."""

    last: UUID | None
    rows: int


class DeletedRows(Protocol):
    """The rows of one kind of thing. Each call is a transaction and touches nothing that belongs to another thing. Every call may be
    repeated, also by several processes at once. PostgreSQL implements it, once for each kind.
    """

    @property
    def parts(self) -> Sequence[str]:
        """In the order in which they are removed."""

    async def sweep(self, part: str, owner: UUID, after: UUID | None, limit: int) -> Swept:
        """Remove the next batch of a part: `limit` rows, or a few more. Does nothing for a thing that is not being deleted."""

    async def finish(self, owner: UUID) -> bool:
        """Remove the thing itself, after its parts. False when it is gone already, or is not being deleted."""

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[UUID]:
        """Things that were deleted longer ago than `patience` and that no job will remove."""
