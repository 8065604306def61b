"""A job queue in memory, on Trio's clock, so that tests see hours of a worker in an instant. Other tests check the guarantees of the queue
itself on PostgreSQL.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import trio

from core.domain.errors import Unavailable
from core.domain.identifiers import JobId
from core.domain.jobs import Job, QueueState
from core.frozen import replace

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class TrioClock:
    def now(self) -> datetime:
        return _START + timedelta(seconds=trio.current_time())


@dataclass(slots=True)
class _Row:
    job: Job
    due: datetime
    state: str = "waiting"
    errors: list[str] = field(default_factory=list)


class KeptQueue:
    """Implements `ports.jobs.JobQueue`. Until `away_until` the queue is away; `calls` lists the calls with their times."""

    def __init__(self) -> None:
        self.clock = TrioClock()
        self.rows: dict[JobId, _Row] = {}
        self.calls: list[tuple[str, float]] = []
        self.away_until = 0.0

    def add(self, kind: str = "work", *, due_in: float = 0, priority: int = 0) -> JobId:
        now = self.clock.now()
        job = Job(JobId(uuid4()), kind, {}, 0, now, now, uuid4(), priority)
        self.rows[job.id] = _Row(job, now + timedelta(seconds=due_in))
        return job.id

    def steal(self, id: JobId) -> None:  # noqa: A002 - the noun's own word
        """As if the lease had run out, and another worker had claimed the job."""
        self.rows[id].job = replace(self.rows[id].job, lease=uuid4(), leased_until=self.clock.now() + timedelta(hours=1))

    def times(self, call: str) -> list[float]:
        return [at for name, at in self.calls if name == call]

    async def claim(self, kinds: Sequence[str], limit: int, lease: timedelta) -> Sequence[Job]:
        await self._called("claim")
        now = self.clock.now()
        claimed: list[Job] = []
        for row in self.rows.values():
            if row.state == "waiting" and row.job.kind in kinds and row.due <= now and row.job.leased_until <= now and len(claimed) < limit:
                row.job = replace(row.job, attempts=row.job.attempts + 1, leased_until=now + lease, lease=uuid4())
                claimed.append(row.job)
        return claimed

    async def complete(self, job: Job) -> bool:
        await self._called("complete")
        return self._settled(job, "done")

    async def retry(self, job: Job, at: datetime, error: str) -> bool:
        await self._called("retry")
        return self._settled(job, "waiting", at, error)

    async def postpone(self, job: Job, pause: timedelta, reason: str) -> bool:
        await self._called("postpone")
        kept = self._settled(job, "waiting", self.clock.now() + pause, reason)
        if kept:
            self.rows[job.id].job = replace(self.rows[job.id].job, attempts=job.attempts - 1)
        return kept

    async def bury(self, job: Job, error: str) -> bool:
        await self._called("bury")
        return self._settled(job, "dead", None, error)

    async def extend(self, job: Job, lease: timedelta) -> bool:
        await self._called("extend")
        row = self.rows[job.id]
        if row.job.lease != job.lease:
            return False
        row.job = replace(row.job, leased_until=self.clock.now() + lease)
        return True

    async def due_in(self, kinds: Sequence[str]) -> float | None:
        await self._called("due_in")
        now = self.clock.now()
        waiting = [row for row in self.rows.values() if row.state == "waiting" and row.job.kind in kinds]
        return min(((max(row.due, row.job.leased_until) - now).total_seconds() for row in waiting), default=None)

    async def state(self) -> Sequence[QueueState]:
        await self._called("state")
        waiting = [row.due for row in self.rows.values() if row.state == "waiting"]
        return [QueueState("work", len(waiting), 0, min(waiting))] if waiting else []

    async def _called(self, name: str) -> None:
        self.calls.append((name, trio.current_time()))
        await trio.lowlevel.checkpoint()
        if trio.current_time() < self.away_until:
            raise Unavailable(retry_after=2, detail="gone")

    def _settled(self, job: Job, state: str, due: datetime | None = None, error: str | None = None) -> bool:
        row = self.rows[job.id]
        if row.job.lease != job.lease:
            return False
        row.state, row.due = state, due or row.due
        row.job = replace(row.job, leased_until=self.clock.now())
        if error is not None:
            row.errors.append(error)
        return True
