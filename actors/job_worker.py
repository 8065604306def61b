"""The base of every actor that takes its work from the job queue."""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
import trio

from actors.foundation import LONGEST_SILENCE, Mailbox, Mishaps, Outage, outage_in, sole, turned
from core.domain.causes import caused_by
from core.domain.errors import Overloaded, Unavailable
from core.domain.jobs import CAN_WAIT, Job, Retry
from core.frozen import Frozen
from ports.jobs import Doorbell, JobQueue
from ports.metrics import Metrics
from ports.record import SpanKind, Traces, current_span, traced
from ports.system import Clock

log = structlog.get_logger()

# The seconds at shutdown in which a cut-off job is given back to the queue.
_LAST_WORDS: Final = 1.0
# Another worker may be about to take the due job. So a worker never asks again at once.
_SHORTEST_WAIT: Final = 0.25
# A ring of the doorbell is often the first of many: all jobs queued within this time are claimed in one round trip, instead of one for
# each.
_GATHERING: Final = 0.03
# After a job that can wait, its hand rests `_REST` times as long as the job took, and `_LONGEST_REST` seconds at most.
_REST: Final = 4
_LONGEST_REST: Final = 0.2


class JobRefused(Exception):
    """Raised by a handler when trying again is pointless. The text is stored and logged, so it must not carry a secret."""


class JobDelayed(Exception):
    """Raised by a handler when the work cannot be done now. `after` is the pause that the other server asked for, if any. The attempt
    does not count if no other server was `asked`. The text is stored and logged, so it must not carry a secret.
    """

    def __init__(self, message: str, *, after: timedelta | None = None, asked: bool = True) -> None:
        self.after = after
        self.asked = asked
        super().__init__(message)


class Task(Frozen):
    """The handler of one kind of job. The handler is cancelled after `timeout`."""

    kind: str
    handle: Callable[[Job], Awaitable[None]]
    retry: Retry
    timeout: timedelta = timedelta(minutes=2)


class JobPace(Frozen):
    """How many jobs a worker does at once, and how often the worker asks for jobs."""

    concurrency: int = 4
    # Long enough for a database to restart, short enough that the work of a killed process is soon taken up.
    lease: timedelta = timedelta(seconds=60)
    # A worker that no ring wakes, and that knows of no due job, asks at least so often.
    poll: timedelta = timedelta(seconds=LONGEST_SILENCE)
    # At shutdown, the work in hand may take this much longer.
    grace: timedelta = timedelta(seconds=2)
    # The worker asks for jobs only at random times, a quarter of `rhythm` to a whole `rhythm` apart. So the time at which a job was queued
    # does not tell when the job is done. At each of these times the worker asks only if the bell has rung or a job is due.
    rhythm: timedelta | None = None


DEFAULT_PACE: Final = JobPace()


class Workplace(Frozen):
    """The dependencies of every worker. `spread` draws a random number from 0 to 1, so that processes that start together do not act
    together.
    """

    queue: JobQueue
    doorbell: Doorbell
    clock: Clock
    metrics: Metrics
    spread: Callable[[], float]
    traces: Traces | None = None


@dataclass(slots=True, eq=False)
class _Hand:
    """A job that is being worked on, shielded from the actor's cancellation until `hurry` is called."""

    whole: trio.CancelScope = field(default_factory=lambda: trio.CancelScope(shield=True))
    work: trio.CancelScope = field(default_factory=trio.CancelScope)
    lost: bool = False
    hurried: bool = False

    def hurry(self, grace: float) -> None:
        now = trio.current_time()
        self.hurried = True
        self.work.deadline = min(self.work.deadline, now + grace)
        self.whole.deadline = now + grace + _LAST_WORDS


class JobWorker:
    """An actor that does jobs of a few kinds: it claims jobs, renews the lease while the handler runs, and writes the outcome of each job
    to the queue. Any number of workers, in any number of processes, may share a queue. Delivery is at least once. A handler may see the
    same job again, with the same ID, after a crash, a lost lease, or an outage before the outcome was written.
    """

    def __init__(
        self,
        name: str,
        tasks: Sequence[Task],
        workplace: Workplace,
        *,
        pace: JobPace = DEFAULT_PACE,
    ) -> None:
        self.name = name
        self._tasks = {task.kind: task for task in tasks}
        self._kinds = tuple(self._tasks)
        self._longest = max(task.timeout for task in tasks).total_seconds()
        self._queue = workplace.queue
        self._clock = workplace.clock
        self._metrics = workplace.metrics
        self._spread = workplace.spread
        self._traces = workplace.traces
        self._pace = pace
        self._outage = Outage(name, workplace.spread)
        self._mishaps = Mishaps(name, workplace.metrics)
        # Hands post to the mailbox, too: when a hand is free and none was free before, and when a hand has caught up after an outage.
        self._mailbox = Mailbox.rung_by(workplace.doorbell, *self._kinds)
        self._doorbell = workplace.doorbell
        self._hands: set[_Hand] = set()
        # Hands that cannot write the outcome of their job because of an outage.
        self._behind: set[_Hand] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            task_status.started()
            try:
                await self._claim_forever(nursery)
            finally:
                # Cancelled, or failed. The nursery waits for the shielded jobs in hand, so each of these jobs gets a deadline.
                for hand in self._hands:
                    hand.hurry(self._pace.grace.total_seconds())

    async def _claim_forever(self, nursery: trio.Nursery) -> None:
        while True:
            while len(self._hands) >= self._pace.concurrency:
                # Every job in hand ends by its timeout.
                turned(pause=self._longest)
                await self._mailbox.wait()
            turned(pause=self._pace.poll.total_seconds())
            free = self._pace.concurrency - len(self._hands)
            # A claim that is cancelled during its round trip may have leased jobs that no worker does. Such jobs come back when their lease
            # has run out.
            jobs = await self._outage.wait_out(partial(self._claim, free))
            for job in jobs:
                hand = _Hand()
                self._hands.add(hand)
                nursery.start_soon(self._do, job, hand)
            if len(jobs) < free:
                await self._wait_for_work()

    async def _claim(self, most: int) -> Sequence[Job]:
        while self._behind:
            # The leases of the jobs in these hands may have run out during the outage. A claim now would hand us our own jobs again.
            await self._mailbox.wait()
        self._mailbox.empty()
        return await self._queue.claim(self._kinds, most, self._pace.lease)

    async def _wait_for_work(self) -> None:
        """Waits for a message or the next due time, whichever comes first, and with a rhythm for the next of its times after that."""
        if self._pace.rhythm is not None:
            await self._wait_in_rhythm(self._pace.rhythm.total_seconds())
            return
        longest = self._pace.poll.total_seconds()
        if await self._outage.until_due(self._mailbox, lambda: self._queue.due_in(self._kinds), shortest=_SHORTEST_WAIT, longest=longest):
            await trio.sleep(_GATHERING)

    async def _wait_in_rhythm(self, rhythm: float) -> None:
        """The times come and go also while nothing is to be done, so no message has a part in them."""
        due = await self._outage.wait_out(lambda: self._queue.due_in(self._kinds))
        until = trio.current_time() + min(math.inf if due is None else due, self._pace.poll.total_seconds())
        while True:
            turned(pause=rhythm)
            await trio.sleep(rhythm * (1 + 3 * self._spread()) / 4)
            if self._mailbox.is_full() or trio.current_time() >= until:
                return

    async def _do(self, job: Job, hand: _Hand) -> None:
        # This task is the hand's own, so the cause ends with it, after the last line about the job.
        with caused_by(job.request):
            await self._do_caused(job, hand)

    async def _do_caused(self, job: Job, hand: _Hand) -> None:
        began = trio.current_time()
        try:
            about = (("postern.job.id", str(job.id)), ("postern.job.attempt", job.attempts))
            named = f"process {job.kind}", (("messaging.destination.name", job.kind),)
            with (
                structlog.contextvars.bound_contextvars(job=str(job.id), kind=job.kind),
                traced(self._traces, SpanKind.CONSUMER, *named, own=about),
                hand.whole,
            ):
                await self._work_and_settle(job, hand)
            if hand.whole.cancelled_caught:
                log.warning("job_left_to_its_lease", job=str(job.id), kind=job.kind)
            elif job.priority <= CAN_WAIT:
                await trio.sleep(min(_REST * (trio.current_time() - began), _LONGEST_REST))
        except Exception as error:  # noqa: BLE001 - the outcome could not be written: the job is claimed again when its lease has run out
            self._mishaps.tell(error, job=str(job.id), kind=job.kind)
        finally:
            if len(self._hands) >= self._pace.concurrency:
                self._mailbox.post()
            self._hands.discard(hand)

    async def _work_and_settle(self, job: Job, hand: _Hand) -> None:
        began = trio.current_time()
        task = self._tasks[job.kind]
        error = await self._work(task, job, hand)
        seconds = trio.current_time() - began
        span = current_span.get()
        if span is not None and error is not None:
            span.error = type(error).__name__
        if hand.lost:
            kept = False
        elif isinstance(error, _CutOff) and hand.hurried:
            # A shutdown is not a failure: the next process may have the job at once.
            kept = await self._tell(hand, lambda: self._queue.retry(job, self._clock.now(), str(error)))
            self._doorbell.ring(job.kind)
            log.info("job_handed_back", attempts=job.attempts)
        elif error is None:
            self._metrics.job_processed(job.kind, seconds, succeeded=True)
            kept = await self._tell(hand, lambda: self._queue.complete(job))
            log.debug("job_done", attempts=job.attempts, seconds=round(seconds, 3))
        elif not _was_asked(error):
            kept = await self._postpone(task, job, hand, error)
        else:
            self._metrics.job_processed(job.kind, seconds, succeeded=False)
            kept = await self._settle_failure(task, job, hand, error)
        if not kept:
            log.warning("job_lease_lost", attempts=job.attempts)

    async def _work(self, task: Task, job: Job, hand: _Hand) -> Exception | None:
        """Runs the handler. Returns what went wrong, or None."""
        hand.work.deadline = min(hand.work.deadline, trio.current_time() + task.timeout.total_seconds())
        try:
            with hand.work:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._keep_lease, job, hand)
                    await task.handle(job)
                    nursery.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - any failure of a handler fails the job, not the worker
            return sole(error)
        if hand.work.cancelled_caught:
            return _CutOff("Cut off by a shutdown" if hand.hurried else f"Not done within {task.timeout.total_seconds():g} s")
        return None

    async def _keep_lease(self, job: Job, hand: _Hand) -> None:
        while True:
            await trio.sleep(self._pace.lease.total_seconds() / 3)
            if not await self._tell(hand, lambda: self._queue.extend(job, self._pace.lease)):
                # Another worker has the job by now. The sooner this worker stops, the less is done twice.
                hand.lost = True
                hand.work.cancel()

    async def _postpone(self, task: Task, job: Job, hand: _Hand, error: Exception) -> bool:
        """An attempt counts when a receiver was asked. So a long outage of the database neither kills the job nor lengthens its pauses."""
        counted = job.attempts - 1
        pause = self._pause(task, max(counted, 1), error)
        if task.retry.gives_up(counted, job.created_at, self._clock.now() + pause):
            return await self._settle_failure(task, job, hand, error)
        reason = _reason(error)
        log.warning("job_postponed", attempts=counted, reason=reason, again_in=round(pause.total_seconds(), 1))
        kept = await self._tell(hand, lambda: self._queue.postpone(job, pause, reason))
        self._doorbell.ring(job.kind)
        return kept

    def _pause(self, task: Task, attempts: int, error: Exception) -> timedelta:
        pause = task.retry.pause(attempts, self._spread())
        return max(pause, error.after) if isinstance(error, JobDelayed) and error.after is not None else pause

    async def _settle_failure(self, task: Task, job: Job, hand: _Hand, error: Exception) -> bool:
        reason = _reason(error)
        pause = self._pause(task, job.attempts, error)
        at = self._clock.now() + pause
        if isinstance(error, JobRefused) or task.retry.gives_up(job.attempts, job.created_at, at):
            log.warning("job_died", attempts=job.attempts, error=reason, exc_info=_unexpected(error))
            return await self._tell(hand, lambda: self._queue.bury(job, reason))
        log.warning(
            "job_failed", attempts=job.attempts, error=reason, again_in=round(pause.total_seconds(), 1), exc_info=_unexpected(error)
        )
        kept = await self._tell(hand, lambda: self._queue.retry(job, at, reason))
        # The claiming loops, here and in the other processes, may be asleep until after this job is due.
        self._doorbell.ring(job.kind)
        return kept

    async def _tell(self, hand: _Hand, call: Callable[[], Awaitable[bool]]) -> bool:
        """Tells the queue how the job ended, however long an outage lasts."""
        try:
            while True:
                try:
                    answer = await call()
                except (Unavailable, Overloaded) as error:
                    self._behind.add(hand)
                    await trio.sleep(self._outage.began(error))
                else:
                    self._outage.over()
                    return answer
        finally:
            if hand in self._behind:
                self._behind.discard(hand)
                self._mailbox.post()


class _CutOff(Exception):
    """We cancelled the handler, by its timeout or at shutdown."""


def _was_asked(error: Exception) -> bool:
    """Whether the handler came as far as a receiver. With the database away, it did not."""
    return error.asked if isinstance(error, JobDelayed) else outage_in(error) is None


def _reason(error: Exception) -> str:
    """The reason that is stored and logged. The text of a foreign exception may quote the payload, so only its class is used."""
    return str(error) if isinstance(error, (JobRefused, JobDelayed, _CutOff)) else type(error).__name__


def _unexpected(error: Exception) -> Exception | None:
    """The error, to be logged with its stack, if the error may be a bug."""
    if isinstance(error, (JobRefused, JobDelayed, _CutOff)) or outage_in(error) is not None:
        return None
    return error
