"""Jobs: work that no request waits for, and the rules for repeated attempts."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import JobId, UserId
from core.frozen import Frozen

# The priority of jobs that can wait until nothing else is queued.
CAN_WAIT: Final = -1


class JobState(StrEnum):
    WAITING = "waiting"
    DEAD = "dead"


class Retry(Frozen):
    """Exponential pauses: `first`, doubled each time up to `longest`. The job is given up when its age exceeds `give_up_after`, or after
    `most_attempts`.
    """

    first: timedelta
    longest: timedelta
    give_up_after: timedelta | None = None
    most_attempts: int | None = None

    def pause(self, attempts: int, spread: float) -> timedelta:
        """The pause after the `attempts`-th failure. `spread`, in [0, 1), adds up to a fifth, so that many jobs that failed together do not
        all return at the same moment.
        """
        doublings = min(attempts - 1, 32)
        wait: timedelta = min(self.first * 2**doublings, self.longest)
        return wait * (1 + spread / 5)

    def gives_up(self, attempts: int, created_at: datetime, next_at: datetime) -> bool:
        if self.most_attempts is not None and attempts >= self.most_attempts:
            return True
        return self.give_up_after is not None and next_at - created_at > self.give_up_after


class NewJob(Frozen):
    """A job to be queued. `sealed` stores the payload encrypted; a payload with a usable link or token must be sealed. `priority` is 1 for
    jobs that go first, 0 for most, and `CAN_WAIT` for jobs that can wait. With `only_for`, the job is queued only if an account has this
    id.
    """

    kind: str
    payload: Mapping[str, Json]
    sealed: bool = False
    run_at: datetime | None = None
    priority: int = 0
    only_for: UserId | None = None


class Job(Frozen):
    """A claimed job. `attempts` includes the present one. The id stays the same over all attempts, so that receivers can recognise a
    repeat. Each claim has its own lease, and a worker that has lost its lease can no longer change the job. The job
    follows from the `request`, if any.
    """

    id: JobId
    kind: str
    payload: Mapping[str, Json]
    attempts: int
    created_at: datetime
    leased_until: datetime
    lease: UUID
    priority: int = 0
    request: UUID | None = None


class DeadJob(Frozen):
    """A job that was given up, as an operator sees it. The payload stays closed: it may hold a link or a token."""

    id: JobId
    kind: str
    attempts: int
    last_error: str | None
    created_at: datetime
    died_at: datetime


class QueueState(Frozen):
    """The numbers that an operator needs about one kind of job."""

    kind: str
    waiting: int
    dead: int
    oldest_due: datetime | None
