"""Backups: what a backup's manifest states about the database, and the kinds of damage that a check names."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

from core.frozen import Frozen, field

# The last event of this type says when a backup was last proved, for the metric and its alert.
BACKUP_CHECKED: Final = "platform.backup.checked"
BACKUP_RESTORED: Final = "platform.backup.restored"


COLUMN: Final = "column "


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


class ColumnGroup(StrEnum):
    """Each group of a table's columns has a digest of its own. A hold after a restore changes columns of the second group alone."""

    CONTENTS = "contents"
    HOLDABLE = "holdable"


class Ownership(Frozen):
    """The owner of a table, a function or the schema, and the rights of every other role. The owner is empty for a schema that belongs to
    whoever owns the database.
    """

    owner: str
    grants: Mapping[str, Sequence[str]]


class TableState(Frozen):
    """`parts` are the columns, constraints, indexes and triggers, as text. `rows` is None for a view, and for a table that a dump leaves
    out. `digests` has a keyed digest of the rows for each `ColumnGroup`, and `definitions` a digest of the text that defines each part.
    Manifests of earlier versions have neither, nor `ownership`. In the manifest the digests have a name of their own: those under the name
    `digests` were made by a function of PostgreSQL 18 alone. So no version compares digests that it makes in another way.
    """

    parts: Sequence[str]
    rows: int | None = None
    digests: Mapping[str, str] = field(default_factory=dict, name="row_digests")
    definitions: Mapping[str, str] = field(default_factory=dict)
    ownership: Ownership | None = None

    @property
    def columns(self) -> Sequence[str]:
        return [column_of(part) for part in self.parts if part.startswith(COLUMN)]


def column_of(part: str) -> str:
    """The name in a part such as `column email text not null`."""
    return part.removeprefix(COLUMN).partition(" ")[0]


class RoutineState(Frozen):
    """A function, with a digest of its body and properties."""

    body: str
    ownership: Ownership


class DatabaseState(Frozen):
    """What one snapshot of a database contains. `heads` has the end of each audit chain, by the chain's id. `routines` are the functions by
    their names with the types of their arguments. `owner` owns the table of migrations, and so all tables. `objects` are all other things
    of the database, such as `sequence x` and `the right of eve to usage on schema y`. Manifests of earlier versions have neither `schema`
    nor `objects`.
    """

    server: str
    size: int
    migrations: Sequence[str]
    functions: Sequence[str]
    tables: Mapping[str, TableState]
    heads: Mapping[str, str]
    signing_keys: Sequence[str]
    routines: Mapping[str, RoutineState] = field(default_factory=dict)
    owner: str = ""
    schema: Ownership | None = None
    objects: Sequence[str] | None = None

    @property
    def has_digests(self) -> bool:
        """Whether the contents of tables can be compared, and not the number of their rows alone."""
        return any(table.digests for table in self.tables.values())

    @property
    def undivided(self) -> Collection[str]:
        """The tables that have one digest of all columns. Before a version began to hold work of a table, it had one there, too."""
        return {name for name, table in self.tables.items() if table.digests and ColumnGroup.HOLDABLE not in table.digests}

    def prints_like(self, other: "DatabaseState") -> bool:
        """Whether both servers are of one version, so that they print definitions in the same way."""
        return self.server.partition(".")[0] == other.server.partition(".")[0]


class BackupFile(Frozen):
    name: str
    size: int
    sha256: str


class BackupManifest(Frozen):
    """`encryption_keys` are the ids of the ring's keys, the current one first. `digest_key` is the key of the digests, sealed with the
    ring; manifests of earlier versions have none. The manifest contains no other key.
    """

    id: str
    made_at: datetime
    version: str
    encryption_keys: Sequence[str]
    dump: BackupFile
    sealed_keys: BackupFile | None
    database: DatabaseState
    digest_key: str | None = None
