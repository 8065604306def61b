"""A psycopg connection for Trio: psycopg's own protocol generators, driven by Trio's readiness calls. No asyncio, no threads.

Nothing here knows what is stored. psycopg's pin may move only when the tests of this file pass.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import psycopg
import trio
from psycopg import AsyncConnection, OperationalError, ProgrammingError, abc, pq
from psycopg._capabilities import capabilities
from psycopg._conninfo_utils import get_param
from psycopg.abc import AdaptContext, ConnDict, ConnParam, PQGen
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import CancellationTimeout, ConnectionTimeout, _WaitTimeout
from psycopg.generators import copy_end, copy_from, fetch_many, send
from psycopg.pq.abc import PGconn
from psycopg.rows import AsyncRowFactory, TupleRow, tuple_row
from psycopg.waiting import Ready, Wait

from adapters.postgres.driver.execution import Execution, PreparedStatements, SocketReadiness, drive_connecting, until_ready
from adapters.postgres.driver.hosts import HOST_PATIENCE, attempts, backend_of
from adapters.postgres.driver.pipeline import Pipeline, PipelinedTransaction, ServerTransaction

RV = TypeVar("RV")

DEFAULTS: Final[ConnDict] = {
    "connect_timeout": 10,  # for each address tried
    # A server that vanished silently is noticed within 45 s, not after the two hours of most kernels.
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 45_000,
}
RECOVERY: Final = 2.0  # seconds to make the server stop and the connection idle again after a cancellation
GRACE: Final = 0.02  # most statements end on their own in this time; a request to cancel costs the server a process
LONGEST_BUSY: Final = 0.005  # seconds without a turn of the event loop

_OK: Final = pq.ConnStatus.OK
_IDLE: Final = pq.TransactionStatus.IDLE
_ACTIVE: Final = pq.TransactionStatus.ACTIVE
_NO_PIPELINE: Final = pq.PipelineStatus.OFF
_READ: Final = Wait.R
_READABLE: Final = Ready.R


class TripCounter:
    """Counts how often the tasks of one context waited for a server's answer."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


# Set it to a new `TripCounter` at the start of a request; child tasks inherit the same counter.
round_trips: ContextVar[TripCounter | None] = ContextVar("round_trips", default=None)


class _Lock:
    """A lock that costs no turn of the event loop while the lock is free: the wait for the server's answer is turn enough."""

    __slots__ = ("_held", "_waiting")

    def __init__(self) -> None:
        self._held = False
        self._waiting = trio.lowlevel.ParkingLot()

    async def __aenter__(self) -> None:
        if self._held:
            # The lock goes directly to the next task: it stays held in between.
            await self._waiting.park()
        else:
            self._held = True

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._waiting:
            self._waiting.unpark()
        else:
            self._held = False

    def locked(self) -> bool:
        return self._held


class Connection(AsyncConnection[TupleRow]):
    """A connection that survives cancellation: afterwards it is usable, with nothing running on the server, or closed.

    The connection is in autocommit mode, unless the caller asks otherwise. A statement that is cancelled inside a transaction leaves the
    transaction failed, as any error does.
    """

    lock: _Lock  # type: ignore[assignment]  # psycopg names asyncio's lock, but only enters and leaves it

    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[TupleRow] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.lock = _Lock()
        self.prepared = self._prepared = PreparedStatements()
        self.round_trips = 0  # how often a task waited for the server's answer
        self.recovery = RECOVERY  # at 0, a cancelled statement ends the connection at once
        self._transformer: abc.Transformer | None = None
        self._readiness = SocketReadiness(pgconn.socket)
        self._asked_at = 0.0
        self.backend = 0  # the process id of the server's session, also behind a pooler
        self._last_turn = 0.0

    @classmethod
    async def connect(  # type: ignore[override]  # psycopg's has no patience
        cls,
        conninfo: str = "",
        *,
        autocommit: bool = True,
        prepare_threshold: int | None = 5,
        context: AdaptContext | None = None,
        row_factory: AsyncRowFactory[TupleRow] | None = None,
        cursor_factory: type[psycopg.AsyncCursor[TupleRow]] | None = None,
        patience: float | None = None,
        **kwargs: ConnParam,
    ) -> Self:
        """Try each address of each host in turn, each within `connect_timeout`, and of several each within its share of `patience`, in
        seconds. Raises `OperationalError` when none answers, and `SharedSession`.
        """
        parameters = _with_defaults(conninfo_to_dict(conninfo, **kwargs))
        connection = await cls._reach(conninfo, parameters, patience)
        counter = round_trips.set(None)  # the trips of whoever asks for a connection are those of its own statements
        try:
            with trio.fail_after(patience or HOST_PATIENCE):
                connection.backend = await backend_of(connection, lambda: cls._reach(conninfo, parameters, patience))
        except trio.TooSlowError:
            connection.abort()
            raise ConnectionTimeout("the server let us in and then did not answer") from None
        except BaseException:
            connection.abort()
            raise
        finally:
            round_trips.reset(counter)
        connection.round_trips = 0
        connection._autocommit = autocommit  # noqa: SLF001 - our own class
        connection.prepare_threshold = prepare_threshold
        if row_factory is not None:
            connection.row_factory = row_factory
        if cursor_factory is not None:
            connection.cursor_factory = cursor_factory
        if context is not None:
            connection._adapters = AdaptersMap(context.adapters)  # noqa: SLF001
        return connection

    @classmethod
    async def _reach(cls, conninfo: str, parameters: ConnDict, patience: float | None) -> Self:
        """A connection in autocommit mode to the first address that lets us in."""
        failures: list[psycopg.Error] = []
        for attempt in await attempts(conninfo, parameters, patience):
            connection = None
            try:
                with trio.move_on_after(attempt.timeout) as scope:
                    began = monotonic()
                    try:
                        connection = await drive_connecting(cls._connect_gen(make_conninfo("", **attempt.parameters)))
                    except trio.Cancelled:
                        attempt.ended_after(monotonic() - began)
                        raise
                if connection is not None:
                    attempt.succeeded()
                    connection._autocommit = True  # noqa: SLF001 - our own class
                    return connection
                if scope.cancelled_caught:
                    failures.append(ConnectionTimeout(f"no answer from {attempt} within {attempt.timeout:g} s"))
            except psycopg.Error as error:
                failures.append(error.with_traceback(None))
        if len(failures) == 1:
            raise failures[0]
        raise type(failures[-1])("no server could be reached: " + "; ".join(str(failure).strip() for failure in failures))

    async def wait(self, gen: PQGen[RV], interval: float = 0, timeout: float | None = None) -> RV:  # noqa: ARG002, ASYNC109 - psycopg's signature
        """Run one of psycopg's generators to its end, waiting as it asks. The caller holds the lock."""
        if timeout is not None:
            with trio.move_on_after(timeout):
                return await self.wait(gen)
            raise _WaitTimeout("wait timeout expired")
        waited = False
        self._asked_at = monotonic()
        try:
            wanted = next(gen)
            socket = self.pgconn.socket
            while True:
                if wanted == _READ:
                    if not waited:
                        waited = True
                        self._count_round_trip()
                    try:
                        await trio.lowlevel.wait_readable(socket)
                    except BaseException as interruption:
                        await self._interrupted(gen, interruption)
                        raise
                    wanted = gen.send(_READABLE)
                else:
                    # A socket is nearly always ready for writing, so ask the socket before waiting.
                    ready = self._readiness.now()
                    if not ready & wanted or monotonic() - self._last_turn > LONGEST_BUSY:
                        try:
                            if ready & wanted:
                                await trio.lowlevel.checkpoint()
                            else:
                                ready = await until_ready(socket, wanted)
                        except BaseException as interruption:
                            await self._interrupted(gen, interruption)
                            raise
                        self._last_turn = monotonic()
                    wanted = gen.send(ready)
        except StopIteration as finished:
            result: RV = finished.value
            return result

    @property
    def transformer(self) -> abc.Transformer:
        """Converts the values of all executions. psycopg makes one transformer for each cursor, and each finds out anew how to convert
        what. Because this one is kept, the session's time zone and encoding stay what they were at the first answer.
        """
        if self._transformer is None:
            self._transformer = Transformer(self)
        return self._transformer

    async def carry_out(self, execution: Execution[Any]) -> None:
        """Runs the execution now, or queues it in the pipeline."""
        pipeline = self._pipeline
        if pipeline is None:
            await self.run(execution.run())
            return
        assert isinstance(pipeline, Pipeline)  # noqa: S101 - only this class makes them
        execution.queue(pipeline)
        if pipeline.is_long or self.prepared.is_untidy:
            await self.run(pipeline.relieved())

    async def run(self, generator: PQGen[RV]) -> RV:
        """Run a protocol generator under the connection's lock."""
        async with self.lock:
            return await self.wait(generator)

    def settled(self) -> bool:
        """Whether the connection is idle: no statement, no transaction, no pipeline, no task that uses it."""
        pgconn = self.pgconn
        return (
            pgconn.status == _OK
            and pgconn.transaction_status == _IDLE
            and pgconn.pipeline_status == _NO_PIPELINE
            and not self.lock.locked()
        )

    def usable(self) -> bool:
        """Whether the connection is settled, and not closed by the server, as far as one system call can tell, without a round trip."""
        # An idle connection has nothing to read, unless the server has closed it.
        return self.settled() and not self._readiness.readable()

    def waited(self) -> float:
        """For how many seconds the task that uses this connection has waited for the server. 0 while no task waits."""
        return monotonic() - self._asked_at if self.lock.locked() else 0.0

    async def cancel_safe(self, *, timeout: float = RECOVERY) -> None:  # noqa: ASYNC109 - psycopg's signature
        """Asks the server to stop the statement of this connection; returns when the request is delivered. The server may continue the
        statement all the same.
        """
        if not self._should_cancel():
            return
        with trio.move_on_after(timeout or RECOVERY) as patience:
            if capabilities.has_cancel_safe():
                await drive_connecting(self._cancel_gen())
            else:
                await trio.to_thread.run_sync(self.cancel, abandon_on_cancel=True)
        if patience.cancelled_caught:
            raise CancellationTimeout("the server did not take the request to cancel in time")

    @asynccontextmanager
    async def transaction(self, savepoint_name: str | None = None, force_rollback: bool = False) -> AsyncIterator[ServerTransaction]:  # noqa: FBT001, FBT002 - psycopg's signature
        """Psycopg's transaction block; its commit or roll-back is shielded from cancellation, within bounds."""
        transaction = ServerTransaction(self, savepoint_name, force_rollback)
        if self._pipeline:
            async with self.pipeline(), transaction, self.pipeline():
                yield transaction
        else:
            async with transaction:
                yield transaction

    def pipelined_transaction(self, begin: bytes = b"BEGIN") -> PipelinedTransaction:
        """A transaction in which only reading an answer costs a round trip."""
        return PipelinedTransaction(self, begin)

    @asynccontextmanager
    async def pipeline(self) -> AsyncIterator[Pipeline]:
        """A block in which statements are queued until an answer is wanted, or the block ends."""
        async with self._pipeline_nolock(no_lock=False) as pipeline:
            yield pipeline

    @asynccontextmanager
    async def _pipeline_nolock(self, *, no_lock: bool = True) -> AsyncIterator[Pipeline]:
        self._check_connection_ok()
        pipeline = self._pipeline
        if pipeline is None:
            pipeline = self._pipeline = Pipeline(self, no_lock)
        assert isinstance(pipeline, Pipeline)  # noqa: S101 - only this class makes them
        try:
            async with pipeline:
                yield pipeline
        finally:
            if pipeline.level == 0:
                self._pipeline = None

    def enter_pipeline(self) -> Pipeline:
        """For `PipelinedTransaction`. Raises `ProgrammingError` in a transaction or pipeline."""
        self._check_connection_ok()
        if self._pipeline is not None or self.pgconn.transaction_status != _IDLE:
            raise ProgrammingError("a pipelined transaction starts on an idle connection")
        self.pgconn.enter_pipeline_mode()
        pipeline = Pipeline(self)
        pipeline.level = 1
        self._pipeline = pipeline
        return pipeline

    def leave_pipeline(self) -> None:
        self._pipeline = None
        if self.pgconn.status == _OK:
            try:
                self.pgconn.exit_pipeline_mode()
            except psycopg.Error:
                self.abort()

    def abort(self) -> None:
        """Close at once. A task that waits on this connection gets an `OperationalError`; the server rolls back."""
        if self.pgconn.status == _OK:
            # Before the descriptor's number can go to another file.
            trio.lowlevel.notify_closing(self.pgconn.socket)
        self.pgconn.finish()

    async def close(self) -> None:
        self._closed = True
        self.abort()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None and not self.closed:
                await self.commit()
        finally:
            await self.close()

    def _count_round_trip(self) -> None:
        self.round_trips += 1
        counter = round_trips.get()
        if counter is not None:
            counter.count += 1

    async def _interrupted(self, gen: PQGen[Any], interruption: BaseException) -> None:
        """A wait was cut short: leave the connection usable, or closed."""
        gen.close()
        if isinstance(interruption, trio.ClosedResourceError):
            raise OperationalError("the connection was closed while a task waited for it") from None
        if isinstance(interruption, psycopg.Error):
            return
        pipeline = self._pipeline
        if self.pgconn.status != _OK or (pipeline is None and self.pgconn.transaction_status != _ACTIVE):
            return
        recovered = False
        try:
            with trio.CancelScope(shield=True, relative_deadline=self.recovery), suppress(psycopg.Error):
                await self._recover()
                recovered = True
        finally:
            if not recovered:
                self.abort()

    async def _recover(self) -> None:
        """Read what the server still sends. If that takes long, ask the server to stop, and ask again, because the first request may come
        too early.
        """
        leftovers = self._leftovers()
        socket = self.pgconn.socket
        patience = GRACE
        try:
            wanted = next(leftovers)
            while True:
                with trio.move_on_after(patience):
                    while True:
                        wanted = leftovers.send(await until_ready(socket, wanted))
                with suppress(psycopg.Error):
                    await self.cancel_safe()
                patience = max(0.1, patience * 2)
        except StopIteration:
            return

    def _leftovers(self) -> PQGen[None]:
        """Send and receive everything that remains until the server waits for us again."""
        pgconn = self.pgconn
        pipeline = self._pipeline
        if isinstance(pipeline, Pipeline):
            pipeline.forget_everything()
            pgconn.pipeline_sync()
            yield from send(pgconn)
            while pgconn.transaction_status == _ACTIVE:
                yield from fetch_many(pgconn)
            return
        yield from send(pgconn)
        results = yield from fetch_many(pgconn)
        status = results[-1].status if results else None
        with suppress(psycopg.errors.QueryCanceled):
            if status == pq.ExecStatus.COPY_IN:
                yield from copy_end(pgconn, b"cancelled")
            elif status == pq.ExecStatus.COPY_OUT:
                while isinstance((yield from copy_from(pgconn)), memoryview):
                    pass


def _with_defaults(parameters: ConnDict) -> ConnDict:
    return {**{name: value for name, value in DEFAULTS.items() if get_param(parameters, name) is None}, **parameters}
