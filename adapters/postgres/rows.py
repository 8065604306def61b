"""Rows that many statements return: an id, a number, a yes or no."""

from uuid import UUID

from core.frozen import Frozen


class IdRow(Frozen):
    """The row of `returning id`."""

    id: UUID


class CountRow(Frozen):
    count: int


class AnswerRow(Frozen):
    yes: bool
