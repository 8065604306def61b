"""Work that no request waits for: the job queue, turns for what is expensive, and what long work tells of itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Protocol

from core.domain.identifiers import JobId, OrganizationId
from core.domain.jobs import DeadJob, Job, NewJob, QueueState


class JobStore(Protocol):
    """All methods need a unit of work."""

    async def add(self, job: NewJob) -> JobId:
        """Queue a job. It becomes visible to the workers, and the doorbell rings, when the transaction commits."""

    async def withdraw(self, kind: str) -> None:
        """Remove the waiting jobs of this kind, also one that a worker has claimed. A job that is added afterwards does their work."""

    async def revive(self, job: JobId) -> str | None:
        """A dead job waits again, as if it were new. Returns its kind; None when there is no such dead job."""


class JobQueue(Protocol):
    """The workers' side. Each call is a transaction of its own. PostgreSQL implements it; a message broker could."""

    async def claim(self, kinds: Sequence[str], limit: int, lease: timedelta) -> Sequence[Job]:
        """Up to `limit` due jobs, oldest first, leased to the caller. No other worker gets them before the lease has run out."""

    async def complete(self, job: Job) -> bool:
        """Done: the row goes away. False when the lease was lost meanwhile and somebody else has the job."""

    async def retry(self, job: Job, at: datetime, error: str) -> bool:
        """Failed for now. False when the lease was lost meanwhile."""

    async def postpone(self, job: Job, pause: timedelta, reason: str) -> bool:
        """Not tried, because something that the job needs is away: the attempt does not count. False when the lease was lost meanwhile."""

    async def bury(self, job: Job, error: str) -> bool:
        """Failed for good. The job is kept as dead, with its payload, for an operator to see and revive. False when the lease was lost
        meanwhile.
        """

    async def extend(self, job: Job, lease: timedelta) -> bool:
        """Extend the lease. False when it was lost meanwhile."""

    async def due_in(self, kinds: Sequence[str]) -> float | None:
        """The seconds until the next job falls due, or until the lease of one ends. Zero or less: a job is due. None when none waits."""

    async def state(self) -> Sequence[QueueState]: ...


class DeadJobLookup(Protocol):
    """Outside any unit of work."""

    async def dead(self, limit: int) -> Sequence[DeadJob]:
        """The jobs that died last."""


class Doorbell(Protocol):
    """Tells whoever waits for work that there is some. Work is not lost with a ring: a waiting actor looks by itself once in
    `actors.foundation.LONGEST_SILENCE`. PostgreSQL's NOTIFY implements it.
    """

    @property
    def reaches_others(self) -> bool:
        """Whether `ring` also reaches the other processes. In a command it does not: what the command writes must ring with its commit."""

    def connect(self, post: Callable[[], None], *topics: str) -> None:
        """From now on, every ring for one of these topics calls `post`, from any process. `post` is also called whenever rings may have
        been missed. It must neither wait nor fail.
        """

    def ring(self, topic: str) -> None:
        """Ring for the topic: at once in this process, and soon in the others, which hear of a topic at most five times a second."""

    def ring_here(self, topic: str) -> None:
        """Ring for the topic in this process alone, for work that one process at a time does for all."""


Advance = Callable[[int], None]


class ProgressDisplay(Protocol):
    """Work that may take minutes opens one for each of its parts, and calls what it gets with each bit that is done. A command shows a bar
    or lines, a server writes to its log, a test counts.
    """

    def __call__(self, title: str, total: int | None, unit: str, /) -> AbstractContextManager[Advance]:
        """`total` may be an estimate, and is None if nobody knows it. `unit` is a word in the plural. Without a unit, nothing is counted,
        and only the time is shown.
        """


@contextmanager
def unseen(_title: str, _total: int | None, _unit: str) -> Iterator[Advance]:
    """For work that nobody watches."""
    yield ignored


def ignored(_done: int) -> None:
    """An `Advance` that tells nobody."""


class Turns(Protocol):
    """Fair turns in the process implement it."""

    def take(self, organization: OrganizationId) -> AbstractAsyncContextManager[None]:
        """Surrounds expensive work. One piece of an organization's work runs at a time, and only a few in all. Raises `Overloaded` when too
        many of the organization's wait already, or when the wait is too long.
        """
