"""How marks of when somebody was here last are written, whoever they are of."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Final, LiteralString, TypeVar
from uuid import UUID

from adapters.postgres.arrays import array
from adapters.postgres.pool import Pool
from adapters.postgres.statements import Parameters, tell

Seen = TypeVar("Seen", bound=UUID)

# Half a millisecond of writing them out. Between two parts other tasks get their turn.
WRITTEN_AT_ONCE: Final = 250


async def mark(pool: Pool, statement: LiteralString, times: Mapping[Seen, datetime], parameters: Parameters | None = None) -> None:
    """In parts, each a transaction of its own that holds nothing of the one before: within it the statement sees to the order of its locks,
    so that no two can wait for each other.
    """
    marks = iter(times.items())
    while part := list(islice(marks, WRITTEN_AT_ONCE)):
        written_out = {"ids": array([one.hex for one, _ in part]), "times": array([at.isoformat() for _, at in part])}
        await tell(pool, statement, {**written_out, **(parameters or {})})
