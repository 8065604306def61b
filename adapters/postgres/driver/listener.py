"""LISTEN on a connection of its own, for as long as the process lives, even when the server goes away and returns."""

import random
from collections.abc import Callable, Sequence
from typing import Final, Never

import psycopg
import trio
from psycopg import Notify, OperationalError
from psycopg.generators import notifies
from psycopg.sql import SQL, Identifier

from adapters.postgres.driver.connection import Connection

APPLICATION_NAME: Final = "postern listener"
# In seconds. Short, because work that another process has queued may wait while the listener is not connected.
SHORTEST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 1.0
HEARTBEAT: Final = 20.0  # seconds of silence after which the server is asked whether it is still there
PATIENCE: Final = 10.0  # seconds for its answer, and for connecting


class Listener:
    """Calls `on_notification(channel, payload)` for each notification, and with an empty payload for each channel after each connect or
    reconnect, because notifications sent in between are lost. A notification only says "look", and looking once too often is harmless.

    `on_lost(error, pause)` gets each failure and the length of the pause before the next attempt.
    """

    def __init__(
        self,
        conninfo: str,
        on_notification: Callable[[str, str], None],
        *,
        on_lost: Callable[[Exception, float], None] | None = None,
        application_name: str = APPLICATION_NAME,
        shortest_pause: float = SHORTEST_PAUSE,
        longest_pause: float = LONGEST_PAUSE,
        heartbeat: float = HEARTBEAT,
        patience: float = PATIENCE,
    ) -> None:
        self._conninfo = conninfo
        self._on_notification = on_notification
        self._on_lost = on_lost
        self._application_name = application_name
        self._shortest_pause = shortest_pause
        self._longest_pause = longest_pause
        self._heartbeat = heartbeat
        self._patience = patience

    async def run(self, channels: Sequence[str], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> Never:
        """Listen until cancelled. Reports that it has started when it listens for the first time."""
        pause = self._shortest_pause
        started = False
        while True:
            try:
                async with await self._connect(channels) as connection:
                    pause = self._shortest_pause
                    if not started:
                        started = True
                        task_status.started()
                    for channel in channels:
                        self._on_notification(channel, "")
                    await self._hear(connection)
            except psycopg.Error as error:
                # Random pauses, so that the processes of an installation do not all reconnect at once.
                jittered = pause * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, guards nothing
                if self._on_lost is not None:
                    self._on_lost(error, jittered)
                await trio.sleep(jittered)
                pause = min(pause * 2, self._longest_pause)

    async def _connect(self, channels: Sequence[str]) -> Connection:
        connection = None
        try:
            with trio.move_on_after(self._patience):
                # Others read the name to see which programs serve, so none of the URL or of PGAPPNAME takes its place.
                connection = await Connection.connect(self._conninfo, application_name=self._application_name)
                connection.recovery = 0  # after a cancelled statement the listener opens a new connection anyway
                connection.add_notify_handler(self._notified)
                for channel in channels:
                    await connection.execute(SQL("listen {}").format(Identifier(channel)))
                return connection
        except BaseException:
            if connection is not None:
                connection.abort()
            raise
        if connection is not None:
            connection.abort()
        raise OperationalError(f"the server did not let us listen within {self._patience:g} s")

    async def _hear(self, connection: Connection) -> Never:
        """Wait for notifications. They reach the handler while anything reads from the connection, the heartbeat included."""
        while True:
            with trio.move_on_after(self._heartbeat) as silence:
                await connection.run(notifies(connection.pgconn))
            if silence.cancelled_caught:
                with trio.move_on_after(self._patience) as patience:
                    await connection.execute("")
                if patience.cancelled_caught:
                    raise OperationalError(f"no answer from the server for {self._patience:g} s")

    def _notified(self, notification: Notify) -> None:
        self._on_notification(notification.channel, notification.payload)
