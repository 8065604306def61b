"""Whether the database accepts writes. A successful read does not prove that, because reads still work on a full disk and on a standby."""

from typing import Final

import psycopg
import structlog
import trio

from adapters.postgres.driver.pool import Pool, PoolClosed, PoolExhausted
from core.domain.errors import OutcomeUnknown

log = structlog.get_logger()

# SQLSTATE codes from PostgreSQL's appendix A. Other errors of a write concern only one request, or are bugs.
READ_ONLY: Final = "read only"
# `statement_timeout` or somebody's own hand cuts a statement off. The trial tells whether that is the rule: a trivial query may still be
# quick enough, while hardly any request is.
CUT_OFF: Final = "statement timeout"
REASONS: Final = {"53100": "disk full", "25006": READ_ONLY, "58030": "input or output error", "57014": CUT_OFF}
# A commit waits until a synchronous standby has it. Without one it waits for ever, and nothing refuses it.
UNCONFIRMED: Final = "no standby confirms commits"
DEADLINE: Final = 1.0
PAUSE: Final = 1.0


class Writes:
    """The pool reports the errors of every request and actor. After an error of `REASONS`, `Writes` tries to write until writes succeed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # A process that starts on a full disk finds out before it gets its first request.
        self._suspected = True
        self._reason: str | None = None
        self._trying = False
        self._next_try = 0.0
        pool.on_error(self._notice)

    async def failure(self) -> str | None:
        """Why writes fail, as of a second ago at most. None while writes succeed. Never raises."""
        if self._suspected and not self._trying and trio.current_time() >= self._next_try:
            self._trying = True
            try:
                await self._try()
            finally:
                self._trying = False
                self._next_try = trio.current_time() + PAUSE
        return self._reason

    def _notice(self, error: BaseException) -> None:
        # Code that uses the pool through `translated` has turned the error into a refusal.
        lost = isinstance(error, OutcomeUnknown)
        if lost or _reason(error) is not None or (error.__cause__ is not None and _reason(error.__cause__) is not None):
            self._suspected = True

    async def _try(self) -> None:
        committing = False
        with trio.move_on_after(DEADLINE) as scope:
            try:
                async with self._pool.connection() as connection:
                    async with connection.transaction(force_rollback=True):
                        await connection.execute(_LITTLE_MEMORY)
                        await connection.execute(_TRY)
                    committing = True
                    await connection.execute(_COMMIT)
            except psycopg.Error as error:
                # Any other error, such as an outage, does not say whether writes work.
                self._found(_reason(error) or self._reason, error.diag.message_primary)
            except (PoolExhausted, PoolClosed):
                pass
            else:
                self._found(None, None)
                self._suspected = False
        if scope.cancelled_caught and committing:
            self._found(UNCONFIRMED, None)

    def _found(self, reason: str | None, detail: str | None) -> None:
        if reason is not None and self._reason is None:
            log.warning("writes_fail", reason=reason, detail=detail)
        elif reason is None and self._reason is not None:
            log.info("writes_succeed_again", reason=self._reason)
        self._reason = reason


def _reason(error: BaseException) -> str | None:
    return REASONS.get(error.sqlstate or "") if isinstance(error, psycopg.Error) else None


# The trial lasts a twentieth of a second, as an ordinary statement on a busy server does: a server that cuts it off serves nobody.
#
# Writing one row would prove little, because the row may fit into a page that exists already. Instead, the statement makes a megabyte of
# rows with hardly any working memory, so PostgreSQL writes them to a temporary file. The file needs new blocks of the disk, but no
# privilege and no cleaning up. A standby refuses the statement because of its `delete`, although it deletes no row.
_LITTLE_MEMORY: Final = "select set_config('work_mem', '64kB', true)"

_TRY: Final = """
    with nothing as (delete from rate_limit_buckets where false returning 1),
         filling as materialized (select repeat('x', 8000) as filling from generate_series(1, 128))
  select (select count(*) from nothing), count(*), pg_sleep(0.05) from filling
"""

# A transaction of its own that leaves nothing but a word in the write-ahead log, and waits for standbys as every commit does.
_COMMIT: Final = "select pg_logical_emit_message(true, 'postern', '')"
