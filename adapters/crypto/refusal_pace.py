"""How long a refused password takes while hashes of other systems remain: for every address as long as for the slowest of them."""

from collections.abc import Collection
from math import ceil
from typing import Final

# A check may take a little longer than any before it. If it takes longer still, its refusal comes after twice the time, so that its exact
# duration never shows.
_MARGIN: Final = 1.25
# So many seconds are the most that one check counts for, however busy the machine was.
_LONGEST: Final = 4.0
_OURS: Final = ""


class RefusalPace:
    """The longest checks of late, by what they checked. It knows only one process's checks; each process has measured its own."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}

    def keep(self, shapes: Collection[str]) -> None:
        """Forgets the shapes that no stored hash has any more."""
        self._longest = {shape: seconds for shape, seconds in self._longest.items() if shape in shapes or shape == _OURS}
        if self._longest.keys() == {_OURS}:
            self._longest.clear()

    def knows(self, shape: str) -> bool:
        return shape in self._longest

    def end_of(self, began: float, seconds: float, shape: str | None) -> float | None:
        """The moment before which a refusal is not told, for a check that began then. `shape` is None for a hash of ours, and for none.
        Returns None when no other hashes remain.
        """
        if shape is None and not self._longest:
            return None
        if shape is not None and shape not in self._longest:
            self._learn(shape, seconds)
        step = _MARGIN * max(self._longest.values())
        self._learn(_OURS if shape is None else shape, seconds)
        return began + step * max(1, ceil(seconds / step))

    def _learn(self, shape: str, seconds: float) -> None:
        before = self._longest.get(shape, 0.0)
        # What made one check slow passes, and so it is forgotten slowly.
        self._longest[shape] = min(_LONGEST, max(seconds, before - (before - seconds) / 64))
