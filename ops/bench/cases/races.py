"""What one round of a race is: many requests for a thing that only one of them can have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ops.bench.load import Target

AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Round:
    """The fifty requests of one round, and what the database must contain afterwards."""

    requests: Sequence[Callable[[Target], Target]]
    subject: UUID
    service: UUID | None = None
