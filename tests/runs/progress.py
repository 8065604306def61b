"""What a run of all tests, or of the chosen part, says while it runs: a line each ten seconds in place of a dot for each case.

The time that is left follows from the seconds that the files took in an earlier run, and from how fast this one is. A case that fails is
named at once.
"""

import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import pytest

from tests.runs.shares import all_files, measured

EVERY: Final = 10.0
_TOO_SOON: Final = 0.03
"""Of what there is to do. Before that, nothing is known of how fast this run is."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before PostgreSQL starts, which takes some seconds. Without workers nothing could be written while a case runs."""
    given = config.option
    if not hasattr(config, "workerinput") and given.numprocesses and (given.packages or given.chosen) and not given.collectonly:
        config.pluginmanager.register(progress := Progress(config))
        progress.start()


class Progress:
    def __init__(self, config: pytest.Config, now: Callable[[], float] = time.monotonic) -> None:
        self._config, self._now = config, now
        self._began = now()
        self._first: float | None = None
        self._seconds = self._spent = 0.0
        self._workers = self._ready = self._cases = self._done = self._failed = 0
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._speak, daemon=True).start()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        manager = self._config.pluginmanager
        of_chosen: Any = manager.get_plugin("chosen")
        if of_chosen is not None:
            files, seconds = of_chosen.planned()
        else:
            noting: Any = manager.get_plugin("noting")
            files, seconds = {*all_files()} - noting.left_out, measured()
        self._seconds = sum(seconds.get(file, 1.0) for file in files)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._ended.set()

    def pytest_unconfigure(self) -> None:
        self._ended.set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self) -> None:
        self._workers += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._ready += 1
        self._cases += len(ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, tuple[str, Any, Any], tuple[str, Any, Any]]:
        # No letter for each case.
        category, _, _ = yield
        return category, "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._first is None:
            self._first = self._now()
        self._spent += report.duration
        self._done += report.when == "teardown"
        if report.failed:
            self._failed += 1
            self._say(f"{report.nodeid} failed; the reason follows at the end of the run")

    def line(self) -> str:
        passed = f"{_clock(self._now() - self._began)} min"
        if self._first is None:
            what = f"{self._ready} of {self._workers} workers have read their tests" if self._workers else "starting PostgreSQL"
            return f"{passed}: {what}"
        left = self._left()
        more = "" if left is None else f", about {_clock(left)} min left"
        return f"{passed}: {self._done} of {self._cases} cases, {self._failed} failed{more}"

    def _left(self) -> float | None:
        done = self._spent / self._seconds if self._seconds else 0.0
        if self._first is None or not _TOO_SOON <= done < 1:
            return None
        return (self._now() - self._first) * (1 - done) / done

    def _speak(self) -> None:
        while not self._ended.wait(EVERY):
            self._say(self.line())

    def _say(self, line: str) -> None:
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        else:
            reporter.write_line(line)
            reporter.flush()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
