"""Rows that many statements answer with: an id, a number, a yes or no."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class IdRow:
    """What `returning id` says."""

    id: UUID


@dataclass(frozen=True, slots=True)
class CountRow:
    count: int


@dataclass(frozen=True, slots=True)
class AnswerRow:
    yes: bool
