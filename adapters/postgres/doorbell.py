"""The doorbell wakes tasks that wait for work of a kind: at once in this process, and through NOTIFY in the other processes."""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

import structlog
import trio

from adapters.postgres.driver.listener import APPLICATION_NAME, Listener
from adapters.postgres.transaction import CHANNEL

log = structlog.get_logger()

# A notification without a topic means that the listener has connected or reconnected, and may have missed other notifications.
_ANYTHING: Final = ""


class PostgresDoorbell:
    """Implements `ports.jobs.Doorbell`."""

    def __init__(self, conninfo: str, application_name: str = APPLICATION_NAME) -> None:
        self._listener = Listener(conninfo, self._notified, on_lost=_lost, application_name=application_name)
        self._posts: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Receives the notifications of the other processes until the task is cancelled."""
        await self._listener.run([CHANNEL], task_status=task_status)

    def connect(self, post: Callable[[], None], *topics: str) -> None:
        for topic in topics:
            self._posts[topic].append(post)

    def ring(self, topic: str) -> None:
        for post in self._posts.get(topic, ()):
            post()

    def _notified(self, _channel: str, topic: str) -> None:
        for rung in self._posts if topic == _ANYTHING else [topic]:
            self.ring(rung)


def _lost(error: Exception, pause: float) -> None:
    # The log has a warning and no error, because polling finds the work until the listener is connected again.
    log.warning("doorbell_lost", error=str(error).partition("\n")[0], retry_in=round(pause, 1))
