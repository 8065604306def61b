"""Clients that keep the server busy while another client measures it."""

import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

_LEAST_URGENT = 15


@asynccontextmanager
async def crowded(load: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Runs the load again and again, on a thread. In production, such clients have their own machines. Here the thread has a low
    priority, so the server, its database and the measured client come first.
    """
    over, failed = threading.Event(), list[BaseException]()

    async def until_over() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_forever, load)
            while not over.is_set():  # noqa: ASYNC110 - another thread sets it
                await trio.sleep(0.02)
            nursery.cancel_scope.cancel()

    def run() -> None:
        # The kernel takes the thread's number here, so only this thread's priority changes.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LEAST_URGENT)
        try:
            trio.run(until_over)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    crowd = threading.Thread(target=run)
    crowd.start()
    try:
        yield
    finally:
        over.set()
        await trio.to_thread.run_sync(crowd.join)
    if failed:
        raise failed[0]


async def _forever(load: Callable[[], Awaitable[None]]) -> None:
    while True:
        await load()
