"""Changes to some fields of a record: a field that is left out keeps its value."""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final

from core.frozen import Frozen, values_of


class Unchanged(Enum):
    UNCHANGED = auto()


UNCHANGED: Final = Unchanged.UNCHANGED


Checks = Mapping[str, Callable[[Any], object]]
"""By the name of a field: what makes the stored value of a given one, or refuses it."""


def checked(given: Mapping[str, Any], checks: Checks) -> dict[str, Any]:
    """The given fields as they are stored. Raises what their checks raise, in the order of the checks."""
    return {name: check(given[name]) for name, check in checks.items() if name in given}


class RecordChange(Frozen):
    """The base class of changes. Every field that may be left out is `UNCHANGED` by default."""

    @property
    def said(self) -> Mapping[str, Any]:
        """The fields that were not left out."""
        return {name: value for name, value in values_of(self).items() if value is not UNCHANGED}
