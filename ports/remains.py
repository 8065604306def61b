"""What is left of things that are deleted at once and removed in batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Swept:
    """One batch. The next begins after `last`; None when there was nothing left."""

    last: UUID | None
    rows: int


class Remains(Protocol):
    """Of one kind of thing, named by its id. Each call is a transaction of its own and touches nothing of others; all of it may be
    repeated, and by several at once.
    """

    @property
    def parts(self) -> Sequence[str]:
        """In the order in which they go."""

    async def sweep(self, part: str, owner: UUID, after: UUID | None, limit: int) -> Swept:
        """Take the next batch of a part away, of `limit` rows or little more. Nothing of what is not being deleted."""

    async def finish(self, owner: UUID) -> bool:
        """The thing itself, after its parts. False when it is gone already, or is not being deleted."""

    async def stranded(self, patience: timedelta, limit: int) -> Sequence[UUID]:
        """Deleted longer ago than this, and no job is there to take them away."""
