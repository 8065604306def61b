"""Pages of a list: the start of a page, and the number of all rows."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from core.frozen import Frozen

DEFAULT_LIMIT: Final = 50
LARGEST_LIMIT: Final = 100
# If no counter keeps the number, rows are counted up to this many. A total of this size means "at least".
MOST_COUNTED: Final = 10_000

Item = TypeVar("Item")


class Page(Frozen):
    """The page that the caller asks for. The first page is 1."""

    number: int = 1
    limit: int = DEFAULT_LIMIT

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.limit


class Listed(Frozen, Generic[Item]):
    """One page of a list, and the number of all rows."""

    items: Sequence[Item]
    total: int
