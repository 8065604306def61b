"""Rows that are left of things which are deleted at once and removed in batches."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from core.frozen import Frozen


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
