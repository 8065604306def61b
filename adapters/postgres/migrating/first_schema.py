"""The schema of before `0001_schema`. Nothing was released with it, and 83 migrations made it. Whoever ran one of these commits goes to the
last of them, migrates there, and then here, where the database is taken on as it is (docs/decisions/0121-one-first-schema.md).
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.frozen import Frozen

STEPPING_STONE: Final = "ccde58add6e9"
"""The last commit that carries these migrations."""
_FIRST: Final = (1, "foundation")
_WHOLE: Final = "9ca1fa541ce28bc65b6fcd3e5ac77d299c9aba2550caabc88b45242458a884ed"

WHOLE: Final = "The database has the whole schema of before the first one: run `postern migrate`, which takes it on"


class AppliedMigration(Frozen):
    """A migration as the database remembers it."""

    number: int
    name: str
    checksum: str
    applied_at: datetime
    needs: int | None = None

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"


def is_former(applied: Sequence[AppliedMigration]) -> bool:
    """Whether the migrations of before have made this schema, all of them or some."""
    return bool(applied) and (applied[0].number, applied[0].name) == _FIRST


def is_whole(applied: Sequence[AppliedMigration]) -> bool:
    lines = "\n".join(f"{one} {one.checksum}" for one in applied)
    return hashlib.sha256(lines.encode()).hexdigest() == _WHOLE


def not_whole(newest: AppliedMigration) -> str:
    """The sentence for an operator whose database is older."""
    return (
        f"The database has a schema of before the first one ({newest}): check out commit {STEPPING_STONE}, run `postern migrate` there, "
        "and then here"
    )
