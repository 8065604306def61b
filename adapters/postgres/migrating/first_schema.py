"""The schema of before `0001_schema`. Nothing was released with it, and 83 migrations made it. Whoever ran one of these commits goes to the
last of them, migrates there, and then here, where the database is taken on as it is (docs/decisions/0121-one-first-schema.md).

`applied` has a line for each migration that the database remembers: its name and its checksum.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

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
