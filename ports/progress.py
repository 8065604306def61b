"""What long work tells about itself while it goes on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class ProgressDisplay(Protocol):
    """Work that may take minutes opens one for each of its parts, and calls what it gets with each bit that is done. A command shows a bar
    or lines, a server writes to its log, a test counts.
    """

    def __call__(self, title: str, total: int | None, unit: str, /) -> AbstractContextManager[Advance]:
        """`total` may be an estimate, and is None if nobody knows it. `unit` is a word in the plural. Without a unit, nothing is counted,
        and only the time is shown.
        """


@contextmanager
def unseen(_title: str, _total: int | None, _unit: str) -> Iterator[Advance]:
    """For work that nobody watches."""
    yield ignored


def ignored(_done: int) -> None:
    """An `Advance` that tells nobody."""
