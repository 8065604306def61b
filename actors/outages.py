"""Waiting until a dependency is back, above all the database. An outage is not a failure: the actor keeps running, logs once that the actor
waits, and logs once that the actor goes on.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import Final, TypeVar

import structlog
import trio

from core.domain.errors import Overloaded, Unavailable
from core.domain.jobs import Retry

log = structlog.get_logger()

T = TypeVar("T")

# Work goes on within two seconds of the end of an outage, however long the outage was. So the pauses hardly grow: each actor tries to
# connect once a second, and that costs far less than the requests of the same second.
_PAUSES: Final = Retry(first=timedelta(milliseconds=500), longest=timedelta(seconds=1))


def _nobody(*, up: bool) -> None:
    """Outside the supervisor, nobody asks whether an actor is up."""


# The supervisor sets it for the tasks of each actor: an actor that waits out an outage does no work, so it is not up.
tell_up: Final[ContextVar[Callable[..., None]]] = ContextVar("tell_up", default=_nobody)


class Outage:
    """Outages of the dependencies of one actor."""

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
