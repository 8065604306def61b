"""The statement that counts the rows of a table and makes their keyed digests, in one look at the table.

Each row becomes the SHA-256 of the key and its values in PostgreSQL's binary form, which depends on no setting. The digest of the table is
the sum of the first 64 bits of each, so the order of rows does not matter, the planner may share the work among its processes, and two
tables with the same digest have the same rows. Without the key, nobody can look for other rows with the same sum, or guess what a small
table holds. All of it is made with functions of PostgreSQL 14, so every server makes the same digest.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

from psycopg import sql

from adapters.postgres.backups.held_work import HOLDABLE
from adapters.postgres.driver.connection import Connection
from core.domain.backups import ColumnGroup

# A parameter of a long statement would stand in the server's log of slow statements.
_USE_KEY: Final = "select set_config('postern.digest_key', %(key)s, false)"


async def use_key(connection: Connection, key: bytes) -> None:
    await connection.execute(_USE_KEY, {"key": key.hex()})


def groups_of(table: str, columns: Sequence[str], keys: Sequence[str]) -> Mapping[ColumnGroup, Sequence[str]]:
    """The columns of each group. The second group has the primary key, too: otherwise two rows could swap their values."""
    holdable = HOLDABLE.get(table, ())
    contents = [name for name in columns if name not in holdable]
    held = [name for name in columns if name in holdable]
    groups = {ColumnGroup.CONTENTS: contents} if contents else {}
    return {**groups, ColumnGroup.HOLDABLE: sorted({*keys, *held})} if held else groups


def contents(
    table: str,
    groups: Mapping[ColumnGroup, Sequence[str]],
    converted: Collection[str],
    since: datetime | None = None,
    *,
    one_row: bool = False,
) -> tuple[sql.Composed, Mapping[str, object]]:
    """The statement and its parameters. `converted` are columns whose type only this database has, so that their text is taken. Rows that a
    restore or a check of the copy has written later than `since` do not count. With `one_row`, the statement reads one row at most: for a
    trial.
    """
    digests = [_DIGEST.format(sql.SQL(", ").join(_column(name, converted) for name in columns)) for columns in groups.values()]
    counted = sql.SQL(", ").join([sql.SQL("count(*)"), *digests])
    # With `only`, a table in parts would have no rows.
    read = sql.SQL("(select * from public.{} limit 1)" if one_row else "public.{}").format(sql.Identifier(table))
    every = sql.SQL("select {} from {} as counted").format(counted, read)
    if since is None or table not in _WITHOUT_OURS:
        return every, {}
    return sql.SQL("{} where {}").format(every, sql.SQL(_WITHOUT_OURS[table])), {"since": since}


def _column(name: str, converted: Collection[str]) -> sql.Composed:
    return sql.SQL("counted.{}::text" if name in converted else "counted.{}").format(sql.Identifier(name))


# PostgreSQL 14 reads a number out of bytes only by their hexadecimal text.
_DIGEST: Final = sql.SQL(
    "coalesce(sum(('x' || encode(substring(sha256("
    "decode(current_setting('postern.digest_key'), 'hex') || record_send(row({}))"
    ") from 1 for 8), 'hex'))::bit(64)::bigint), 0)::text"
)

# The entries of `postern backup restore`, of `postern jobs release`, and of the account that a check makes and removes.
_OURS: Final = """(
    select id
      from public.audit_entries
     where created_at > %(since)s and organization_id is null
       and (action in ('platform.backup.restored', 'platform.work.released')
            or action = 'platform.owner.created' and not exists (select from public.users where users.id::text = target_id))
)"""

_WITHOUT_OURS: Final[Mapping[str, LiteralString]] = {
    "audit_entries": f"counted.id not in {_OURS}",
    "audit_pending": f"counted.entry_id not in {_OURS}",
    "audit_links": f"counted.entry_id not in {_OURS}",
    # A secret that nobody needed before is made by the first who needs it.
    "server_secrets": "counted.created_at <= %(since)s",
}
