"""Threads that do nothing but hash passwords.

Trio's own worker threads could hash, but there are three reasons for threads of our own. First, a thread that has hashed keeps the memory
of a hash in its arena, so only few threads should ever hash. Second, a thread of ours takes the next password without asking the event
loop, which is busy while passwords wait. Third, the threads run at a lower priority than everything else, so that many people who sign in
do not delay the people who are signed in.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import outcome
import trio

from adapters.crypto.given_back import give_back

T = TypeVar("T")

# This niceness keeps other requests quick while all cores hash, and does not make sign-ins fewer. `python -m ops.bench` has the comparison.
NICENESS: Final = 19
# A thread that has had nothing to do for so long gives its memory back. The first hash after that takes some milliseconds more.
REST: Final = 10.0


class HashingThreads:
    """At most `count` threads, which start when they are first needed. `close` ends the threads after all queued jobs."""

    def __init__(self, count: int, *, lines: int = 1, rest: float = REST) -> None:
        self._count = count
        self._rest = rest
        self._jobs = _Lines(lines)
        self._started = 0

    async def run(self, function: Callable[[], T], line: int = 0) -> T:
        """Run `function` in one of the threads. Jobs of one line run in the order of their calls, and the lines take turns. A cancelled
        call leaves the queue at once; if its hash is running already, the call waits for the end of the hash.
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
        while (job := self._next()) is not None:
            job.do()

    def _next(self) -> "_Job | None":
        try:
            return self._jobs.get(self._rest)
        except TimeoutError:
            give_back()
        return self._jobs.get()


class _Lines:
    """Jobs that wait in several lines. The event loop puts jobs in. The threads take them: a job of one line, then a job of the next line
    that has any.
    """

    def __init__(self, count: int) -> None:
        self._lines: list[deque[_Job]] = [deque() for _ in range(count)]
        self._next = 0
        self._lock = threading.Lock()
        # Counts the waiting jobs, and the threads that are still to end.
        self._waiting = threading.Semaphore(0)

    def put(self, job: "_Job", line: int) -> None:
        self._lines[line].append(job)
        self._waiting.release()

    def end_one(self) -> None:
        """One thread gets None, after all waiting jobs are taken."""
        self._waiting.release()

    def get(self, patience: float | None = None) -> "_Job | None":
        """Raises `TimeoutError` when no job has come for so many seconds."""
        if not self._waiting.acquire(timeout=patience):
            raise TimeoutError
        with self._lock:
            for step in range(len(self._lines)):
                line = (self._next + step) % len(self._lines)
                if self._lines[line]:
                    self._next = line + 1
                    return self._lines[line].popleft()
        return None


class _Job:
    """A job is either done by a thread, or abandoned by its task before a thread took it. Never both."""

    __slots__ = ("_function", "_left", "_lock", "_taken", "_task", "_token")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._task = trio.lowlevel.current_task()
        self._token = trio.lowlevel.current_trio_token()
        self._lock = threading.Lock()
        self._taken = self._left = False

    def leave(self) -> bool:
        """Abandon the job. False when a thread has taken the job already."""
        with self._lock:
            self._left = not self._taken
            return self._left

    def do(self) -> None:
        with self._lock:
            if self._left:
                return
            self._taken = True
        result = outcome.capture(self._function)
        # The event loop may have ended meanwhile, together with the task that waits.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(trio.lowlevel.reschedule, self._task, result)


def _lower_priority() -> None:
    # On Linux, each thread has a niceness of its own, and `setpriority` takes the thread's native id. Elsewhere niceness belongs to the
    # process and must stay as it is.
    if os.uname().sysname == "Linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
