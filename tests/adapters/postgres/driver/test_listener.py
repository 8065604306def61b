from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import psycopg
import pytest
import trio

from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.listener import Listener
from tests.adapters.postgres.questions import open_descriptors
from tests.adapters.postgres.wire import Wire
from tests.patience import PATIENCE

# Of this database alone: the server has those of other tests too.
LISTENING: Final = "from pg_stat_activity where application_name = 'postern listener' and datname = current_database()"


class Notifications:
    """The listener's notifications, in order."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, str]] = []
        self.losses: list[tuple[Exception, float]] = []
        self._news = trio.Event()

    def notification(self, channel: str, payload: str) -> None:
        self.notifications.append((channel, payload))
        self._tell()

    def loss(self, error: Exception, pause: float) -> None:
        self.losses.append((error, pause))
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def until(self, *notifications: tuple[str, str]) -> None:
        with trio.fail_after(PATIENCE):
            while self.notifications != list(notifications):
                assert len(self.notifications) < len(notifications), self.notifications
                await self._news.wait()

    async def until_lost(self, times: int) -> None:
        with trio.fail_after(PATIENCE):
            while len(self.losses) < times:
                await self._news.wait()


@asynccontextmanager
async def listening(url: str, *channels: str, heartbeat: float = 20.0, patience: float = 10.0) -> AsyncIterator[Notifications]:
    heard = Notifications()
    listener = Listener(
        url, heard.notification, on_lost=heard.loss, shortest_pause=0.01, longest_pause=0.05, heartbeat=heartbeat, patience=patience
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(listener.run, channels)
        yield heard
        nursery.cancel_scope.cancel()


async def notify(url: str, channel: str, payload: str) -> None:
    async with await Connection.connect(url) as connection:
        await connection.execute("select pg_notify(%s, %s)", [channel, payload])


async def test_each_channel_is_called_once_at_the_start_and_then_for_each_notification(database_url: str) -> None:
    async with listening(database_url, "post", "Quoted Channel") as heard:
        await heard.until(("post", ""), ("Quoted Channel", ""))
        await notify(database_url, "post", "letter")
        await notify(database_url, "elsewhere", "unheard")
        await notify(database_url, "Quoted Channel", "parcel")
        await heard.until(("post", ""), ("Quoted Channel", ""), ("post", "letter"), ("Quoted Channel", "parcel"))
    assert not heard.losses


async def test_after_a_killed_connection_it_listens_again_and_calls_each_channel(database_url: str) -> None:
    async with listening(database_url, "post") as heard:
        await heard.until(("post", ""))
        async with await Connection.connect(database_url) as killer:
            await killer.execute(f"select pg_terminate_backend(pid) {LISTENING}".encode())
        await heard.until(("post", ""), ("post", ""))
        await notify(database_url, "post", "letter")
        await heard.until(("post", ""), ("post", ""), ("post", "letter"))
        assert len(heard.losses) == 1
        assert isinstance(heard.losses[0][0], psycopg.OperationalError)


async def test_a_connection_that_went_silent_is_noticed_and_replaced(database_url: str) -> None:
    async with Wire(database_url) as wire, listening(wire.url, "post", heartbeat=0.03, patience=2) as heard:
        await heard.until(("post", ""))
        await trio.sleep(0.15)
        assert heard.notifications == [("post", "")]  # heartbeats are not heard
        wire.fall_silent()
        await heard.until_lost(1)
        wire.speak_again()
        await heard.until(("post", ""), ("post", ""))
        await notify(database_url, "post", "letter")
        await heard.until(("post", ""), ("post", ""), ("post", "letter"))


async def test_notifications_are_heard_at_once_between_the_heartbeats_and_during_them(database_url: str) -> None:
    async with listening(database_url, "post", heartbeat=0.001) as heard:
        expected = [("post", "")]
        for number in range(50):
            expected.append(("post", str(number)))
            await notify(database_url, "post", str(number))
            await heard.until(*expected)


async def test_the_pauses_stay_short_while_the_server_is_away(autojump_clock: trio.testing.MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    heard = Notifications()
    listener = Listener("host=/nonexistent", heard.notification, on_lost=heard.loss)
    with trio.move_on_after(200):
        await listener.run(["post"])
    pauses = [pause for _, pause in heard.losses]
    for pause, expected in zip(pauses, [0.5, *[1] * 150], strict=False):
        assert expected * 0.75 <= pause <= expected * 1.25
    assert 150 <= len(pauses) <= 270
    assert heard.notifications == []


async def test_cancelling_leaves_nothing_behind(database_url: str) -> None:
    before = open_descriptors()
    for milliseconds in range(10):
        with trio.move_on_after(milliseconds / 1000):
            async with listening(database_url, "post"):
                await trio.sleep_forever()
    assert open_descriptors() == before
    async with await Connection.connect(database_url) as observer:
        with trio.fail_after(PATIENCE):
            while await (await observer.execute(f"select 1 {LISTENING}".encode())).fetchone():
                await trio.sleep(0.01)


async def test_a_bug_in_the_callback_is_loud(database_url: str) -> None:
    def broken(_channel: str, payload: str) -> None:
        if payload:
            raise LookupError(payload)

    with pytest.RaisesGroup(pytest.RaisesExc(LookupError, match="letter")):
        async with trio.open_nursery() as nursery:
            await nursery.start(Listener(database_url, broken).run, ["post"])
            await notify(database_url, "post", "letter")
            await trio.sleep(3)
