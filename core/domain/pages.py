"""Pages of a list: where one begins, and how many rows there are."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from core.frozen import Frozen

DEFAULT_LIMIT: Final = 50
LARGEST_LIMIT: Final = 100
# Where no counter keeps the number, rows are counted up to this many. A total of this size means "at least".
MOST_COUNTED: Final = 10_000

Item = TypeVar("Item")


class Page(Frozen):
    """What the caller asks for. The first page is 1."""

    number: int = 1
    limit: int = DEFAULT_LIMIT

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.limit


class Listed(Frozen, Generic[Item]):
    """One page of a list, and how many rows there are in all."""

    items: Sequence[Item]
    total: int
