"""Translates errors of the driver and the pool into refusals of the domain."""

from types import TracebackType
from typing import Final

import psycopg
from psycopg import errors

from adapters.postgres.driver.pool import PoolClosed, PoolExhausted
from core.domain.errors import OutcomeUnknown, Overloaded, Unavailable

RETRY_AFTER: Final = 2.0

# Classes of SQLSTATE from PostgreSQL's appendix A, in this order: connection, authorization, rollback of a transaction, resources,
# operator, system.
_PASSING_CLASSES: Final = frozenset({"08", "28", "40", "53", "57", "58"})
_PASSING: Final = frozenset(
    {
        "25006",  # read-only: the server became a standby
        "25P03",  # idle too long in a transaction: the session was ended
        "25P04",  # the transaction took too long: the session was ended
        "55P03",  # a lock was not available in time
    },
)

# The server ended the session, also one that waits for a standby to confirm what is committed already.
_LEAVING: Final = frozenset({"57P01", "57P02"})


class translated:  # noqa: N801 - it reads as a statement: `with translated():`
    """A context manager around each use of the pool. Raises `Overloaded` or `Unavailable`; other exceptions pass unchanged.

    Only a transient failure becomes a refusal: too few connections, a server that is away, a conflict between transactions. A violated
    constraint or a wrong statement is our bug, and its exception stays unchanged.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            return
        if isinstance(error, PoolExhausted):
            raise Overloaded(retry_after=error.retry_after, detail="no database connection became free in time") from error
        if isinstance(error, PoolClosed):
            raise Unavailable(retry_after=RETRY_AFTER, detail="the connection pool is closed") from error
        if isinstance(error, psycopg.Error) and _passes(error):
            raise Unavailable(retry_after=RETRY_AFTER, detail=_detail(error)) from error


class committed:  # noqa: N801 - it reads as a statement: `with committed():`
    """Like `translated`, around a commit. Raises `OutcomeUnknown` when the answer got lost: the server may have committed."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, psycopg.OperationalError) and (error.sqlstate is None or error.sqlstate in _LEAVING) and _passes(error):
            raise OutcomeUnknown(retry_after=RETRY_AFTER, detail=_detail(error)) from error
        translated().__exit__(kind, error, trace)


def _passes(error: psycopg.Error) -> bool:
    if error.sqlstate is not None:
        return error.sqlstate[:2] in _PASSING_CLASSES or error.sqlstate in _PASSING or _is_on_standby(error)
    # An error without a code did not come from the server: libpq found the connection broken, or could not open one.
    return isinstance(error, psycopg.OperationalError) and not isinstance(error, errors.PipelineAborted)


def _is_on_standby(error: psycopg.Error) -> bool:
    """Unlogged tables cannot be read on a standby. The code is that of everything that PostgreSQL does not support, and its words have the
    server's language, so the function that refuses decides: of a table's planning, it refuses nothing else.
    """
    return isinstance(error, errors.FeatureNotSupported) and error.diag.source_function == "get_relation_info"


def _detail(error: psycopg.Error) -> str:
    # The log gets only the server's primary message, because the detail may quote the data of a row.
    return error.diag.message_primary or str(error).partition("\n")[0]
