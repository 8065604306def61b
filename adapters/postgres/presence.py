"""Writes marks of last use, for sessions and API keys alike."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Final, LiteralString, TypeVar
from uuid import UUID

from adapters.postgres.columns import array
from adapters.postgres.driver.pool import Pool
from adapters.postgres.statements import Parameters, tell

Seen = TypeVar("Seen", bound=UUID)

# The number of marks in one part. A part is small, so that other tasks get their turn between two parts.
WRITTEN_AT_ONCE: Final = 250


async def mark(pool: Pool, statement: LiteralString, times: Mapping[Seen, datetime], parameters: Parameters | None = None) -> None:
    """Writes the marks in parts. Each part is a separate transaction and holds no lock of the part before. The statement locks rows in the
    order of their ids. So two processes that mark the same rows cannot deadlock.
    """
    marks = iter(times.items())
    while part := list(islice(marks, WRITTEN_AT_ONCE)):
        written_out = {"ids": array([one.hex for one, _ in part]), "times": array([at.isoformat() for _, at in part])}
        await tell(pool, statement, {**written_out, **(parameters or {})})
