"""A case that waited in vain has a second try, alone; nothing else has one (`tests/runs/luck.py`)."""

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from tests.places import ROOT
from tests.runs import luck
from tests.runs.luck import MOST, SecondTries, failed_by_waiting
from tests.runs.packages import digest_of

FILE = "tests/domain/test_email.py"
OF_SECURITY = "tests/security/test_credentials.py"
KNOWN = {file: digest_of([file]) for file in (FILE, OF_SECURITY)}
WAITED = ("waited", "TooSlowError")


@pytest.mark.parametrize(
    ("failure", "waited"),
    [
        (trio.TooSlowError(), True),
        (subprocess.TimeoutExpired("postern serve", 120), True),
        (TimeoutError(), True),
        (BaseExceptionGroup("", [trio.TooSlowError(), TimeoutError()]), True),
        # Whatever else was seen was wrong.
        (BaseExceptionGroup("", [trio.TooSlowError(), AssertionError()]), False),
        (AssertionError("waited 120 seconds"), False),
        (ConnectionRefusedError(), False),
    ],
)
def test_only_an_end_of_waiting_counts(failure: BaseException, *, waited: bool) -> None:
    assert failed_by_waiting(failure) is waited


def failed(tries: SecondTries, case: str, *properties: tuple[str, str]) -> None:
    tries.pytest_runtest_logreport(SimpleNamespace(nodeid=case, failed=True, user_properties=properties))  # type: ignore[arg-type]


class Run:
    """The end of a run with these failures, where a case passes alone or does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, passes: bool = True, checked: dict[str, str] = KNOWN) -> None:
        self.alone: list[str] = []
        self.tries = SecondTries(checked)
        self._passes = passes
        monkeypatch.setattr(SecondTries, "_passes", lambda _, case: self._tried(case))

    def _tried(self, case: str) -> bool:
        self.alone.append(case)
        return self._passes

    def status(self) -> int:
        session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.TESTS_FAILED)
        self.tries.pytest_sessionfinish(session)
        return int(session.exitstatus)

    def said(self) -> list[str]:
        lines: list[str] = []
        reporter = SimpleNamespace(write_line=lambda line, **_: lines.append(line))
        config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda _: reporter))
        self.tries.pytest_unconfigure(config)
        return lines


def test_a_case_that_waited_and_passes_alone_is_written_down_and_the_run_is_green(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    failed(run.tries, f"{FILE}::one", WAITED)
    assert (run.status(), run.alone) == (0, [f"{FILE}::one"])
    first, last = run.said()
    assert first == "Waited in vain, and passed alone. Add to tests/runs/lucky.toml:"
    assert last.startswith(f'"{FILE}::one" = "2')


def test_a_case_that_fails_again_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, passes=False)
    failed(run.tries, f"{FILE}::one", WAITED)
    assert (run.status(), run.said()) == (1, [])


def test_a_case_that_saw_something_wrong_is_red_at_once_and_so_is_one_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    failed(run.tries, f"{FILE}::one", WAITED)
    failed(run.tries, f"{FILE}::two")
    assert (run.status(), run.alone) == (1, [])


def test_a_case_whose_end_failed_for_another_reason_is_red_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    failed(run.tries, f"{FILE}::one", WAITED)
    failed(run.tries, f"{FILE}::one")
    assert (run.status(), run.alone) == (1, [])


def test_more_second_tries_than_two_are_red(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch)
    for number in range(MOST + 1):
        failed(run.tries, f"{FILE}::{number}", WAITED)
    assert (run.status(), run.alone) == (1, [])


@pytest.mark.parametrize("case", [f"{OF_SECURITY}::one", "tests/domain/test_rate_limits.py::one"], ids=["security", "not seen green"])
def test_security_and_a_file_that_nobody_has_seen_green_have_no_second_try(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    run = Run(monkeypatch)
    failed(run.tries, case, WAITED)
    assert (run.status(), run.alone) == (1, [])


def test_a_changed_file_has_no_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, checked={FILE: "0" * 16})
    failed(run.tries, f"{FILE}::one", WAITED)
    assert (run.status(), run.alone) == (1, [])


def test_everything_is_red_while_a_line_stands_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    lucky = ROOT / "tests" / "runs" / "lucky.toml"
    assert lucky.exists()
    monkeypatch.setattr(luck, "LUCKY", tmp_path / "lucky.toml")
    monkeypatch.setattr(luck, "ROOT", tmp_path)
    (tmp_path / "lucky.toml").write_text(f'"{FILE}::one" = "2026-11-28"\n')
    config: Any = SimpleNamespace(option=SimpleNamespace(packages="all"), pluginmanager=SimpleNamespace(register=lambda _: None))
    with pytest.raises(pytest.UsageError, match="mend what waited in vain there first"):
        luck.pytest_configure(config)
    config.option.packages = "due"
    luck.pytest_configure(config)
