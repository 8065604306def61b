"""The threads that hash passwords, and nothing else.

Trio's own worker threads would do it too, but three things want threads that stay: a thread that has hashed keeps the memory of a hash in
its arena, so few must ever have; each takes the next password without asking the event loop, which is busy just then; and they run at a
lower priority than everything else, so that a crowd that signs in does not delay those who are in.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeVar

import outcome
import trio

T = TypeVar("T")

# On two cores, with both hashing without a pause, the slowest hundredth of other requests takes 2.0 times as long as without at 19, 2.6
# times at 10, and over 5 times at 0; as many sign in.
NICENESS: Final = 19


class HashingThreads:
    """At most `count`, started when first needed. `close` lets them go; what is queued is done before."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._started = 0

    async def run(self, function: Callable[[], T]) -> T:
        """In one of the threads, in the order of asking. Cancelled, it leaves the queue at once, or waits for the end of what has begun."""
        await trio.lowlevel.checkpoint_if_cancelled()
        job = _Job(function)
        if self._started < self._count:
            self._started += 1
            threading.Thread(target=self._work, name=f"hashing-{self._started}", daemon=True).start()
        self._jobs.put(job)

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            return trio.lowlevel.Abort.SUCCEEDED if job.leave() else trio.lowlevel.Abort.FAILED

        result: T = await trio.lowlevel.wait_task_rescheduled(abort)
        return result

    def close(self) -> None:
        for _ in range(self._started):
            self._jobs.put(None)
        self._started = 0

    def _work(self) -> None:
        _lower_priority()
        while (job := self._jobs.get()) is not None:
            job.do()


class _Job:
    """Done by a thread, or left by its task before one took it; never both."""

    __slots__ = ("_function", "_left", "_lock", "_taken", "_task", "_token")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._task = trio.lowlevel.current_task()
        self._token = trio.lowlevel.current_trio_token()
        self._lock = threading.Lock()
        self._taken = self._left = False

    def leave(self) -> bool:
        """False when it is being done."""
        with self._lock:
            self._left = not self._taken
            return self._left

    def do(self) -> None:
        with self._lock:
            if self._left:
                return
            self._taken = True
        result = outcome.capture(self._function)
        # The loop may have ended meanwhile, and its tasks with it.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(trio.lowlevel.reschedule, self._task, result)


def _lower_priority() -> None:
    # On Linux niceness is a thread's own, and its native id names it. Elsewhere it is the process's, which must stay as it is.
    if os.uname().sysname == "Linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
