"""Changes to some fields of a record: a field that is left out keeps its value."""

from enum import Enum, auto
from typing import Final


class Unchanged(Enum):
    UNCHANGED = auto()


UNCHANGED: Final = Unchanged.UNCHANGED
