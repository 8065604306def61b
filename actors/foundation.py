"""The base of every actor: heartbeats, mailbox, waiting for a dependency, and what ends an actor."""

import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Final, Self, TypeVar

import structlog
import trio

from core.domain.errors import Overloaded, Unavailable
from core.domain.jobs import Retry
from ports.jobs import Doorbell
from ports.metrics import Metrics

log = structlog.get_logger()
T = TypeVar("T")


def without_cancellation(error: BaseException) -> BaseException | None:
    """The error without its cancellations. None when the error holds nothing but cancellations. A task that fails while it is being
    cancelled raises a group of both.
    """
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]
    return None if isinstance(error, trio.Cancelled) else error


def sole(error: Exception) -> Exception:
    """The exception inside a group of one, however deep. Any other exception is returned unchanged.

    A cancellation, an outage of a dependency or a failure ends an actor. Nurseries wrap exceptions in groups, so these functions look
    inside the groups. A mishap, an unforeseen exception in one piece of work, does not end the actor.
    """
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def outage_in(error: Exception) -> Unavailable | Overloaded | None:
    """The outage, if the error holds only `Unavailable` and `Overloaded`. Then the actor should wait, because its code is not at fault."""
    outages = [leaf for leaf in _leaves(error) if isinstance(leaf, (Unavailable, Overloaded))]
    return outages[0] if len(outages) == sum(1 for _ in _leaves(error)) else None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


class Mishaps:
    """The mishaps of one actor. A mishap ends one piece of work. The mishap is logged with its stack and counted, and the actor goes on,
    because it also does the work of others.
    """

    def __init__(self, actor: str, metrics: Metrics) -> None:
        self._actor = actor
        self._metrics = metrics

    def tell(self, error: Exception, **about: str) -> None:
        """Logs and counts a mishap. Do not pass `Unavailable` or `Overloaded`: both mean an outage, and the actor waits for its end."""
        broken = sole(error)
        self._metrics.work_broken(self._actor)
        log.error("work_broken", actor=self._actor, error=type(broken).__name__, exc_info=broken, **about)


# The work of a turn takes no longer, beside the pause before it: the database ends a statement, and its watcher a hung connection, long
# before.
LONGEST_WORK: Final = 180.0


class Heartbeat:
    """The heartbeat of one actor, from a start of the actor to its end. An actor whose tasks have loops of their own beats in each loop.
    Each loop is a part, and the part that is due first counts.

    After each of its turns, an actor tells when its next turn ends at the latest. An actor that is up and tells nothing by then is stalled:
    it waits for a lock, for a server without a timeout, or for itself.
    """

    def __init__(self, actor: str, metrics: Metrics) -> None:
        self._actor = actor
        self._metrics = metrics
        # Of each part: when its last turn ended, and when its next turn ends at the latest.
        self._parts: dict[str, tuple[float, float]] = {}

    def beat(self, part: str, within: float) -> None:
        now = trio.current_time()
        self._parts[part] = (now, now + within)
        last = min(last for last, _ in self._parts.values())
        due = min(due for _, due in self._parts.values())
        self._metrics.actor_turned(self._actor, since=now - last, within=due - now)


# The supervisor sets it for the tasks of each actor.
heartbeat: Final[ContextVar[Heartbeat | None]] = ContextVar("heartbeat", default=None)


def turned(*, pause: float, work: float = LONGEST_WORK, part: str = "") -> None:
    """A turn of the calling actor is over, or its first begins. The next one is over after a pause and its work. Each actor calls `turned`
    in each of its loops that never end, once in each round.
    """
    beating = heartbeat.get()
    if beating is not None:
        beating.beat(part, pause + work)


class Mailbox:
    """A memory channel with room for one message. A message only says "look": the actor then looks for all of its work. So a waiting
    message stands for all messages that come after it, a full mailbox loses no work, and no kind of work crowds out another.

    The actor's object holds the mailbox, and the supervisor calls the actor's `run` again after a failure. So the next run finds a message
    that came between two runs.
    """

    def __init__(self) -> None:
        self._sender, self._receiver = trio.open_memory_channel[None](1)

    @classmethod
    def rung_by(cls, doorbell: Doorbell, *topics: str) -> Self:
        """A mailbox that gets a message whenever the doorbell rings for one of these topics."""
        mailbox = cls()
        doorbell.connect(mailbox.post, *topics)
        return mailbox

    def post(self) -> None:
        """Never waits and never fails, so that requests may call it, too."""
        with suppress(trio.WouldBlock):
            self._sender.send_nowait(None)

    def is_full(self) -> bool:
        """Whether a message waits that the actor has not taken yet."""
        return self._receiver.statistics().current_buffer_used > 0

    def empty(self) -> None:
        """Drops a waiting message. The actor calls `empty` right before a look, because that look finds the work of all messages so far."""
        with suppress(trio.WouldBlock):
            self._receiver.receive_nowait()

    async def wait(self, seconds: float = math.inf) -> bool:
        """Waits until there is a message, but no longer than so many seconds. Returns whether there was a message. Only the actor calls
        `wait`.
        """
        with trio.move_on_after(seconds):
            await self._receiver.receive()
            return True
        return False


# In seconds. An actor that waits for a ring looks by itself after this time. Rings are lost only with their process: it was killed between
# a commit and its ring, or while it alone knew of the work.
LONGEST_SILENCE: Final = 120.0

# Work goes on within two seconds of the end of an outage, however long the outage was. So the pauses hardly grow: each actor tries to
# connect once a second, and that costs far less than the requests of the same second.
_PAUSES: Final = Retry(first=timedelta(milliseconds=500), longest=timedelta(seconds=1))


def _nobody(*, up: bool) -> None:
    """Outside the supervisor, nobody asks whether an actor is up."""


# The supervisor sets it for the tasks of each actor: an actor that waits out an outage does no work, so it is not up.
tell_up: Final[ContextVar[Callable[..., None]]] = ContextVar("tell_up", default=_nobody)


class Outage:
    """Outages of the dependencies of one actor.

    Waits until a dependency is back, above all the database. An outage is not a failure: the actor keeps running, logs once that it waits,
    and logs once that it continues.
    """

    def __init__(self, actor: str, spread: Callable[[], float]) -> None:
        self._actor = actor
        self._spread = spread
        self._failures = 0
        self._since = 0.0

    def began(self, error: Unavailable | Overloaded) -> float:
        """Notes that a dependency is away. Returns the seconds to wait before the next try, more each time."""
        self._failures += 1
        if self._failures == 1:
            self._since = trio.current_time()
            tell_up.get()(up=False)
            log.warning("actor_waits", actor=self._actor, reason=type(error).__name__, detail=error.detail)
        pause = _PAUSES.pause(self._failures, self._spread()).total_seconds()
        # The error may ask for a longer pause, up to our own longest pause.
        return max(pause, min(error.retry_after, _PAUSES.longest.total_seconds()))

    def over(self) -> None:
        """Notes that the dependency answers. Calling `over` without an outage costs nothing."""
        if self._failures:
            log.info("actor_goes_on", actor=self._actor, seconds=round(trio.current_time() - self._since, 1), attempts=self._failures)
            self._failures = 0
            tell_up.get()(up=True)

    async def wait_out(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats the call until the outage is over, and returns the call's answer. Only for calls that may be repeated."""
        while True:
            try:
                answer = await call()
            except (Unavailable, Overloaded) as error:
                await trio.sleep(self.began(error))
            else:
                self.over()
                return answer

    async def until_due(
        self,
        mailbox: Mailbox,
        due_in: Callable[[], Awaitable[float | None]],
        *,
        shortest: float = 0.0,
        longest: float = LONGEST_SILENCE,
        part: str = "",
        sees_all: bool = True,
    ) -> bool:
        """Waits for a message, or for the time at which something is due. Returns whether there was a message.

        `due_in` tells the seconds until something is due, and None when nothing waits. It is asked right after a look that took all there
        was, so what is due already was not to be had: then the wait takes `shortest`. It is asked again after `longest`, since a message
        may have been lost. Where it does not see all that a look finds (`sees_all`), the actor looks then.
        """
        while True:
            due = await self.wait_out(due_in)
            # The wait is random, so that many processes do not ask at the same time.
            wait = longest * (1 - self._spread() / 5)
            if due is not None:
                wait = min(wait, due if due > 0 else shortest)
            turned(pause=wait, part=part)
            if await mailbox.wait(wait):
                return True
            if not sees_all or (due is not None and due <= wait):
                return False
