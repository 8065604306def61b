"""Jobs: work that no request waits for, and the rules of trying it again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from core.domain.identifiers import JobId
from core.domain.json import Json


class JobState(StrEnum):
    WAITING = "waiting"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential pauses: `first`, doubled each time up to `longest`; given up once the job is `give_up_after` old or `most_attempts` were
    made.
    """

    first: timedelta
    longest: timedelta
    give_up_after: timedelta | None = None
    most_attempts: int | None = None

    def pause(self, attempts: int, spread: float) -> timedelta:
        """The wait after the `attempts`-th failure. `spread`, in [0, 1), comes from the caller: up to a fifth is added, so that a crowd
        does not return in step.
        """
        doublings = min(attempts - 1, 32)
        wait: timedelta = min(self.first * 2**doublings, self.longest)
        return wait * (1 + spread / 5)

    def gives_up(self, attempts: int, created_at: datetime, next_at: datetime) -> bool:
        if self.most_attempts is not None and attempts >= self.most_attempts:
            return True
        return self.give_up_after is not None and next_at - created_at > self.give_up_after


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be queued. With `sealed` its payload is stored encrypted: a payload that carries a usable link or token must be.
    `priority` is 1 for what goes first, 0, or -1 for what can wait.
    """

    kind: str
    payload: Mapping[str, Json]
    sealed: bool = False
    run_at: datetime | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job. `attempts` counts this one. The id is stable over all attempts: receivers can recognise a repeat by it. The lease is
    another at each claim: who has lost it can no longer say anything about the job.
    """

    id: JobId
    kind: str
    payload: Mapping[str, Json]
    attempts: int
    created_at: datetime
    leased_until: datetime
    lease: UUID


@dataclass(frozen=True, slots=True)
class QueueState:
    """What an operator wants to know of one kind of job."""

    kind: str
    waiting: int
    dead: int
    oldest_due: datetime | None
