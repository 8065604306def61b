"""The job queue in PostgreSQL, and the doorbell that wakes its workers."""

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID, uuid4

import psycopg
import structlog
import trio

from adapters.postgres.columns import DueRow, IdRow, due_in, storable_text
from adapters.postgres.driver.listener import APPLICATION_NAME, Listener
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import CHANNEL, NOTIFY, Transaction, ask, only, tell
from core.domain.causes import causing_request
from core.domain.errors import Overloaded, Unavailable
from core.domain.formats import Json
from core.domain.identifiers import JobId
from core.domain.jobs import DeadJob, Job, NewJob, QueueState
from core.frozen import Frozen
from ports.crypto import CannotOpen, KeyRing
from ports.system import Ids

log = structlog.get_logger()


class LostClaims:
    """Claims whose response was lost: the rows are leased, and no process knows that it holds them. So a claim brings the ID of its lease
    along. When its response was lost, the next claim of the same work brings the same ID again, and takes the rows that are leased under it
    already. Otherwise they would wait until the lease has run out: after a failover, each receiver of webhooks for a minute.

    Of one queue in one process.
    """

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


# A notification without a topic means that there may be work of every kind: the listener has connected or reconnected, a process has
# ended, or a command has let held work go.
ANYTHING: Final = ""


# In seconds. The other processes hear of a topic from this process at most once in this time.
HEARD_EVERY: Final = 0.2
# The pause after the database did not take what we told.
_HEARD_AGAIN: Final = 1.0
# The seconds at shutdown in which the others are told of the last rings.
_LAST_WORDS: Final = 1.0


class PostgresDoorbell:
    """Implements `ports.jobs.Doorbell`. Without a pool it only listens.

    Wakes tasks that wait for work of a kind: at once in this process, and through NOTIFY in the other processes. Commits that notify wait
    for each other, since PostgreSQL has one queue of notifications for the whole server. So no request notifies: it rings after its commit,
    and the doorbell tells the other processes of all rings of the last moment in a statement of its own.
    """

    def __init__(self, conninfo: str, pool: Pool | None = None, *, application_name: str = APPLICATION_NAME) -> None:
        self._listener = Listener(conninfo, self._notified, on_lost=_lost, application_name=application_name)
        self._posts: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        self._pool = pool
        self._runs = False
        # Topics of which the others have not heard, in the order of their first ring, and when they may hear of each topic again.
        self._untold: dict[str, None] = {}
        self._turns: dict[str, float] = {}
        self._rung = trio.Event()
        self._failing = False

    @property
    def reaches_others(self) -> bool:
        return self._runs and self._pool is not None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Receives the notifications of the other processes, and sends ours, until the task is cancelled."""
        self._runs = True
        try:
            async with trio.open_nursery() as nursery:
                if self._pool is not None:
                    nursery.start_soon(self._tell_others, self._pool)
                await self._listener.run([CHANNEL], task_status=task_status)
        finally:
            self._runs = False

    def connect(self, post: Callable[[], None], *topics: str) -> None:
        for topic in topics:
            self._posts[topic].append(post)

    def ring(self, topic: str) -> None:
        self.ring_here(topic)
        if self.reaches_others and topic not in self._untold:
            self._untold[topic] = None
            self._rung.set()

    def ring_in_others(self) -> None:
        """For the end of the actors: what they have left, also of what rings in this process alone, is the others'."""
        self.ring(ANYTHING)

    def ring_here(self, topic: str) -> None:
        for post in self._posts.get(topic, ()):
            post()

    def _notified(self, _channel: str, topic: str) -> None:
        for rung in self._posts if topic == ANYTHING else [topic]:
            self.ring_here(rung)

    async def _tell_others(self, pool: Pool) -> None:
        try:
            while True:
                await self._rung.wait()
                self._rung = trio.Event()
                with trio.move_on_after(await self._tell_due(pool)):
                    await self._rung.wait()
                if self._untold:
                    self._rung.set()
        finally:
            if self._untold:
                with trio.move_on_after(_LAST_WORDS, shield=True):
                    await self._tell(pool, list(self._untold))

    async def _tell_due(self, pool: Pool) -> float:
        """Tells of the topics whose turn it is. Returns the seconds until the turn of the next one, if any waits."""
        now = trio.current_time()
        due = [topic for topic in self._untold if self._turns.get(topic, now) <= now]
        if due:
            await self._tell(pool, due)
        return max(0.0, min((self._turns.get(topic, now) for topic in self._untold), default=now) - trio.current_time())

    async def _tell(self, pool: Pool, topics: Sequence[str]) -> None:
        """A ring that comes meanwhile is told of again: its work may have been committed after the others have looked."""
        told = False
        for topic in topics:
            del self._untold[topic]
        try:
            await tell(pool, NOTIFY, {"channel": CHANNEL, "topics": list(topics)})
            told = True
        except (Unavailable, Overloaded, psycopg.Error) as error:
            if not self._failing:
                log.warning("doorbell_not_heard", topics=list(topics), error=type(error).__name__)
        finally:
            self._failing = not told
            self._turns.update(dict.fromkeys(topics, trio.current_time() + (HEARD_EVERY if told else _HEARD_AGAIN)))
            if not told:
                self._untold.update(dict.fromkeys(topics))


def _lost(error: Exception, pause: float) -> None:
    # The log has a warning and no error, because each actor looks for work as soon as the listener is connected again.
    log.warning("doorbell_lost", error=str(error).partition("\n")[0], retry_in=round(pause, 1))


# Highest first. The table's constraint allows no others. A claim looks under each priority separately, which keeps the claim cheap however
# long the queue is.
PRIORITIES: Final = (1, 0, -1)

# The gauge of waiting jobs stops counting at this number. A longer queue is a problem whatever its exact length.
MOST_COUNTED: Final = 50_000

# How long a job waits when the key ring cannot open its payload. An operator may add the key again, so the failure does not count as an
# attempt.
SEALED_SHUT_PAUSE: Final = timedelta(minutes=5)

LONGEST_ERROR: Final = 2_000


def sealing_context(job: JobId) -> str:
    return f"jobs.payload:{job}"


class JobRows:
    """Implements `ports.jobs.JobStore` in one transaction."""

    def __init__(self, transaction: Transaction, ids: Ids, keyring: KeyRing) -> None:
        self._transaction = transaction
        self._ids = ids
        self._keyring = keyring

    async def add(self, job: NewJob) -> JobId:
        job_id = JobId(self._ids.new())
        text = json.dumps(job.payload, separators=(",", ":"))
        await self._transaction.tell(
            _ADD if job.only_for is None else _ADD_ONLY_FOR,
            {
                "id": job_id,
                "kind": job.kind,
                "payload": None if job.sealed else text,
                "sealed_payload": self._keyring.seal(text.encode(), sealing_context(job_id)) if job.sealed else None,
                "priority": job.priority,
                "run_at": job.run_at,
                "request": causing_request(),
                **({} if job.only_for is None else {"user": job.only_for}),
            },
        )
        # Also for a job that is due later: whoever waits must know until when.
        self._transaction.ring(job.kind)
        return job_id

    async def withdraw(self, kind: str) -> None:
        await self._transaction.tell(_WITHDRAW, {"kind": kind})

    async def revive(self, job: JobId) -> str | None:
        rows = await self._transaction.ask(_Revived, _REVIVE, {"id": job})
        if not rows:
            return None
        self._transaction.ring(rows[0].kind)
        return rows[0].kind


class _Revived(Frozen):
    kind: str


# The job is as old as its revival, or a task that gives up after a time would give up at the first failure.
_REVIVE: Final = """
    update jobs
       set state = 'waiting', died_at = null, attempts = 0, run_at = now(), created_at = now(), lease = null, leased_until = null
     where id = %(id)s and state = 'dead'
 returning kind
"""

_WITHDRAW: Final = "delete from jobs where kind = %(kind)s and state = 'waiting'"

_ADD: Final = """
    insert into jobs (id, kind, payload, sealed_payload, priority, run_at, request_id)
    values (%(id)s, %(kind)s, %(payload)s::json, %(sealed_payload)s, %(priority)s, coalesce(%(run_at)s::timestamptz, now()), %(request)s)
"""

_ADD_ONLY_FOR: Final = """
    insert into jobs (id, kind, payload, sealed_payload, priority, run_at, request_id)
    select %(id)s, %(kind)s, %(payload)s::json, %(sealed_payload)s, %(priority)s, coalesce(%(run_at)s::timestamptz, now()),
           %(request)s::uuid
      from users
     where users.id = %(user)s
"""


class _Claimed(Frozen):
    id: UUID
    kind: str
    priority: int
    payload: Mapping[str, Json] | None
    sealed_payload: bytes | None
    attempts: int
    run_at: datetime
    created_at: datetime
    leased_until: datetime
    lease: UUID
    request_id: UUID | None

    def job(self, keyring: KeyRing) -> Job:
        """Raises `CannotOpen`."""
        return Job(
            id=JobId(self.id),
            kind=self.kind,
            payload=self._opened(keyring),
            attempts=self.attempts,
            created_at=self.created_at,
            leased_until=self.leased_until,
            lease=self.lease,
            priority=self.priority,
            request=self.request_id,
        )

    def _opened(self, keyring: KeyRing) -> Mapping[str, Json]:
        if self.sealed_payload is None:
            return self.payload or {}
        opened: Mapping[str, Json] = json.loads(keyring.open(self.sealed_payload, sealing_context(JobId(self.id))))
        return opened


class PostgresJobQueue:
    """Implements `ports.jobs.JobQueue`. Each call is one statement and one round trip.

    Rows are claimed under a lease, by any number of workers in any number of processes.
    """

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._keyring = keyring
        self._lost_claims = LostClaims()

    async def claim(self, kinds: Sequence[str], limit: int, lease: timedelta) -> Sequence[Job]:
        with self._lost_claims.lease(tuple(kinds)) as mine:
            claimed = await ask(self._pool, _Claimed, _CLAIM, {**_turns(kinds), "limit": limit, "lease": lease, "mine": mine})
        jobs = []
        for row in sorted(claimed, key=lambda row: (-row.priority, row.run_at, row.id)):
            try:
                jobs.append(row.job(self._keyring))
            except (CannotOpen, ValueError) as error:
                log.error("job_payload_unreadable", kind=row.kind, job=str(row.id), error=str(error))  # noqa: TRY400 - the sentence says it all
                await self._while_leased(_POSTPONE, row, pause=SEALED_SHUT_PAUSE, reason="no key in force opens the payload")
        return jobs

    async def complete(self, job: Job) -> bool:
        return await self._while_leased(_COMPLETE, job)

    async def retry(self, job: Job, at: datetime, error: str) -> bool:
        return await self._while_leased(_RETRY, job, run_at=at, error=storable_text(error[:LONGEST_ERROR]))

    async def postpone(self, job: Job, pause: timedelta, reason: str) -> bool:
        return await self._while_leased(_POSTPONE, job, pause=pause, reason=storable_text(reason[:LONGEST_ERROR]))

    async def bury(self, job: Job, error: str) -> bool:
        return await self._while_leased(_BURY, job, error=storable_text(error[:LONGEST_ERROR]))

    async def extend(self, job: Job, lease: timedelta) -> bool:
        return await self._while_leased(_EXTEND, job, length=lease)

    async def due_in(self, kinds: Sequence[str]) -> float | None:
        return only(await ask(self._pool, DueRow, _DUE_IN, _turns(kinds))).due_in

    async def dead(self, limit: int) -> Sequence[DeadJob]:
        return await ask(self._pool, DeadJob, _DEAD, {"limit": limit})

    async def state(self) -> Sequence[QueueState]:
        return await ask(self._pool, QueueState, QUEUE_STATE, {"priorities": list(PRIORITIES), "most_jobs": MOST_COUNTED})

    async def _while_leased(self, statement: LiteralString, job: Job | _Claimed, **parameters: Any) -> bool:
        return bool(await ask(self._pool, IdRow, statement, {"id": job.id, "lease": job.lease, **parameters}))


def _turns(kinds: Sequence[str]) -> dict[str, list[Any]]:
    """The pairs of kind and priority under which a claim looks: first every kind with the highest priority, then every kind with the
    next one.
    """
    return {
        "kinds": [kind for _ in PRIORITIES for kind in kinds],
        "priorities": [priority for priority in PRIORITIES for _ in kinds],
    }


# The outer limit stops the loop as soon as it has enough, so the statement locks hardly more rows than it takes. A job whose claim got lost
# on its way to us was not tried, so its second claim counts no second attempt.
_CLAIM: Final = """
    with due as materialized (
             select job.id
               from unnest(%(kinds)s::text[], %(priorities)s::smallint[]) as turn (kind, priority)
              cross join lateral (
                        select jobs.id
                          from jobs
                         where jobs.kind = turn.kind and jobs.priority = turn.priority and jobs.state = 'waiting'
                           and jobs.run_at <= now()
                           and (jobs.leased_until is null or jobs.leased_until <= now() or jobs.lease = %(mine)s)
                         order by jobs.run_at
                         limit %(limit)s
                           for no key update skip locked       -- a concurrent claim takes the next jobs and does not wait
                    ) as job
              limit %(limit)s
         )
  update jobs
     set lease = %(mine)s, leased_until = now() + %(lease)s::interval,
         attempts = attempts + case when jobs.lease = %(mine)s then 0 else 1 end
    from due
   where jobs.id = due.id
returning jobs.id, kind, priority, payload, sealed_payload, attempts, run_at, created_at, leased_until, lease, request_id
"""

_COMPLETE: Final = "delete from jobs where id = %(id)s and lease = %(lease)s returning id"

_RETRY: Final = """
    update jobs
       set run_at = %(run_at)s, last_error = %(error)s, lease = null, leased_until = null
     where id = %(id)s and lease = %(lease)s
 returning id
"""

_BURY: Final = """
    update jobs
       set state = 'dead', died_at = now(), last_error = %(error)s, lease = null, leased_until = null
     where id = %(id)s and lease = %(lease)s
 returning id
"""

_EXTEND: Final = """
    update jobs
       set leased_until = now() + %(length)s::interval
     where id = %(id)s and lease = %(lease)s
 returning id
"""

_POSTPONE: Final = """
    update jobs
       set run_at = now() + %(pause)s::interval, attempts = attempts - 1, last_error = %(reason)s, lease = null, leased_until = null
     where id = %(id)s and lease = %(lease)s
 returning id
"""

# A job under a running lease is due when the lease ends: its worker may have died. The jobs in hand are the first of their kind, so it is
# enough to look at some of the first: behind a long backlog, a job is due anyhow.
_DUE_IN: Final = f"""
    select {due_in("first.moment")} as due_in
      from unnest(%(kinds)s::text[], %(priorities)s::smallint[]) as turn (kind, priority)
     cross join lateral (
               (select jobs.run_at as moment
                  from jobs
                 where jobs.kind = turn.kind and jobs.priority = turn.priority and jobs.state = 'waiting'
                   and (jobs.leased_until is null or jobs.leased_until <= now())
                 order by jobs.run_at
                 limit 1)
                union all
               select min(earliest.leased_until)
                 from (
                          select jobs.leased_until
                            from jobs
                           where jobs.kind = turn.kind and jobs.priority = turn.priority and jobs.state = 'waiting'
                             and jobs.run_at <= now()
                           order by jobs.run_at
                           limit 30
                      ) as earliest
                where earliest.leased_until > now()
           ) as first
"""

_DEAD: Final = """
    select id, kind, attempts, last_error, created_at, died_at
      from jobs
     where state = 'dead'
     order by died_at desc
     limit %(limit)s
"""

# The recursion steps from kind to kind through the index, so that it need not read every row to find the few kinds.
QUEUE_STATE: Final = """
    with recursive
         kinds (kind) as (
             (select kind from jobs where state = 'waiting' order by kind limit 1)
              union all
             select (select jobs.kind from jobs where jobs.state = 'waiting' and jobs.kind > kinds.kind order by jobs.kind limit 1)
               from kinds
              where kinds.kind is not null
         ),
         waiting as (
             select kinds.kind, counted.jobs, first.run_at
               from kinds
              cross join lateral (
                        select count(*) as jobs
                          from (select from jobs where jobs.state = 'waiting' and jobs.kind = kinds.kind limit %(most_jobs)s) as capped
                    ) as counted
              cross join lateral (
                        select min(oldest.run_at) as run_at
                          from unnest(%(priorities)s::smallint[]) as turn (priority)
                         cross join lateral (
                                   select jobs.run_at
                                     from jobs
                                    where jobs.kind = kinds.kind and jobs.priority = turn.priority and jobs.state = 'waiting'
                                      and jobs.run_at <= now()
                                    order by jobs.run_at
                                    limit 1
                               ) as oldest
                    ) as first
              where kinds.kind is not null
         ),
         dead as (
             select kind, count(*) as jobs
               from (select kind from jobs where state = 'dead' limit %(most_jobs)s) as capped
              group by kind
         )
  select kind, coalesce(waiting.jobs, 0) as waiting, coalesce(dead.jobs, 0) as dead, waiting.run_at as oldest_due
    from waiting
    full join dead using (kind)
   order by kind
"""


class SealedJob(Frozen):
    id: UUID
    created_at: datetime
    sealed_payload: bytes


class SealedJobs:
    """Jobs whose sealed payload names a person. Forgetting a person has to open each of these payloads to find the person's jobs."""

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._keyring = keyring

    async def next(self, kinds: Sequence[str], after: UUID, limit: int) -> Sequence[SealedJob]:
        """Jobs that wait or are dead, in the order of their ids."""
        return await ask(self._pool, SealedJob, _SEALED, {"kinds": list(kinds), "after": after, "limit": limit})

    def opened(self, jobs: Sequence[SealedJob]) -> Iterator[tuple[UUID, Mapping[str, Json]]]:
        """Leaves out jobs that no key in force opens: nobody can read their payloads."""
        for one in jobs:
            with suppress(CannotOpen):
                yield one.id, json.loads(self._keyring.open(one.sealed_payload, sealing_context(JobId(one.id))))

    async def delete(self, jobs: Sequence[UUID]) -> int:
        """Also deletes jobs that a worker is running. That worker then finds its lease lost."""
        return await tell(self._pool, "delete from jobs where id = any (%(jobs)s::uuid[])", {"jobs": list(jobs)})


_SEALED: Final = """
    select id, created_at, sealed_payload
      from jobs
     where kind = any (%(kinds)s::text[]) and sealed_payload is not null and id > %(after)s
     order by id
     limit %(limit)s
"""
