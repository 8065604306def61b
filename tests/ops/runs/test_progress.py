"""A long run says each ten seconds where it is (`tests/runs/progress.py`)."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.progress import EVERY, Progress


class ClockedRun:
    """A run of two workers whose tests took a hundred seconds once, by a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[str] = []
        reporter = SimpleNamespace(write_line=self.said.append, flush=lambda: None)
        plan = SimpleNamespace(planned=lambda: (["tests/one", "tests/two"], {"tests/one": 40.0, "tests/two": 60.0}))
        plugins: dict[str, Any] = {"terminalreporter": reporter, "chosen": plan}
        config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=plugins.get))
        self.progress = Progress(config, now=lambda: self.now)

    def line(self, now: float) -> str:
        self.now = now
        return self.progress.line()

    def reports(self, seconds: float, when: str = "teardown", *, failed: bool = False) -> None:
        report: Any = SimpleNamespace(nodeid="tests/one::test", duration=seconds, when=when, failed=failed)
        self.progress.pytest_runtest_logreport(report)


def test_it_says_what_it_waits_for_and_then_how_many_cases_have_run_and_how_long_the_others_take() -> None:
    run = ClockedRun()
    assert run.line(10) == "0:10 min: starting PostgreSQL"
    run.progress.pytest_sessionstart()
    run.progress.pytest_configure_node()
    run.progress.pytest_configure_node()
    run.progress.pytest_xdist_node_collection_finished(["one", "two"])
    assert run.line(20) == "0:20 min: 1 of 2 workers have read their tests"
    run.progress.pytest_xdist_node_collection_finished(["three", "four"])
    run.reports(1, "setup")
    # One second of a hundred says nothing of how fast this run is.
    assert run.line(30) == "0:30 min: 0 of 4 cases, 0 failed"
    run.reports(24, "call")
    run.reports(0)
    # A quarter in fifty seconds.
    assert run.line(70) == "1:10 min: 1 of 4 cases, 0 failed, about 2:30 min left"
    run.reports(80)
    # It takes longer than it did.
    assert run.line(80) == "1:20 min: 2 of 4 cases, 0 failed"


def test_a_case_that_fails_is_named_at_once() -> None:
    run = ClockedRun()
    run.reports(1, "call", failed=True)
    assert run.said == ["tests/one::test failed; the reason follows at the end of the run"]
    assert ", 1 failed" in run.line(1)


def test_a_line_comes_by_itself_until_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ClockedRun()
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) > 3

    monkeypatch.setattr(run.progress._ended, "wait", wait)
    run.progress._speak()
    assert (waited, run.said) == ([EVERY] * 4, ["0:00 min: starting PostgreSQL"] * 3)
    assert EVERY <= 10
