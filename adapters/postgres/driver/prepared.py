"""Which statements a connection has prepared on its server, kept right through errors and roll-backs."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from psycopg import _queries, pq
from psycopg._preparing import Key, Prepare, PrepareManager
from psycopg._queries import PostgresQuery

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

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
