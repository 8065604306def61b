"""The supervisor: starts the actors, restarts one that fails, and ends the process when one keeps failing."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

import structlog
import trio

from actors.foundation import Heartbeat, Outage, heartbeat, outage_in, sole, tell_up, turned, without_cancellation
from core.domain.jobs import Retry
from core.frozen import Frozen
from ports.metrics import Metrics

log = structlog.get_logger()


class SupervisedActor(Protocol):
    """A task that lives as long as the process. Cancellation stops the actor. An actor that should finish its unit of work first shields
    that work itself, with a deadline (docs/decisions/0005).
    """

    @property
    def name(self) -> str: ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Calls `task_status.started()` once the actor can work. Returning is a failure. `run` may be called again after a failure."""


class ActorsFailed(Exception):
    """An actor kept failing. The process should end, so that its service manager starts a new process."""


class ActorReturned(Exception):
    """An actor's `run` returned without a cancellation."""


class ActorNotReady(Exception):
    """An actor did not call `task_status.started()` in time."""


_PAUSES: Final = Retry(first=timedelta(milliseconds=500), longest=timedelta(seconds=30))


class Restarts(Frozen):
    """When failures end the process. With these numbers, an actor that fails at once, every time, is given up after about two minutes."""

    pauses: Retry = _PAUSES
    # The process ends after this many failures within the window.
    most_failures: int = 10
    window: timedelta = timedelta(minutes=5)
    # The earlier failures of an actor that was up for this long no longer count.
    healthy_after: timedelta = timedelta(minutes=1)
    ready_within: timedelta = timedelta(seconds=10)
    # An actor that failed because of an outage counts as recovered when it stays up for this long.
    settled_after: timedelta = timedelta(seconds=6)


DEFAULT_RESTARTS: Final = Restarts()


@dataclass(slots=True)
class _Slot:
    """What the supervisor remembers of one actor."""

    actor: SupervisedActor
    outage: Outage
    been_up: trio.Event = field(default_factory=trio.Event)
    up_since: float | None = None
    failures: deque[float] = field(default_factory=deque)


class Supervisor:
    """Runs once: `run` returns after `stop`, or raises `ActorsFailed`."""

    def __init__(
        self, actors: Sequence[SupervisedActor], metrics: Metrics, *, spread: Callable[[], float], restarts: Restarts = DEFAULT_RESTARTS
    ) -> None:
        names = [actor.name for actor in actors]
        if len(set(names)) < len(names):
            raise ValueError(f"Two actors have the same name: {', '.join(sorted(names))}")
        self._slots = [_Slot(actor, Outage(actor.name, spread)) for actor in actors]
        self._metrics = metrics
        self._spread = spread
        self._restarts = restarts
        self._scope = trio.CancelScope()
        self._given_up: ActorsFailed | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs the actors until `stop` or cancellation. After both, actors finish the work that they have in hand. `task_status.started()`
        is called once every actor has been up.
        """
        with self._scope:
            async with trio.open_nursery() as nursery:
                for slot in self._slots:
                    nursery.start_soon(self._keep_up, slot, name=f"actor {slot.actor.name}")
                for slot in self._slots:
                    await slot.been_up.wait()
                task_status.started()
                await trio.sleep_forever()
        if self._given_up is not None:
            raise self._given_up

    def stop(self) -> None:
        """Asks every actor to finish its unit of work. `run` returns when the last actor has ended."""
        self._scope.cancel()

    async def _keep_up(self, slot: _Slot) -> None:
        while True:
            error = await self._life(slot)
            if trio.current_effective_deadline() <= trio.current_time():
                # The actor ended because of the cancellation, even if the actor raised an exception.
                if not isinstance(error, ActorReturned):
                    log.warning("actor_failed_while_stopping", actor=slot.actor.name, error=type(error).__name__, exc_info=error)
                await trio.lowlevel.checkpoint_if_cancelled()
            outage = outage_in(error)
            if outage is not None:
                # Actors wait out outages themselves. An actor that lets an outage through is restarted, and the failure does not count.
                pause = slot.outage.began(outage)
            elif self._is_beyond_hope(slot):
                self._give_up(slot, error)
                return
            else:
                pause = self._restarts.pauses.pause(len(slot.failures), self._spread()).total_seconds()
                log.warning(
                    "actor_failed",
                    actor=slot.actor.name,
                    error=type(error).__name__,
                    failures=len(slot.failures),
                    restart_in=round(pause, 1),
                    exc_info=error,
                )
            await trio.sleep(pause)
            self._metrics.actor_restarted(slot.actor.name)

    async def _life(self, slot: _Slot) -> Exception:
        """Runs an actor until its `run` ends. Returns the exception that ended `run`. Cancellation passes through."""
        slot.up_since = None
        try:
            await self._run_until_it_ends(slot)
        except (Exception, BaseExceptionGroup) as caught:
            # A task that fails while it is cancelled raises a group of both, which is not an `Exception`.
            failure = without_cancellation(caught)
            if isinstance(failure, Exception):
                return sole(failure)
            raise
        finally:
            self._metrics.actor_up(slot.actor.name, up=False)
        return ActorReturned(f"The actor {slot.actor.name} returned")

    async def _run_until_it_ends(self, slot: _Slot) -> None:
        starting = trio.CancelScope(deadline=trio.current_time() + self._restarts.ready_within.total_seconds())
        beating = Heartbeat(slot.actor.name, self._metrics)

        def tell(*, up: bool) -> None:
            self._metrics.actor_up(slot.actor.name, up=up)
            # An actor that waits out an outage before it is ready has not failed to become ready.
            starting.deadline = trio.current_time() + self._restarts.ready_within.total_seconds() if up else math.inf

        async with trio.open_nursery() as nursery:

            async def run(*, task_status: trio.TaskStatus[None]) -> None:
                tell_up.set(tell)
                heartbeat.set(beating)
                # An actor that never tells of a turn is stalled.
                turned(pause=self._restarts.ready_within.total_seconds())
                await slot.actor.run(task_status=task_status)
                # The actor has ended: cancel the sleep below.
                nursery.cancel_scope.cancel()

            with starting:
                await nursery.start(run, name=f"actor {slot.actor.name} at work")
            if starting.cancelled_caught:
                raise ActorNotReady(f"The actor {slot.actor.name} was not ready within {self._restarts.ready_within.total_seconds():g} s")
            slot.up_since = trio.current_time()
            slot.been_up.set()
            self._metrics.actor_up(slot.actor.name, up=True)
            await trio.sleep(self._restarts.settled_after.total_seconds())
            slot.outage.over()

    def _is_beyond_hope(self, slot: _Slot) -> bool:
        """Notes a failure. True when there were too many within the window, with no healthy time between them."""
        now = trio.current_time()
        if slot.up_since is not None and now - slot.up_since >= self._restarts.healthy_after.total_seconds():
            slot.failures.clear()
        slot.failures.append(now)
        while slot.failures[0] < now - self._restarts.window.total_seconds():
            slot.failures.popleft()
        return len(slot.failures) >= self._restarts.most_failures

    def _give_up(self, slot: _Slot, error: Exception) -> None:
        log.critical("actor_given_up", actor=slot.actor.name, error=type(error).__name__, failures=len(slot.failures), exc_info=error)
        self._given_up = ActorsFailed(f"The actor {slot.actor.name} kept failing")
        self._given_up.__cause__ = error
        self._scope.cancel()
