"""Backups: what the manifest of a backup tells about the database, and the kinds of damage that a check names."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.frozen import Frozen

# The number of missing parts of one table that a sentence lists.
_MOST_NAMED: Final = 4
# The last event of this type says when a backup was last proved, for the metric and its alert.
BACKUP_CHECKED: Final = "platform.backup.checked"


class DamageKind(StrEnum):
    """In the order in which a check looks. Each kind has an exit status of its own."""

    MANIFEST = "manifest"
    DUMP = "dump"
    KEYS = "keys"
    SCHEMA = "schema"
    ROWS = "rows"
    TIES = "ties"
    SEALED = "sealed"
    AUDIT = "audit"
    SIGN_IN = "sign-in"


class Damage(Frozen):
    """`sentence` tells an operator what is wrong. It contains neither secrets nor personal data."""

    kind: DamageKind
    sentence: str


class TableState(Frozen):
    """`parts` are the columns, constraints, indexes and triggers, as text. `rows` is None for a view, and for a table that a dump leaves
    out.
    """

    parts: Sequence[str]
    rows: int | None = None


class DatabaseState(Frozen):
    """What one snapshot of a database contains. `heads` has the end of each audit chain, by the chain's id."""

    server: str
    size: int
    migrations: Sequence[str]
    functions: Sequence[str]
    tables: Mapping[str, TableState]
    heads: Mapping[str, str]
    signing_keys: Sequence[str]


class BackupFile(Frozen):
    name: str
    size: int
    sha256: str


class BackupManifest(Frozen):
    """`encryption_keys` are the ids of the ring's keys, the current one first. The manifest contains no key."""

    id: str
    made_at: datetime
    version: str
    encryption_keys: Sequence[str]
    dump: BackupFile
    sealed_keys: BackupFile | None
    database: DatabaseState


def differences(expected: DatabaseState, found: DatabaseState) -> Iterator[Damage]:
    """Compares a restored database with the manifest. The audit chains are compared link by link elsewhere."""
    yield from _of_migrations(expected.migrations, found.migrations)
    gone = sorted(set(expected.functions) - set(found.functions))
    if gone:
        yield Damage(DamageKind.SCHEMA, f"the schema lacks {_some(gone)}")
    for name in sorted(expected.tables.keys() - found.tables.keys()):
        yield Damage(DamageKind.SCHEMA, f"the table {name} is missing")
    for name in sorted(expected.tables.keys() & found.tables.keys()):
        yield from _of_table(name, expected.tables[name], found.tables[name])
    lost = sorted(set(expected.signing_keys) - set(found.signing_keys))
    if lost:
        yield Damage(DamageKind.ROWS, f"the signing key {_some(lost)} is missing")


def _of_migrations(expected: Sequence[str], found: Sequence[str]) -> Iterator[Damage]:
    for before, now in zip(expected, found, strict=False):
        if before != now:
            yield Damage(DamageKind.SCHEMA, f"the schema is another: the database has {now}, the manifest {before}")
            return
    if len(found) < len(expected):
        yield Damage(DamageKind.SCHEMA, f"the schema is older: it lacks {expected[len(found)]}")
    if len(found) > len(expected):
        yield Damage(DamageKind.SCHEMA, f"the schema is newer: the manifest does not know {found[len(expected)]}")


def _of_table(name: str, expected: TableState, found: TableState) -> Iterator[Damage]:
    lacking = sorted(set(expected.parts) - set(found.parts))
    if lacking:
        yield Damage(DamageKind.SCHEMA, f"the table {name} lacks {_some(lacking)}")
    if expected.rows is None or found.rows is None or expected.rows == found.rows:
        return
    apart = expected.rows - found.rows
    more = f"{apart} missing" if apart > 0 else f"{-apart} too many"
    yield Damage(DamageKind.ROWS, f"the table {name} has {found.rows} rows, the manifest says {expected.rows}: {more}")


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
