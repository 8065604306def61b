"""The steps of a migration that runs outside a transaction, because it would otherwise hold a table for long: indexes that are built while
others write, rows that are changed in batches, and constraints that are checked afterwards.

    -- additive, in steps
    -- Why.

    -- step: index login_events_of_country
    create index concurrently login_events_of_country on login_events (country, id desc) where country is not null;

    -- step: batches of login_events by id
    update login_events set country = upper(country)
     where id between %(first)s and %(last)s and country <> upper(country);

Only these forms load. Nobody can write a step here that locks a table against readers or writers, or a change of all rows at once.
"""

import re
from collections.abc import Sequence
from typing import Final

from core.frozen import Frozen


class NotAStep(Exception):
    """The message says what stands there and what is expected, for whoever writes the migration."""


class BuildIndex(Frozen):
    """Builds an index while others read and write. `statement` is `create index concurrently`."""

    name: str
    table: str
    statement: str

    def __str__(self) -> str:
        return f"builds the index {self.name}"


class DropIndex(Frozen):
    name: str
    table: str
    statement: str

    def __str__(self) -> str:
        return f"drops the index {self.name}"


class Validate(Frozen):
    """Checks the rows that are older than a constraint, which was added `not valid`."""

    name: str
    table: str
    statement: str

    def __str__(self) -> str:
        return f"checks the rows of {self.table} for {self.name}"


class Batches(Frozen):
    """Runs the statement for one part of the table's rows after the other, in the order of `key`, a column with a unique index. Each part
    is a transaction of its own.
    """

    table: str
    key: str
    statement: str

    def __str__(self) -> str:
        return f"changes {self.table} in batches"


Step = BuildIndex | DropIndex | Validate | Batches

_NAME: Final = r"[a-z_][a-z0-9_]*"
_MARK: Final = re.compile(r"^-- step: (?P<what>.*)\n", re.MULTILINE)
_BATCHES: Final = re.compile(rf"batches of (?P<table>{_NAME}) by (?P<key>{_NAME})")
_BUILD: Final = re.compile(rf"index (?P<name>{_NAME})")
_DROP: Final = re.compile(rf"drop index (?P<name>{_NAME}) of (?P<table>{_NAME})")
_VALIDATE: Final = re.compile(rf"validate (?P<name>{_NAME}) of (?P<table>{_NAME})")
_BUILDS: Final = re.compile(
    rf"create (?:unique )?index concurrently (?P<name>{_NAME})\s+on (?P<table>{_NAME}) ?(?:using \w+ ?)?\(.+\).*", re.DOTALL
)
_PART: Final = "between %(first)s and %(last)s"
# A second statement would run in the same part, and a comment could hide one from a reader.
_NEVER: Final = re.compile(r";|--|/\*|\b(?:truncate|lock table|alter|drop|create)\b")


def steps_of(sql: str) -> Sequence[Step]:
    """The steps of a file. Raises `NotAStep`."""
    marks = list(_MARK.finditer(sql))
    if not marks:
        raise NotAStep("there is no `-- step: …` in it")
    if any(line.strip() and not line.startswith("--") for line in sql[: marks[0].start()].splitlines()):
        raise NotAStep("a statement stands before the first `-- step: …`")
    ends = [mark.start() for mark in marks[1:]] + [len(sql)]
    return tuple(_step(mark["what"], sql[mark.end() : end].strip()) for mark, end in zip(marks, ends, strict=True))


def _step(what: str, text: str) -> Step:
    statement = "\n".join(line for line in text.splitlines() if not line.startswith("-- ")).strip()
    if not statement.endswith(";"):
        raise NotAStep(f"`-- step: {what}` has no statement that ends with a semicolon")
    statement = statement[:-1]
    if match := _BUILD.fullmatch(what):
        return _build(match["name"], statement)
    if match := _DROP.fullmatch(what):
        _exactly(what, statement, f"drop index concurrently {match['name']}")
        # It may be gone already, if the process ended before it could remember that.
        return DropIndex(match["name"], match["table"], f"drop index concurrently if exists {match['name']}")
    if match := _VALIDATE.fullmatch(what):
        wanted = f"alter table {match['table']} validate constraint {match['name']}"
        return Validate(match["name"], match["table"], _exactly(what, statement, wanted))
    if match := _BATCHES.fullmatch(what):
        return _batches(match["table"], match["key"], statement)
    raise NotAStep(
        f"`-- step: {what}` is none of `index NAME`, `drop index NAME of TABLE`, `validate NAME of TABLE` and `batches of TABLE by KEY`"
    )


def _exactly(what: str, statement: str, wanted: str) -> str:
    if " ".join(statement.split()) != wanted:
        raise NotAStep(f"`-- step: {what}` needs the statement `{wanted};`")
    return wanted


def _build(name: str, statement: str) -> BuildIndex:
    match = _BUILDS.fullmatch(statement)
    if match is None or match["name"] != name or ";" in statement:
        raise NotAStep(f"`-- step: index {name}` needs one statement `create index concurrently {name} on …`")
    return BuildIndex(name, match["table"], statement)


def _batches(table: str, key: str, statement: str) -> Batches:
    changes_itself = re.match(rf"(?:update|delete from) {table}\b", statement) is not None
    # A batch may run again, so a row that is there already is no error.
    fills_another = statement.startswith("insert into ") and " on conflict" in " ".join(statement.split())
    if not (changes_itself or fills_another) or f"{key} {_PART}" not in statement or _NEVER.search(statement):
        raise NotAStep(
            f"`-- step: batches of {table} by {key}` needs one statement with `{key} {_PART}`: "
            f"an update or delete of {table}, or an insert with `on conflict`"
        )
    return Batches(table, key, statement)
