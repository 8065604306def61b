"""Claims whose answer got lost: the rows are leased, and nobody knows that it holds them.

So a claim brings the id of its lease along. When its answer got lost, the next claim of the same work brings the same id again, and takes
the rows that are leased under it already. Otherwise they would wait until the lease has run out: after a failover, each receiver of
webhooks for a minute.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4


class LostClaims:
    """Of one queue in one process."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[Hashable, UUID] = {}

    @contextmanager
    def lease(self, work: Hashable) -> Iterator[UUID]:
        """The id for a claim of this work. The block ends with an exception if the answer did not come."""
        lease = self._ids.pop(work, None) or uuid4()
        try:
            yield lease
        except BaseException:
            self._ids[work] = lease
            raise
