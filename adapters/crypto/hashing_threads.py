"""The threads that hash passwords, and nothing else.

Trio's own worker threads could do it, but three things need threads that stay. A thread that has hashed keeps the memory of a hash in its
arena, so few should ever do so. Each takes the next password without asking the event loop, which is busy at just that time. And they run
at a lower priority than everything else, so that many people who sign in do not delay those who are signed in.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import outcome
import trio

T = TypeVar("T")

# A higher niceness keeps other requests quick while both cores hash, and as many people sign in. `python -m ops.bench` has the comparison.
NICENESS: Final = 19


class HashingThreads:
    """At most `count` threads, started when first needed. `close` ends them after what is queued."""

    def __init__(self, count: int, *, lines: int = 1) -> None:
        self._count = count
        self._jobs = _Lines(lines)
        self._started = 0

    async def run(self, function: Callable[[], T], line: int = 0) -> T:
        """Runs in one of the threads, in the order of asking within a line; the lines take turns. A cancelled call leaves the queue at
        once, or waits until the running hash is done.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        job = _Job(function)
        if self._started < self._count:
            self._started += 1
            threading.Thread(target=self._work, name=f"hashing-{self._started}", daemon=True).start()
        self._jobs.put(job, line)

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            return trio.lowlevel.Abort.SUCCEEDED if job.leave() else trio.lowlevel.Abort.FAILED

        result: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return result

    def close(self) -> None:
        for _ in range(self._started):
            self._jobs.end_one()
        self._started = 0

    def _work(self) -> None:
        _lower_priority()
        while (job := self._jobs.get()) is not None:
            job.do()


class _Lines:
    """Jobs that wait in several lines. Put in by the event loop, and taken by the threads: one from each line that has any, in turns."""

    def __init__(self, count: int) -> None:
        self._lines: list[deque[_Job]] = [deque() for _ in range(count)]
        self._next = 0
        self._lock = threading.Lock()
        # As many as there are jobs and ends to come.
        self._waiting = threading.Semaphore(0)

    def put(self, job: "_Job", line: int) -> None:
        self._lines[line].append(job)
        self._waiting.release()

    def end_one(self) -> None:
        """A thread gets None, once there are no more jobs."""
        self._waiting.release()

    def get(self) -> "_Job | None":
        self._waiting.acquire()
        with self._lock:
            for step in range(len(self._lines)):
                line = (self._next + step) % len(self._lines)
                if self._lines[line]:
                    self._next = line + 1
                    return self._lines[line].popleft()
        return None


class _Job:
    """Done by a thread, or abandoned by its task before one took it. Never both."""

    __slots__ = ("_function", "_left", "_lock", "_taken", "_task", "_token")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._task = trio.lowlevel.current_task()
        self._token = trio.lowlevel.current_trio_token()
        self._lock = threading.Lock()
        self._taken = self._left = False

    def leave(self) -> bool:
        """False while it is being done."""
        with self._lock:
            self._left = not self._taken
            return self._left

    def do(self) -> None:
        with self._lock:
            if self._left:
                return
            self._taken = True
        result = outcome.capture(self._function)
        # The loop may have ended meanwhile, with its tasks.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(trio.lowlevel.reschedule, self._task, result)


def _lower_priority() -> None:
    # On Linux, niceness belongs to a thread, and its native id names it. Elsewhere it belongs to the process and must stay as it is.
    if os.uname().sysname == "Linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
