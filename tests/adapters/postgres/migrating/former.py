"""The two lists of migrations of before 0.2.0, and databases that remember them."""

import io
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from adapters.postgres.driver.connection import Connection
from adapters.postgres.migrate import migrate, shipped
from adapters.postgres.migrating.schema import replaceable_of
from tests.places import MIGRATIONS, REPLACEABLE, ROOT

_HERE: Final = Path(__file__).parent
EARLIER: Final = (_HERE / "former_migrations.txt").read_text().splitlines()
"""The 83 of before `0001_schema`."""
FORMER: Final = (_HERE / "former_migrations_0_1.txt").read_text().splitlines()
"""Those from `0001_schema` on, which the first schema of 0.2.0 has taken the place of."""
VIEWS_AND_FUNCTIONS: Final = (_HERE / "former_replaceable.sql").read_text()
"""Edition 12, which came with the first migration: later editions use tables and columns of later migrations."""
CHANGED: Final = [*FORMER[:5], "0006_resource_servers x", *FORMER[6:]]


async def make_former(url: str, lines: Sequence[str], edition: int = 11) -> None:
    """Makes an empty database as migrations of these names have left it, with this edition of the views and functions."""
    text = VIEWS_AND_FUNCTIONS.partition("\n")[2]
    await migrate(url, lambda _line: None, shipped()[:1], replaceable=replaceable_of(f"-- edition {edition}\n{text}"))
    await remember_former(url, lines)


def copy_rows(source: str, target: str) -> None:
    """Copies the rows of a current database into one with the first schema, without the columns that migrations have added since."""
    with psycopg.connect(source) as current, psycopg.connect(target) as former:
        former.execute("set session_replication_role = replica")
        columns, there = _columns(current), _columns(former)
        tables = there.keys() & columns.keys()
        former.execute(sql.SQL("truncate {}").format(sql.SQL(", ").join(map(sql.Identifier, sorted(tables)))))
        for table in sorted(tables):
            names = sql.SQL(", ").join(sql.Identifier(name) for name in there[table] if name in columns[table])
            read = sql.SQL("copy (select {} from {}) to stdout").format(names, sql.Identifier(table))
            write = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(table), names)
            with current.cursor().copy(read) as rows, former.cursor().copy(write) as written:
                for block in rows:
                    written.write(block)
        for name, last in current.execute("select sequencename, last_value from pg_sequences where schemaname = 'public'").fetchall():
            if last is not None:
                former.execute("select setval(to_regclass(%s), %s)", [name, last])


def _columns(connection: "psycopg.Connection[Any]") -> dict[str, list[str]]:
    """By table: those that take values."""
    found: dict[str, list[str]] = {}
    for table, column in connection.execute(_COLUMNS).fetchall():
        found.setdefault(table, []).append(column)
    return found


_COLUMNS: Final = """
    select relname::text, attname::text
      from pg_attribute
      join pg_class on pg_class.oid = attrelid
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relname <> 'schema_migrations'
       and attnum > 0 and not attisdropped and attgenerated = ''
     order by attnum
"""


async def remember_former(url: str, lines: Sequence[str]) -> None:
    """Writes down that these migrations were applied, and no others."""
    async with await Connection.connect(url) as connection, connection.transaction():
        await connection.execute("delete from schema_migrations")
        for line in lines:
            name, checksum = line.split()
            values = (int(name[:4]), name[5:], checksum)
            await connection.execute("insert into schema_migrations (number, name, checksum, needs) values (%s, %s, %s, 0)", values)


def schema_at(commit: str, folder: Path) -> Path | None:
    """The tree of a commit: its migrations, and its views and functions if it has that file. None: this clone does not have the commit."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return None
    found = False
    for path in (MIGRATIONS, REPLACEABLE):
        asked = ["git", "archive", "--format=tar", commit, "--", str(path.relative_to(ROOT))]
        if packed := subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).stdout:
            found = True
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(folder, filter="data")
    return folder if found else None
