"""Every place where the database keeps sealed values, so that a command can seal them again after a rotation of the key ring."""

from collections.abc import Mapping, Sequence
from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import ask, ask_in_order, only, tell
from adapters.postgres.tables.declaring import Sealing
from adapters.postgres.tables.every import TABLES
from core.frozen import Frozen
from ports.crypto import KeyRing, SealedValue


class _Column(Frozen):
    """The parameters: `after` and `limit` of `all`; `header`, and `limit` of `outdated`; `row`, `old` and `new` of `replace`."""

    all: LiteralString
    outdated: LiteralString
    count: LiteralString
    replace: LiteralString


def _column(table: LiteralString, column: LiteralString, sealing: Sealing) -> _Column:
    key, context = sealing.key, sealing.context or f"{table}.{column}"
    values: LiteralString = f"select {key}::text as row, {column} as sealed, '{context}:' || {key} as context from {table}"
    # An empty value is nobody's secret. A version of before wrote one for each sign-out of a directory, in a row that lives for an hour. So
    # after one release, `is not null` will do here.
    is_sealed: LiteralString = f"{column} <> ''"
    return _Column(
        all=f"""
            {values}
             where {is_sealed} and (%(after)s::text is null or {key} > %(after)s::{sealing.key_type})
             order by {key}
             limit %(limit)s
        """,
        outdated=f"""
            {values}
             where substring({column} from 1 for length(%(header)s)) <> %(header)s and {is_sealed}
             order by {key}
             limit %(limit)s
        """,
        count=f"""
            select count(*) as values
              from {table}
             where substring({column} from 1 for length(%(header)s)) <> %(header)s and {is_sealed}
        """,
        replace=f"update {table} set {column} = %(new)s where {key} = %(row)s::{sealing.key_type} and {column} = %(old)s",
    )


_COLUMNS: Final[Mapping[str, _Column]] = {
    f"{name}.{column}": _column(table.name, column, sealing)
    for name, table in sorted(TABLES.items())
    for column, sealing in table.sealed.items()
}


class PostgresSealedColumns:
    """Implements `ports.crypto.SealedColumns`."""

    def __init__(self, pool: Pool, keyring: KeyRing) -> None:
        self._pool = pool
        self._keyring = keyring

    @property
    def columns(self) -> Sequence[str]:
        return tuple(_COLUMNS)

    async def all(self, column: str, after: str | None, limit: int) -> Sequence[SealedValue]:
        return await ask(self._pool, SealedValue, _COLUMNS[column].all, {"after": after, "limit": limit})

    async def outdated(self, column: str, limit: int) -> Sequence[SealedValue]:
        parameters = {"header": self._keyring.current_header(), "limit": limit}
        return await ask(self._pool, SealedValue, _COLUMNS[column].outdated, parameters)

    async def count_outdated(self, column: str) -> int:
        return only(await ask_in_order(self._pool, int, _COLUMNS[column].count, {"header": self._keyring.current_header()}))

    async def replace(self, column: str, row: str, old: bytes, new: bytes) -> bool:
        return await tell(self._pool, _COLUMNS[column].replace, {"row": row, "old": old, "new": new}) == 1
