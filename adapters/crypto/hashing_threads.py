"""Threads that only hash passwords, and that return their memory."""

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

import outcome
import trio

T = TypeVar("T")


# The names of `mallopt`, in <malloc.h>.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
# The library's own limit grows up to this with the blocks that it has seen, and no more once one of the limits is set.
_FROM_THE_HEAP: Final = 32 << 20
_KEPT_WHEN_RESTING: Final = 128 << 10
# More than any hash of ours leaves: whatever stays below it stays on the heap between two hashes.
_KEPT_WHEN_BUSY: Final = 256 << 20
# Large enough that freeing it looks at the heap's end, and small enough to come from the heap.
_PROBE: Final = 100 << 10


def give_back() -> None:
    """For the calling thread alone. Takes well under a millisecond, and no lock that others hold for long.

    The GNU C library keeps a freed block for the next allocation of the same thread: after the first hash, 19 MiB for each thread that has
    ever hashed. While passwords come, that is right. A limit that gave each block back at once costs two fifths of the hashing rate, since
    the system clears every page that it gives. So a thread gives back when it has had nothing to do for a while.

    `malloc_trim` leaves the end of a thread's heap as it is, and that is where the block lies. Freeing a block there with a small limit
    shrinks the heap. With another library than this one, nothing happens.
    """
    library = _library()
    if library is None:
        return
    library.mallopt(_MMAP_THRESHOLD, _FROM_THE_HEAP)
    library.mallopt(_TRIM_THRESHOLD, _KEPT_WHEN_RESTING)
    library.free(library.malloc(_PROBE))
    library.mallopt(_TRIM_THRESHOLD, _KEPT_WHEN_BUSY)


@cache
def _library() -> Any:
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_void_p
        library.malloc.argtypes = [ctypes.c_size_t]
        library.free.restype = None
        library.free.argtypes = [ctypes.c_void_p]
        # Only the GNU C library has it.
        _ = library.gnu_get_libc_version
        return library
    return None


# This niceness keeps other requests quick while all cores hash, and does not make sign-ins fewer. `python -m ops.bench` has the comparison.
NICENESS: Final = 19
# A thread that has had nothing to do for so long gives its memory back. The first hash after that takes some milliseconds more.
REST: Final = 10.0


class HashingThreads:
    """At most `count` threads, which start when they are first needed. `close` ends the threads after all queued jobs.

    Trio's own worker threads could hash, but there are three reasons for threads of our own. First, a thread that has hashed keeps the
    memory of a hash in its arena, so only few threads should ever hash. Second, a thread of ours takes the next password without asking the
    event loop, which is busy while passwords wait. Third, the threads run at a lower priority than everything else, so that many users who
    sign in do not delay the users who are signed in.
    """

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
