"""Whether a connection has a session of the server to itself.

A pooler in transaction mode gives each transaction another session. Prepared statements, notifications and settings then go to somebody
else's session, and answers come from there. So a connection that leads to such a pooler is refused before it carries any statement of ours.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import psycopg
import trio

if TYPE_CHECKING:
    from adapters.postgres.driver.connection import Connection

# A busy pooler that shares sessions passes about one round of eight by luck. Three rounds let one connection of 600 through.
_ROUNDS: Final = 8
# Seconds for a second connection to get a session. A pooler in session mode lets it wait for as long as all sessions are taken.
PATIENCE: Final = 2.0
_NAME: Final = b"select pg_backend_pid(), current_setting('postern.session', true)"


class SharedSession(psycopg.OperationalError):
    """The message is one sentence for the operator."""

    def __init__(self) -> None:
        super().__init__(
            "The pooler before PostgreSQL gives each transaction another session, and Postern needs one for each connection: "
            "set pool_mode = session for this database (PgBouncer), or lead POSTERN_DATABASE_URL past the pooler"
        )


async def backend_of(connection: "Connection", connect: Callable[[], Awaitable["Connection"]]) -> int:
    """The process id of the session that this connection has to itself. `connect` opens another connection to the same place.

    Raises `SharedSession`. Without a pooler, the server has told the id when the connection began, and one question shows that.
    """
    backend, _ = await _session(connection)
    if backend == connection.info.backend_pid:
        return backend
    word = secrets.token_hex(8)
    # If there are too few sessions for two connections, the second one waits, so nothing is shared.
    with trio.move_on_after(PATIENCE):
        async with await connect() as other:
            other.recovery = 0
            await connection.execute("select set_config('postern.session', %s, false)", [word], prepare=False)
            for _ in range(_ROUNDS):
                await _require_its_own(connection, other, word)
    return backend


async def _require_its_own(connection: "Connection", other: "Connection", word: str) -> None:
    mine = await _session(connection)
    try:
        async with other.transaction():
            # The session that the pooler took back from `connection` is the first that it gives away.
            theirs = await _session(other)
            again = await _session(connection)
    except psycopg.errors.ProtocolViolation:  # the pooler gives each statement another session, and refuses transactions
        raise SharedSession from None
    if theirs[0] == mine[0] or theirs[1] == word or mine != again or mine[1] != word:
        raise SharedSession


async def _session(connection: "Connection") -> tuple[int, str | None]:
    row = await (await connection.execute(_NAME, prepare=False)).fetchone()
    assert row is not None  # noqa: S101 - a select without from has a row
    return int(row[0]), row[1]
