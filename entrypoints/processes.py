"""Several serving processes on one address: the parent binds the sockets and keeps the children running."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
import trio

from adapters.metrics import forget_process
from entrypoints.failures import StartFailed
from entrypoints.listening import release
from entrypoints.settings import Settings
from entrypoints.signals import Stopping

log = structlog.get_logger()

READY: Final = b"r"
ALIVE: Final = b"a"
HEARTBEAT: Final = 2.0
# The seconds of silence after which a child is killed, because its event loop hangs. Long enough for a machine that swaps.
_LONGEST_SILENCE: Final = 30.0
_LONGEST_START: Final = 60.0
# A child that was asked to stop gets this many seconds more than its own timeout.
_LAST_GRACE: Final = 3.0

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
# Once a child has served for this long, earlier deaths no longer count. The time is short, because a killed child does not mean that
# children cannot start, and clients wait in the child's socket for the successor.
_HEALTHY_AFTER: Final = 1.0
_MOST_FAILURES: Final = 10
_MULTIPROCESS: Final = "PROMETHEUS_MULTIPROC_DIR"


@dataclass(slots=True)
class _Child:
    process: trio.Process
    channel: trio.SocketStream
    started_at: float
    ready_at: float | None = None


@dataclass(slots=True)
class _Slot:
    """The place of a child. When a child dies, its successor takes the same slot and the same socket."""

    number: int
    socket: socket.socket
    been_ready: trio.Event = field(default_factory=trio.Event)
    failures: deque[float] = field(default_factory=deque)


class Processes:
    """The parent owns the database and everything else that is made once. Each child has its own socket. The parent holds the same socket
    too, so connections that wait on the socket outlive the child and reach its successor. Parent and child hold the two ends of a channel.
    The child sends "ready" and then "alive". When the parent ends, the channel ends, and the child stops. Each child has its own process
    group, so that Ctrl-C reaches the parent alone.
    """

    def __init__(
        self, settings: Settings, sockets: Sequence[socket.socket], stopping: Stopping, *, metrics_sockets: Sequence[socket.socket] = ()
    ) -> None:
        self._settings = settings
        # All children listen on these sockets, because each child can serve the metrics of all processes.
        self._metrics_sockets = metrics_sockets
        self._slots = [_Slot(number, one) for number, one in enumerate(sockets, start=1)]
        self._stopping = stopping
        self._directory = Path(tempfile.mkdtemp(prefix="postern-metrics-"))
        self._given_up = False

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Runs until asked to stop. Then every child finishes its requests in flight. Raises `StartFailed` when a child cannot be kept
        running.
        """
        # The children keep their metrics in this directory from their first line on, and `forget_process` reads the variable. The parent's
        # own metrics stay in memory.
        os.environ[_MULTIPROCESS] = str(self._directory)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._let_go_of_sockets, name="sockets")
                for slot in self._slots:
                    nursery.start_soon(self._keep, slot, name=f"process {slot.number}")
                nursery.start_soon(self._tell_when_ready, on_ready, name="readiness")
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        if self._given_up:
            raise StartFailed("A serving process kept ending; the log says why")

    async def _tell_when_ready(self, on_ready: Callable[[], None]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._give_up_waiting, nursery.cancel_scope)
            for slot in self._slots:
                await slot.been_ready.wait()
            on_ready()
            nursery.cancel_scope.cancel()

    async def _give_up_waiting(self, waiting: trio.CancelScope) -> None:
        await self._stopping.requested.wait()
        waiting.cancel()

    async def _let_go_of_sockets(self) -> None:
        await self._stopping.requested.wait()
        # The parent closes its sockets first, then the children close theirs: a socket that only the parent still holds would take
        # connections that no process accepts.
        release(self._settings.bind, [slot.socket for slot in self._slots])
        if self._settings.metrics_bind is not None:
            release(self._settings.metrics_bind, self._metrics_sockets)

    async def _keep(self, slot: _Slot) -> None:
        while not self._stopping.requested.is_set():
            child = await self._spawn(slot)
            if child is not None:
                try:
                    await self._watch(slot, child)
                finally:
                    with trio.CancelScope(shield=True):
                        await self._end(child)
            if self._stopping.requested.is_set():
                return
            if child is not None:
                log.error("process_died", process=slot.number, pid=child.process.pid, status=child.process.returncode)
            pause = self._pause_after(slot, child)
            if pause is None:
                log.critical("process_given_up", process=slot.number, failures=len(slot.failures))
                self._given_up = True
                self._stopping.request()
                return
            with trio.move_on_after(pause):
                await self._stopping.requested.wait()

    async def _spawn(self, slot: _Slot) -> _Child | None:
        """Starts a child. None when the system has no free process or descriptor, or the program is missing: then this child is missing,
        and the others go on.
        """
        try:
            return await self._open(slot)
        except OSError as error:
            log.error("process_not_started", process=slot.number, error=error.strerror or type(error).__name__)  # noqa: TRY400 - it says it all
            return None

    async def _open(self, slot: _Slot) -> _Child:
        ours, theirs = socket.socketpair()
        inherited = [slot.socket.fileno(), theirs.fileno(), *(one.fileno() for one in self._metrics_sockets)]
        numbers = [*inherited[:2], slot.number, len(self._slots), *inherited[2:]]
        with ExitStack() as unless_started, theirs:
            unless_started.enter_context(ours)
            process = await trio.lowlevel.open_process(
                [
                    *(sys.executable, "-m", f"{__package__}.cli.main", "serve"),
                    *("--as-child", ",".join(map(str, numbers))),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=inherited,
                process_group=0,
            )
            unless_started.pop_all()
        log.info("process_started", process=slot.number, pid=process.pid)
        return _Child(process, trio.SocketStream(trio.socket.from_stdlib_socket(ours)), trio.current_time())

    async def _watch(self, slot: _Slot, child: _Child) -> None:
        """Returns when the child has ended, hangs, or did not stop when asked."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear, slot, child, nursery.cancel_scope)
            nursery.start_soon(self._ask_to_stop, child, nursery.cancel_scope)
            await child.process.wait()
            nursery.cancel_scope.cancel()

    async def _hear(self, slot: _Slot, child: _Child, whole: trio.CancelScope) -> None:
        while True:
            patience = _LONGEST_SILENCE if child.ready_at is not None else child.started_at + _LONGEST_START - trio.current_time()
            with trio.move_on_after(patience) as waiting:
                try:
                    heard = await child.channel.receive_some(64)
                except trio.BrokenResourceError:
                    return
                if not heard:
                    return  # the child is ending; its process is being waited for
                if child.ready_at is None and READY in heard:
                    child.ready_at = trio.current_time()
                    slot.been_ready.set()
            if waiting.cancelled_caught and not self._stopping.requested.is_set():
                log.error("process_hangs", process=slot.number, pid=child.process.pid, silent_for=patience)
                whole.cancel()

    async def _ask_to_stop(self, child: _Child, whole: trio.CancelScope) -> None:
        await self._stopping.requested.wait()
        child.process.send_signal(signal.SIGTERM)
        await trio.sleep(self._settings.shutdown_timeout.total_seconds() + _LAST_GRACE)
        log.error("process_killed", pid=child.process.pid, why="it did not stop in time")
        whole.cancel()

    async def _end(self, child: _Child) -> None:
        child.process.kill()
        await child.process.wait()
        await child.channel.aclose()
        with suppress(OSError):
            forget_process(child.process.pid)

    def _pause_after(self, slot: _Slot, child: _Child | None) -> float | None:
        """The seconds to wait before the next child. None after too many failures."""
        now = trio.current_time()
        if child is not None and child.ready_at is not None and now - child.ready_at >= _HEALTHY_AFTER:
            slot.failures.clear()
        slot.failures.append(now)
        failures = len(slot.failures)
        if failures >= _MOST_FAILURES:
            return None
        # After the first death in a while, the successor starts at once.
        return 0.0 if failures == 1 else min(_FIRST_PAUSE * 2 ** (failures - 2), _LONGEST_PAUSE)


async def report_to_parent(channel: socket.socket, stopping: Stopping) -> None:
    """Runs in the child: sends a sign of life at intervals, and asks the child to stop when the parent is gone."""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(channel))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_notice_the_end, stream, stopping)
        with suppress(trio.BrokenResourceError):
            while True:
                await trio.sleep(HEARTBEAT)
                await stream.send_all(ALIVE)


async def _notice_the_end(stream: trio.SocketStream, stopping: Stopping) -> None:
    with suppress(trio.BrokenResourceError):
        # The parent never sends anything, so this returns when the channel ends.
        await stream.receive_some(1)
    log.error("parent_gone")
    stopping.request()


def clear_up_after(parent: int) -> None:
    """Runs at the very end of a child. Removes the directory of the metrics if the parent is gone, because a killed parent could not."""
    directory = os.environ.get(_MULTIPROCESS)
    if directory is not None and os.getppid() != parent:
        shutil.rmtree(directory, ignore_errors=True)
