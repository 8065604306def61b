"""What requests share: changes to some fields, pages of a list, and repeated forms."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

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
    """A change to some fields of a record: a field that is left out keeps its value. Every field that may be left out is `UNCHANGED` by
    default.
    """

    @property
    def said(self) -> Mapping[str, Any]:
        """The fields that were not left out."""
        return {name: value for name, value in values_of(self).items() if value is not UNCHANGED}


DEFAULT_PAGE_LIMIT: Final = 50
LARGEST_PAGE_LIMIT: Final = 100
# If no counter keeps the number, rows are counted up to this many. A total of this size means "at least".
MOST_ROWS_COUNTED: Final = 10_000

Item = TypeVar("Item")


class Page(Frozen):
    """The page that the caller asks for. The first page is 1."""

    number: int = 1
    limit: int = DEFAULT_PAGE_LIMIT

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.limit


class Listed(Frozen, Generic[Item]):
    """One page of a list, and the number of all rows."""

    items: Sequence[Item]
    total: int


REPEAT_MOMENT: Final = timedelta(seconds=10)


def is_just_past(at: datetime | None, now: datetime) -> bool:
    """Returns whether a form is a repeat: sent twice by a user who clicked twice, or whose first response never arrived. For a moment after
    the first form, the second gets the same response.
    """
    return at is not None and now - at <= REPEAT_MOMENT
