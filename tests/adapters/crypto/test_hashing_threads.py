"""The hashing threads: few, in order, polite, and never held up by a caller who has left."""

import os
import sys
import threading
import time
from functools import partial

import pytest
import trio
import trio.testing

from adapters.crypto.hashing_threads import NICENESS, HashingThreads


async def test_what_is_asked_is_done_in_a_thread_of_its_own() -> None:
    threads = HashingThreads(1)
    assert await threads.run(threading.get_ident) != threading.get_ident()
    threads.close()


async def test_no_more_threads_than_were_allowed() -> None:
    threads = HashingThreads(2)
    seen: set[int] = set()

    def who() -> int:
        time.sleep(0.005)
        return threading.get_ident()

    async def one() -> None:
        seen.add(await threads.run(who))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(one)
    assert 1 <= len(seen) <= 2
    threads.close()


async def test_lines_take_turns_and_each_keeps_its_order() -> None:
    threads = HashingThreads(1, lines=3)
    busy = threading.Event()
    done: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, busy.wait)
        await trio.testing.wait_all_tasks_blocked()
        for line, count in ((0, 5), (2, 2), (1, 1)):
            for number in range(count):
                nursery.start_soon(threads.run, partial(done.append, f"{line}.{number}"), line)
                await trio.testing.wait_all_tasks_blocked()
        busy.set()
    assert done == ["1.0", "2.0", "0.0", "2.1", "0.1", "0.2", "0.3", "0.4"]
    threads.close()


async def test_closed_threads_do_first_what_is_queued() -> None:
    threads = HashingThreads(2, lines=2)
    busy = threading.Event()
    done: list[int] = []
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(threads.run, busy.wait)
        for number in range(6):
            nursery.start_soon(threads.run, partial(done.append, number), number % 2)
        await trio.testing.wait_all_tasks_blocked()
        threads.close()
        busy.set()
    assert sorted(done) == list(range(6))


async def test_an_exception_comes_back_as_itself() -> None:
    threads = HashingThreads(1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda: 7) == 7
    threads.close()


async def test_who_leaves_the_queue_is_not_worked_for() -> None:
    threads = HashingThreads(1)
    busy, done = threading.Event(), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, busy.wait)
        await trio.sleep(0.02)
        with trio.move_on_after(0.02) as scope:
            await threads.run(lambda: done.append("hashed"))
        assert scope.cancelled_caught
        busy.set()
    await threads.run(lambda: None)
    assert not done
    threads.close()


async def test_who_leaves_in_the_middle_waits_for_its_end() -> None:
    threads = HashingThreads(1)
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.1)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run, work)
        await trio.to_thread.run_sync(begun.wait)
        nursery.cancel_scope.cancel()
    assert ended.is_set()
    threads.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere niceness belongs to the whole process")
async def test_the_threads_are_polite_and_the_event_loop_keeps_its_priority() -> None:
    # Not always 0: the suite itself may run under `nice`.
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    threads = HashingThreads(1)
    assert await threads.run(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())) == NICENESS
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
    threads.close()


async def test_closed_threads_end() -> None:
    threads = HashingThreads(1)
    thread = await threads.run(threading.current_thread)
    threads.close()
    await trio.to_thread.run_sync(thread.join, 2)
    assert not thread.is_alive()
