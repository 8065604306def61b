"""One round of a race: many requests want the same thing, and only one can have it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ops.bench.load import Target

AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Round:
    """The fifty requests of one round, and a check of the database afterwards."""

    requests: Sequence[Callable[[Target], Target]]
    subject: UUID
    service: UUID | None = None
