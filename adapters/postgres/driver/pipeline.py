"""Pipelines: statements that need no answer in between leave together, and a transaction's BEGIN and COMMIT travel with them."""

from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import trio
from psycopg import AsyncPipeline, AsyncTransaction, Error, OperationalError, ProgrammingError, pq
from psycopg._preparing import Prepare
from psycopg.abc import PQGen
from psycopg.errors import InFailedSqlTransaction
from psycopg.generators import fetch_many, send

if TYPE_CHECKING:
    from adapters.postgres.driver.connection import Connection

LAST_WORD: Final = 5.0  # seconds that a commit or roll-back may take, even when its caller is cancelled
_MOST_QUEUED: Final = 64
_BEGIN: Final = b"BEGIN"
_IDLE: Final = pq.TransactionStatus.IDLE
_ACTIVE: Final = pq.TransactionStatus.ACTIVE
_FAILED: Final = pq.TransactionStatus.INERROR


class Pipeline(AsyncPipeline):
    """psycopg's pipeline, but lazy: statements leave when an answer is wanted, so that several share one packet.

    psycopg's own pipeline hands each statement to the socket at once, which costs a system call and a wake-up of the server for each
    statement. It also ends with a needless flush.
    """

    def __init__(self, connection: "Connection", _no_lock: bool = False) -> None:  # noqa: FBT001, FBT002 - psycopg's signature
        super().__init__(connection, _no_lock)
        self._connection = connection
        # libpq does not tell whether the server waits for a Sync.
        self.unsynchronized = False

    def queue(self, command: bytes) -> None:
        """Queue a command whose answer nobody reads. A failure of the command is still noticed."""
        self.command_queue.append(partial(self.pgconn.send_query_params, command, None))
        self.result_queue.append(None)

    def queue_synchronization(self) -> None:
        self._enqueue_sync()

    def answers(self) -> PQGen[None]:
        """Send the queued commands and read all answers. Raises the first error among the answers, after the last one."""
        return self._fetch_gen(flush=True)

    def synchronization(self) -> PQGen[None]:
        """Like `answers`, and end the pipeline's segment: an error stays within its segment."""
        try:
            yield from self._sync_gen()
        except Error:
            # Without COMMIT, the Sync of a segment commits, and that can fail too, for a deferred constraint. Then the error is the first
            # answer to the Sync, and we would take the second answer for that of the next statement.
            while self.pgconn.transaction_status == _ACTIVE:
                yield from fetch_many(self.pgconn)
            raise

    def hand_over(self) -> None:
        """Move the queued commands into libpq's buffer."""
        while self.command_queue:
            self.unsynchronized = True
            self.command_queue.popleft()()

    def forget_queued(self) -> None:
        """Drop the commands that libpq has not seen yet: the last entries of both queues, which have the same order."""
        for _ in range(len(self.command_queue)):
            self._not_prepared(self.result_queue.pop())
        self.command_queue.clear()

    def forget_first(self) -> None:
        """Drop the first command, which libpq must not have seen yet."""
        self.command_queue.popleft()
        self.result_queue.popleft()

    def forget_everything(self) -> None:
        """Drop both queues. Statements whose preparation was queued are prepared again at their next use."""
        self.command_queue.clear()
        while self.result_queue:
            self._not_prepared(self.result_queue.pop())
        self.unsynchronized = False

    def _not_prepared(self, pending: Any) -> None:
        if pending is not None and pending[1] is not None:
            key, prepare, name = pending[1]
            if prepare is Prepare.SHOULD:
                self._connection.prepared.forget(key, name)

    @property
    def is_long(self) -> bool:
        return len(self.command_queue) >= _MOST_QUEUED

    def relieved(self) -> PQGen[None]:
        """Send the queued commands, and close the statements that are not wanted any more."""
        yield from self._communicate_gen()
        yield from self._connection.prepared.maintain_gen(self._connection)

    def _communicate_gen(self) -> PQGen[None]:
        # psycopg calls this after each statement. A long run of statements has to leave, and its answers have to be read; otherwise both
        # ends block.
        if self.is_long:
            self.unsynchronized = True
            yield from super()._communicate_gen()

    def _fetch_gen(self, *, flush: bool) -> PQGen[None]:
        self.hand_over()
        if not self.result_queue:
            return
        if flush:
            self.pgconn.send_flush_request()
        yield from send(self.pgconn)
        yield from super()._fetch_gen(flush=False)

    def _sync_gen(self) -> PQGen[None]:
        self._enqueue_sync()
        self.hand_over()
        self.unsynchronized = False
        yield from self._fetch_gen(flush=False)

    def _exit_gen(self) -> PQGen[None]:
        if self.unsynchronized or self.command_queue:
            yield from self._sync_gen()


class PipelinedTransaction:
    """A transaction in a pipeline: BEGIN travels with the first statement, the last writes travel with COMMIT. When all statements leave at
    once, neither BEGIN nor COMMIT is sent: PostgreSQL makes one transaction of the statements before a Sync, and ends it there.

        async with connection.pipelined_transaction() as transaction:
            cursor = await connection.execute("select …")
            row = await cursor.fetchone()         # first round trip: BEGIN, select
            await connection.execute("update …")  # queued
            await transaction.commit()            # second round trip: update, COMMIT

    Leaving the block without `commit()` rolls back. If no statement has been sent yet, nothing is sent. After `commit()` or `rollback()`
    the connection is an ordinary one again. Do not use `connection.transaction()` inside: its savepoints would cost a round trip each.

    An error does not appear at the `execute` that causes it, but at the next point that waits for answers: the first fetch from a cursor
    without an answer, `flush()` or `commit()`. That point raises the error of the earliest statement that failed (with its own `diag`:
    constraint, SQLSTATE), whichever cursor is read. The server skips the statements after the failed one, and the transaction cannot go on:
    leave the block. An `update` without `returning` has a `rowcount` only after such a point.
    """

    __slots__ = ("_begin", "_connection", "_pipeline")

    def __init__(self, connection: "Connection", begin: bytes = _BEGIN) -> None:
        self._connection = connection
        self._begin = begin
        self._pipeline: Pipeline | None = None

    async def __aenter__(self) -> Self:
        self._pipeline = self._connection.enter_pipeline()
        self._pipeline.queue(self._begin)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pipeline is not None:
            await self.rollback()

    async def flush(self) -> None:
        """Send the queued statements and wait for their answers, within the transaction."""
        await self._connection.run(self._open().answers())

    async def commit(self) -> None:
        """Commit, within `LAST_WORD` seconds, even when the caller is cancelled.

        After an `OperationalError` from here it is unknown whether the commit took place, as with every commit on a lost connection.
        """
        pipeline = self._open()
        if self._status() == _FAILED:
            raise InFailedSqlTransaction("the transaction has failed before; it can only be rolled back")
        nothing_left = not pipeline.unsynchronized and self._status() == _IDLE
        if nothing_left and (self._begin == _BEGIN or len(pipeline.command_queue) == 1):
            # The Sync begins and ends the transaction by itself, so BEGIN and COMMIT need not be sent.
            pipeline.forget_first()
        else:
            pipeline.queue(b"COMMIT")
        if pipeline.command_queue:
            with last_word("commit"):
                await self._connection.run(pipeline.synchronization())
        self._end()

    async def rollback(self) -> None:
        """Roll back what is not committed. Raises no database error: a connection that cannot roll back is closed, which has the same
        effect.
        """
        pipeline = self._open()
        pipeline.forget_queued()
        try:
            if self._connection.closed or (not pipeline.unsynchronized and self._status() == _IDLE):
                return
            if pipeline.unsynchronized:
                # An error may have aborted this segment. Then the server would skip the ROLLBACK with the rest of the segment.
                pipeline.queue_synchronization()
            pipeline.queue(b"ROLLBACK")
            # Errors of statements whose answers nobody has read appear here. They no longer matter.
            with suppress(Error), last_word("rollback"):
                await self._connection.run(pipeline.synchronization())
        finally:
            if self._status() != _IDLE:
                self._connection.abort()
            self._end()

    def _status(self) -> int:
        return self._connection.pgconn.transaction_status

    def _open(self) -> Pipeline:
        if self._pipeline is None:
            raise ProgrammingError("the transaction has not begun, or has ended")
        return self._pipeline

    def _end(self) -> None:
        self._pipeline = None
        self._connection.leave_pipeline()


class ServerTransaction(AsyncTransaction):
    """psycopg's transaction block. A cancellation does not interrupt its end, for at most `LAST_WORD` seconds."""

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        with last_word("commit" if error is None else "rollback"):
            return await super().__aexit__(kind, error, trace)


class last_word:  # noqa: N801 - reads as what it is: `with last_word("commit"):`
    """Shield the end of a transaction from cancellation, within bounds."""

    __slots__ = ("_action", "_scope")

    def __init__(self, action: str) -> None:
        self._action = action
        self._scope = trio.CancelScope(shield=True, relative_deadline=LAST_WORD)

    def __enter__(self) -> None:
        self._scope.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            raise OperationalError(f"no answer to {self._action} within {LAST_WORD:g} s; whether it took place is not known")
