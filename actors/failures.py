"""Exceptions of actors. A cancellation, an outage of a dependency or a failure ends an actor. Nurseries wrap exceptions in groups, so the
functions here look inside the groups. A mishap, an unforeseen exception in one piece of work, does not end the actor.
"""

from collections.abc import Iterator

import structlog
import trio

from core.domain.errors import Overloaded, Unavailable
from ports.metrics import Metrics

log = structlog.get_logger()


def without_cancellation(error: BaseException) -> BaseException | None:
    """The error without its cancellations. None when the error holds nothing but cancellations. A task that fails while it is being
    cancelled raises a group of both.
    """
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]
    return None if isinstance(error, trio.Cancelled) else error


def sole(error: Exception) -> Exception:
    """The exception inside a group of one, however deep. Any other exception is returned unchanged."""
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
