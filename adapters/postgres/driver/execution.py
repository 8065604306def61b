"""Executes one of the program's own SQL statements on Trio, always prepared."""

import re
import select
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import trio
from psycopg import OperationalError, ProgrammingError, _queries, pq
from psycopg._preparing import Key, Prepare, PrepareManager
from psycopg._queries import PostgresQuery, _query2pg_nocache
from psycopg.abc import PQGen, PQGenConn
from psycopg.adapt import PyFormat
from psycopg.errors import PipelineAborted, error_from_result
from psycopg.generators import execute
from psycopg.waiting import Ready, Wait

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from adapters.postgres.driver.connection import Connection
    from adapters.postgres.driver.pipeline import Pipeline

T = TypeVar("T")


_INVALIDATES: Final = re.compile(rb"(?:DROP|ALTER|DISCARD ALL|DEALLOCATE ALL)\b")
# "cached plan must not change result type" has no code of its own; "prepared statement does not exist" has.
_PLAN_OUTDATED: Final = b"0A000"
_UNKNOWN_STATEMENT: Final = b"26000"
# Our statements are constants, so each is parsed for its parameters once. psycopg remembers the last 128 statements below 4 KiB, and parses
# longer ones every time.
_queries._query2pg = _queries._query2pg_nocache = lru_cache(maxsize=2048)(_queries._query2pg_nocache)  # noqa: SLF001
_FINE: Final = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class PreparedStatements(PrepareManager):
    """psycopg's bookkeeping, with three changes.

    A roll-back forgets nothing: PostgreSQL keeps prepared statements through a roll-back, while psycopg would deallocate them all, which
    costs a round trip and every plan for each refused request. A statement whose preparation was skipped in an aborted pipeline does not
    count as prepared. psycopg does not check this for a statement that it has counted before, and would fail with "prepared statement does
    not exist" for ever. A statement whose plan the server refuses after a change of the schema is prepared again the next time.
    """

    def clear(self) -> bool:
        return False

    def name_of(self, key: Key) -> bytes | None:
        """The name of a statement that the server has."""
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
        return name

    def new_name(self) -> bytes:
        self._prepared_idx += 1
        return b"_pg3_%d" % (self._prepared_idx - 1)

    @property
    def is_untidy(self) -> bool:
        """Whether the server has statements that are not wanted any more. `maintain_gen` closes these."""
        return bool(self._to_flush)

    def add(self, key: Key, name: bytes) -> None:
        self._counts.pop(key, None)
        self._names[key] = name

    def maybe_add_to_cache(self, query: PostgresQuery, prep: Prepare, name: bytes) -> Key | None:
        super().maybe_add_to_cache(query, prep, name)
        return None if self.prepare_threshold is None else self.key(query)

    def validate(self, key: Key, prep: Prepare, name: bytes, results: Sequence["PGresult"]) -> None:
        if len(results) == 1 and results[0].status in _FINE:
            tag = results[0].command_status if self._names else None
            if tag is not None and _INVALIDATES.match(tag):
                super().clear()
            else:
                self._rotate()
        elif prep is Prepare.NO:
            self._counts.pop(key, None)
        elif not results or results[-1].status == pq.ExecStatus.PIPELINE_ABORTED:
            # The statement's preparation was skipped too, or has failed. (When only the execution fails, the status says so.)
            if prep is Prepare.SHOULD:
                self._prepare_next_time(key)
        elif results[-1].error_field(pq.DiagnosticField.SQLSTATE) in {_PLAN_OUTDATED, _UNKNOWN_STATEMENT}:
            self.forget(key, name)

    def forget(self, key: Key, name: bytes) -> None:
        """Prepare the statement again the next time. It does not matter whether the server has it: closing a statement that does not exist
        is no error.
        """
        self._prepare_next_time(key)
        self._to_flush.append(name)

    def _prepare_next_time(self, key: Key) -> None:
        self._names.pop(key, None)
        if self.prepare_threshold is not None:
            self._counts[key] = self.prepare_threshold


class SocketReadiness:
    """What one socket is ready for right now: one system call, no turn of the event loop."""

    __slots__ = ("_poll",)

    def __init__(self, socket: int) -> None:
        self._poll = select.poll()
        self._poll.register(socket, select.POLLIN | select.POLLOUT)

    def now(self) -> Ready:
        events = self._poll.poll(0)
        if not events:
            return Ready.NONE
        return _READY[events[0][1] & _BOTH] or Ready.R  # the next read finds out about an error or a hang-up

    def readable(self) -> bool:
        events = self._poll.poll(0)
        return bool(events) and events[0][1] != select.POLLOUT


_BOTH = select.POLLIN | select.POLLOUT
_READY = {0: Ready.NONE, select.POLLIN: Ready.R, select.POLLOUT: Ready.W, _BOTH: Ready.RW}


async def until_ready(socket: int, wanted: Wait) -> Ready:
    """Wait in the calling task. Raises `OperationalError` when another task closes the connection meanwhile.

    psycopg speaks PostgreSQL's protocol in generators that yield what they would wait for. Here these waits become Trio's readiness calls.
    """
    try:
        if wanted == Wait.R:
            await trio.lowlevel.wait_readable(socket)
            return Ready.R
        if wanted == Wait.W:
            await trio.lowlevel.wait_writable(socket)
            return Ready.W
        return await _either(socket)
    except trio.ClosedResourceError:
        raise OperationalError("the connection was closed while a task waited for it") from None


async def _either(socket: int) -> Ready:
    # Only a socket with a full send buffer and nothing to read comes here. This rare wait may cost two tasks.
    found = Ready.NONE
    closed = False

    async def watch(ready: Ready) -> None:
        nonlocal found, closed
        try:
            await (trio.lowlevel.wait_readable if ready is Ready.R else trio.lowlevel.wait_writable)(socket)
            found = Ready(found | ready)
        except trio.ClosedResourceError:
            closed = True
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, Ready.R)
        nursery.start_soon(watch, Ready.W)
    if closed:
        raise trio.ClosedResourceError
    return found


async def drive_connecting(generator: PQGenConn[T]) -> T:
    """Run a generator whose socket may change from step to step: connecting, and asking the server to cancel."""
    try:
        socket, wanted = next(generator)
        while True:
            socket, wanted = generator.send(await until_ready(socket, wanted))
    except StopIteration as finished:
        result: T = finished.value
        return result
    finally:
        # Closing the generator releases the half-open connection inside, and its file descriptor.
        generator.close()


# A mapping by the parameters' names; or a list, for callers that know the order in which the statement first names its parameters.
Parameters = Mapping[str, Any] | list[Any]

_ENCODING: Final = "utf-8"
_TEXT: Final = pq.Format.TEXT
_ABORTED: Final = pq.ExecStatus.PIPELINE_ABORTED


class Execution(Generic[T]):
    """Runs on its own, or waits in a pipeline. Its rows are there after the answer.

    The program's own statements are constants, and are always prepared. psycopg's cursor could run them too, at twice the processor time: a
    cursor can also scroll, stream, copy and take many sets of parameters. An execution sends, receives and converts the same values as a
    cursor.
    """

    # psycopg's pipeline hands an answer to a cursor, and uses these names for it.
    __slots__ = ("_conn", "_make", "_parameters", "_result", "_statement", "in_order")

    def __init__(
        self, connection: "Connection", make: Callable[..., T], statement: str, parameters: Parameters | None, *, in_order: bool = False
    ) -> None:
        """`make` makes a row of the columns by their names, or by their order when `in_order`."""
        self._conn = connection
        self._make = make
        self._statement = statement
        self._parameters = parameters
        self._result: PGresult | None = None
        self.in_order = in_order

    def run(self) -> PQGen[None]:
        """Run outside of a pipeline."""
        connection = self._conn
        pgconn, prepared = connection.pgconn, connection.prepared
        query, parameters, types, formats = self._converted()
        key = (query, types)
        name = prepared.name_of(key)
        if name is None:
            name = prepared.new_name()
            pgconn.send_prepare(name, query, param_types=types)
            self._check_results((yield from execute(pgconn)))
            prepared.add(key, name)
        pgconn.send_query_prepared(name, parameters, param_formats=formats, result_format=_TEXT)
        results = yield from execute(pgconn)
        prepared.validate(key, Prepare.YES, name, results)
        self._check_results(results)
        self._set_results(results)
        if prepared.is_untidy:
            yield from prepared.maintain_gen(connection)

    def queue(self, pipeline: "Pipeline") -> None:
        connection = self._conn
        pgconn, prepared = connection.pgconn, connection.prepared
        query, parameters, types, formats = self._converted()
        key = (query, types)
        preparing = Prepare.YES
        name = prepared.name_of(key)
        if name is None:
            preparing = Prepare.SHOULD
            name = prepared.new_name()
            prepared.add(key, name)
            pipeline.command_queue.append(partial(pgconn.send_prepare, name, query, param_types=types))
            pipeline.result_queue.append(None)
        pipeline.command_queue.append(partial(pgconn.send_query_prepared, name, parameters, param_formats=formats, result_format=_TEXT))
        pipeline.result_queue.append((self, (key, preparing, name)))  # type: ignore[arg-type]  # not a cursor, but as good as one here

    def rows(self) -> list[T]:
        result = self._result
        if result is None:
            raise ProgrammingError("there is no answer yet")
        transformer = self._conn.transformer
        transformer.set_pgresult(result)
        count = result.ntuples
        make = self._make
        if self.in_order:
            return transformer.load_rows(0, count, lambda values: make(*values))
        names = [(result.fname(column) or b"").decode(_ENCODING) for column in range(result.nfields)]
        return transformer.load_rows(0, count, lambda values: make(**dict(zip(names, values, strict=True))))

    def row_count(self) -> int:
        """How many rows the statement found or touched."""
        return 0 if self._result is None else self._result.command_tuples or 0

    def _converted(self) -> tuple[bytes, "Sequence[Any] | None", tuple[int, ...], "Sequence[pq.Format] | None"]:
        """The statement in PostgreSQL's form, and the parameters with their types and formats."""
        query, formats, order = _taken_apart(self._statement, self._parameters is not None)
        given = self._parameters
        if given is None:
            return query, None, (), None
        transformer = self._conn.transformer
        parameters = transformer.dump_sequence(given if isinstance(given, list) else [given[name] for name in order], formats)
        return query, parameters, transformer.types or (), transformer.formats

    def _check_results(self, results: "Sequence[PGresult]") -> None:
        status = results[0].status
        if status in _FINE:
            return
        if status == _ABORTED:
            raise PipelineAborted("pipeline aborted")
        raise error_from_result(results[0], encoding=_ENCODING)

    def _set_results(self, results: "Sequence[PGresult]") -> None:
        self._result = results[0]


@lru_cache(maxsize=2048)
def _taken_apart(statement: str, with_parameters: bool) -> tuple[bytes, Sequence[PyFormat], Sequence[str]]:  # noqa: FBT001 - a part of the key
    """The statement in PostgreSQL's form, with the formats and the names of its parameters. Runs once for each statement, because
    statements are constants.
    """
    encoded = statement.encode(_ENCODING)
    if not with_parameters:
        return encoded, (), ()
    query, formats, order, _ = _query2pg_nocache(encoded, _ENCODING)
    return query, formats, order or ()
