"""Rows that many statements answer with: an id, a number, a yes or no."""

from uuid import UUID

from core.frozen import Frozen


class IdRow(Frozen):
    """What `returning id` says."""

    id: UUID


class CountRow(Frozen):
    count: int


class AnswerRow(Frozen):
    yes: bool
