"""Heartbeats: an actor tells after each of its turns when its next turn ends at the latest. An actor that is up and tells nothing by then
is stalled: it waits for a lock, for a server without a timeout, or for itself.
"""

from contextvars import ContextVar
from typing import Final

import trio

from ports.metrics import Metrics

# The work of a turn takes no longer, beside the pause before it: the database ends a statement, and its watcher a hung connection, long
# before.
LONGEST_WORK: Final = 180.0


class Heartbeat:
    """The heartbeat of one actor, from a start of the actor to its end. An actor whose tasks have loops of their own beats in each loop.
    Each loop is a part, and the part that is due first counts.
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
