"""The schema beside its migrations: replaceable views and functions, and the schemas from before `0001_release_0_2`."""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from psycopg import sql
from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from core.frozen import Frozen

STEPPING_STONE: Final = "c74fefcb3"
"""The last commit that carries the migrations from `0001_schema` on."""
EARLIER_STONE: Final = "ccde58add6e9"
"""The last commit that carries the 83 of before `0001_schema`."""

_FIRST: Final = "0001_schema 671bbe2fe7574dad533857e61eb9c8130f10ee6689b94a793b3c0d388f16e7ac"
_NUMBER: Final = 57
_DIGEST: Final = "8d00caf5bf43478fcf8758a66b880f2c60ac9a1201545f2668ecf58e2c8754c1"
_EARLIER_FIRST: Final = "0001_foundation "
_EARLIER_DIGEST: Final = "9ca1fa541ce28bc65b6fcd3e5ac77d299c9aba2550caabc88b45242458a884ed"

TAKEN_ON: Final = "The database has the whole schema of before 0.2.0: run `postern migrate`, which takes it on"


class WayHere(Frozen):
    """Of a schema of before 0.2.0 that is not taken on: the commits at which `postern migrate` has to run before, in this order."""

    newest: str
    commits: Sequence[str]
    restored_at: str
    """The commit whose program reads a backup of this schema."""

    def __str__(self) -> str:
        """The sentence for an operator whose database has this schema."""
        first, *others = self.commits
        on = "".join(f"then at commit {commit}, " for commit in others)
        return (
            f"The database has a schema of before 0.2.0 ({self.newest}): check out commit {first}, run `postern migrate` there, "
            f"{on}and then here"
        )

    @property
    def of_backup(self) -> str:
        """The sentence for an operator whose backup has this schema."""
        on = "".join(f"then at commit {commit}, " for commit in self.commits if commit != self.restored_at)
        return (
            f"The backup has a schema of before 0.2.0 ({self.newest}): check out commit {self.restored_at}, "
            f"restore it and run `postern migrate` there, {on}and then here"
        )


def is_whole(applied: Sequence[str]) -> bool:
    """Whether these are all migrations from `0001_schema` on, as they were: `migrate` takes such a schema on."""
    return digest_of_migrations(applied) == _DIGEST


def way_here(applied: Sequence[str]) -> WayHere | None:
    """Two lists of migrations came before `0001_release_0_2`: 83 in 0.1.0 and for some days after it, then `0001_schema` and those after
    it. A database that has the whole second list is taken on as it is. Every other one migrates at the last commit of its list before it
    comes here (docs/decisions/0240-the-first-schema-of-0-2-0.md). `applied` has a line for each migration that a database or a backup
    remembers: its name and its checksum.

    None: no schema of before 0.2.0, or one that `migrate` takes on. Whether a shorter list was changed, the stepping stone finds out.
    """
    if not applied:
        return None
    newest = applied[-1].partition(" ")[0]
    if applied[0] == _FIRST and len(applied) < _NUMBER:
        return WayHere(newest, (STEPPING_STONE,), STEPPING_STONE)
    if applied[0].startswith(_EARLIER_FIRST):
        is_all = digest_of_migrations(applied) == _EARLIER_DIGEST
        return WayHere(newest, (STEPPING_STONE,) if is_all else (EARLIER_STONE, STEPPING_STONE), EARLIER_STONE)
    return None


def digest_of_migrations(applied: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(applied).encode()).hexdigest()


MARK: Final = "schema_edition"
PROMISE: Final = "additive: older processes go on"

_HEADER: Final = re.compile(r"-- edition (?P<number>[1-9]\d*)\n")
_VIEW: Final = re.compile(r"^create or replace view (?P<name>\w+)", re.MULTILINE)


class NotReplaceable(Exception):
    """The message says what is wrong with the file."""


class Edition(Frozen):
    """Of the views and functions. `digest` is the SHA-256 of the file, in hexadecimal."""

    number: int
    digest: str

    @property
    def needs(self) -> int:
        """As a migration's: any process may run beside it."""
        return 0

    def __str__(self) -> str:
        return f"edition {self.number} of the views and functions"


class Replaceable(Frozen):
    """The views and functions that nothing in the schema is built on. They are in one file. `migrate` replaces all of them when the number
    in its first line is higher than the database's (docs/decisions/0173-views-and-functions-in-one-file.md).
    """

    edition: Edition
    sql: str

    @property
    def views(self) -> Sequence[str]:
        """Replacing a view takes it from everybody for a moment. Replacing a function takes nothing."""
        return _VIEW.findall(self.sql)

    def applied(self) -> str:
        """The statements that replace everything, the mark last."""
        values = (sql.Literal(self.edition.number), sql.Literal(self.edition.digest))
        return f"{self.sql}\n;\n{sql.SQL(_MARKING).format(*values).as_string(None)}"

    def __str__(self) -> str:
        return str(self.edition)


def replaceable_of(text: str) -> Replaceable:
    """The contents of a file. Raises `NotReplaceable`."""
    header = _HEADER.match(text)
    if header is None:
        raise NotReplaceable("do not begin with `-- edition N`")
    return Replaceable(Edition(int(header["number"]), hashlib.sha256(text.encode()).hexdigest()), text)


async def edition_of(connection: Connection) -> Edition | None:
    """Returns the edition of the database. None: what the migrations have made. The database answers by a function, `schema_edition`, which
    is replaced with the others, and goes with them into each dump and out of it.
    """
    if await (await connection.execute(_HAS_MARK)).fetchone() != (True,):
        return None
    return await (await connection.cursor(row_factory=class_row(Edition)).execute(_EDITION)).fetchone()


_HAS_MARK: Final = "select exists (select from pg_proc where proname = 'schema_edition' and pronamespace = to_regnamespace('public'))"

_EDITION: Final = "select number, digest from schema_edition()"

_MARKING: Final = """
create or replace function schema_edition(out number integer, out digest text) language sql immutable as $$
    select {}::integer, {}::text
$$
"""
