"""One execution of one of the program's own statements, which are constants and are always prepared.

psycopg's cursor could run it too, at twice the processor time: a cursor can also scroll, stream, copy and take many sets of parameters. An
execution sends, receives and converts the same values as a cursor.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from psycopg import ProgrammingError, pq
from psycopg._preparing import Prepare
from psycopg._queries import _query2pg_nocache
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat
from psycopg.errors import PipelineAborted, error_from_result
from psycopg.generators import execute

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from adapters.postgres.driver.connection import Connection
    from adapters.postgres.driver.pipeline import Pipeline

# A mapping by the parameters' names; or a list, for callers that know the order in which the statement first names its parameters.
Parameters = Mapping[str, Any] | list[Any]
T = TypeVar("T")

_ENCODING: Final = "utf-8"
_TEXT: Final = pq.Format.TEXT
_ABORTED: Final = pq.ExecStatus.PIPELINE_ABORTED
_FINE: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Execution(Generic[T]):
    """Runs on its own, or waits in a pipeline. Its rows are there after the answer."""

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
