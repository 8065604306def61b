"""What ended an actor: a cancellation, an outage of something that we depend on, or a failure. Nurseries wrap what they raise in groups, so
each question looks inside. And what did not end it, although nobody had foreseen it: the mishap of one piece of its work.
"""

from collections.abc import Iterator

import structlog
import trio

from core.domain.errors import Overloaded, Unavailable
from ports.metrics import Metrics

log = structlog.get_logger()


def without_cancellation(error: BaseException) -> BaseException | None:
    """What is left of an error without its cancellations. None when there was nothing else. A task that fails while it is being cancelled
    raises a group of both.
    """
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]
    return None if isinstance(error, trio.Cancelled) else error


def sole(error: Exception) -> Exception:
    """The one exception inside a group of one, however deep. Anything else is returned as it is."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def outage_in(error: Exception) -> Unavailable | Overloaded | None:
    """The outage, if the error says only that something is away or full. Then the actor should wait, and nothing here is at fault."""
    outages = [leaf for leaf in _leaves(error) if isinstance(leaf, (Unavailable, Overloaded))]
    return outages[0] if len(outages) == sum(1 for _ in _leaves(error)) else None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


class Mishaps:
    """One actor's. A mishap is the end of one piece of work, told with its stack and counted, and not of the actor, which has the work of
    others in its hands.
    """

    def __init__(self, actor: str, metrics: Metrics) -> None:
        self._actor = actor
        self._metrics = metrics

    def tell(self, error: Exception, **about: str) -> None:
        """Of nothing that is away or full: that is an outage, and waited for."""
        broken = sole(error)
        self._metrics.work_broken(self._actor)
        log.error("work_broken", actor=self._actor, error=type(broken).__name__, exc_info=broken, **about)
