"""Which tests count for the coverage of `core`. Being measured makes Python half as slow again, also where nothing is measured; so the
tests of other floors go without, and a line that only they reach counts as not tested. So does collecting them all, once what the product
consists of has been imported.
"""

from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Final

import coverage
import pytest

_HERE: Final = Path(__file__).parent
_OF_OTHER_FLOORS: Final = tuple(
    _HERE / folder for folder in ("adapters", "browser", "e2e", "http/description", "http/machinery", "http/server", "ops")
)


class Measuring:
    """A plugin: it pauses the measuring before other tests, and goes on with it before these."""

    def __init__(self) -> None:
        self._coverage: coverage.Coverage | None = None
        self._is_on = True

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        self._coverage = coverage.Coverage.current()
        if self._coverage is None:
            return (yield)
        # This imports all of `core`, whose own lines run now or never.
        import_module("entrypoints.http.application")
        self._coverage.stop()
        try:
            return (yield)
        finally:
            self._coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        # While it is paused, nothing is current.
        self._coverage = self._coverage or coverage.Coverage.current()
        wanted = not any(_HERE.parent.joinpath(location[0]).is_relative_to(folder) for folder in _OF_OTHER_FLOORS)
        if self._coverage is None or wanted == self._is_on:
            return
        if wanted:
            self._coverage.start()
        else:
            self._coverage.stop()
        self._is_on = wanted
