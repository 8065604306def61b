"""The schema beside its migrations: replaceable views and functions, and what was before `0001_schema`.

The schema of before `0001_schema`. Nothing was released with it, and 83 migrations made it. Whoever ran one of these commits goes to the
last of them, migrates there, and then here, where the database is taken on as it is (docs/decisions/0121-one-first-schema.md).

`applied` has a line for each migration that the database remembers: its name and its checksum.

The views and functions that nothing in the schema is built on. They stand in one file. `migrate` replaces all of them when the number in
its first line is higher than the database's (docs/decisions/0173-views-and-functions-in-one-file.md).

The database answers by a function, `schema_edition`, which number and form it has. The function is replaced with the others, and goes with
them into each dump and out of it.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from psycopg import sql
from psycopg.rows import class_row

from adapters.postgres.driver.connection import Connection
from core.frozen import Frozen

STEPPING_STONE: Final = "ccde58add6e9"
"""The last commit that carries these migrations."""
_FIRST: Final = "0001_foundation "
_DIGEST_OF_ALL: Final = "9ca1fa541ce28bc65b6fcd3e5ac77d299c9aba2550caabc88b45242458a884ed"

TAKEN_ON: Final = "The database has the whole schema of before the first one: run `postern migrate`, which takes it on"


def is_former(applied: Sequence[str]) -> bool:
    """Whether the migrations of before have made this schema, all of them or some."""
    return bool(applied) and applied[0].startswith(_FIRST)


def is_whole(applied: Sequence[str]) -> bool:
    return hashlib.sha256("\n".join(applied).encode()).hexdigest() == _DIGEST_OF_ALL


def led_on(applied: Sequence[str]) -> str:
    """The sentence for an operator whose database is older."""
    newest = applied[-1].partition(" ")[0]
    return (
        f"The database has a schema of before the first one ({newest}): check out commit {STEPPING_STONE}, run `postern migrate` there, "
        "and then here"
    )


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
    """What is there. None: what the migrations have made."""
    if await (await connection.execute(_HAS_MARK)).fetchone() != (True,):
        return None
    return await (await connection.cursor(row_factory=class_row(Edition)).execute(_EDITION)).fetchone()


_HAS_MARK: Final = "select exists (select from pg_proc where proname = 'schema_edition' and pg_function_is_visible(oid))"

_EDITION: Final = "select number, digest from schema_edition()"

_MARKING: Final = """
create or replace function schema_edition(out number integer, out digest text) language sql immutable as $$
    select {}::integer, {}::text
$$
"""
