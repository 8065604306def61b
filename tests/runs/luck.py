"""A case that failed by waiting has a second try, alone, after a run of all tests (`--packages`). One that saw something wrong is red at
once.

A busy machine makes a test wait in vain; nothing else does in a sound product. But a lost wake-up, a deadlock and a leak look the same.
So a second try is written down: the run prints a line for `tests/runs/lucky.toml`, and `make check-all` is red while a line stands there.
Tests of security have no second try, nor has a file of tests that nobody has seen green as it is now.
"""

import subprocess
import sys
import tomllib
from collections.abc import Generator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pytest
import trio

from tests.places import ROOT
from tests.runs.packages import Checked, digest_of

LUCKY: Final = ROOT / "tests" / "runs" / "lucky.toml"
MOST: Final = 2
"""A run with more second tries is red: then the machine, or the product, has a fault that one should look at."""
_WAITED: Final = "waited"
_NEVER: Final = "tests/security/"
# What ends a test that waits: `trio.fail_after`, which Chromium's answers wait by, too; a process that does not end; a silent socket.
_ENDS: Final = (trio.TooSlowError, subprocess.TimeoutExpired, TimeoutError)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.option.packages:
        return
    if config.option.packages == "all" and (lucky := tomllib.loads(LUCKY.read_text())):
        raise pytest.UsageError(f"{LUCKY.relative_to(ROOT)} has lines: mend what waited in vain there first: {', '.join(lucky)}")
    config.pluginmanager.register(SecondTries(Checked.read().files))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None and failed_by_waiting(call.excinfo.value):
        report.user_properties.append((_WAITED, type(call.excinfo.value).__name__))
    return report


def failed_by_waiting(failure: BaseException) -> bool:
    """Whether each failure in it is an end of waiting."""
    if isinstance(failure, BaseExceptionGroup):
        return all(failed_by_waiting(one) for one in failure.exceptions)
    return isinstance(failure, _ENDS)


class SecondTries:
    def __init__(self, checked: Mapping[str, str]) -> None:
        self._checked = checked
        self._failed: dict[str, bool] = {}
        self._said: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            waited = any(name == _WAITED for name, _ in report.user_properties)
            self._failed[report.nodeid] = waited and self._failed.get(report.nodeid, True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED or not self._may_try_again():
            return
        if all(self._passes(case) for case in self._failed):
            self._said = [f'"{case}" = "{datetime.now(UTC):%Y-%m-%d}"' for case in self._failed]
            session.exitstatus = pytest.ExitCode.OK

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._said:
            reporter.write_line(f"Waited in vain, and passed alone. Add to {LUCKY.relative_to(ROOT)}:", yellow=True)
            for line in self._said:
                reporter.write_line(line, yellow=True)

    def _may_try_again(self) -> bool:
        return 0 < len(self._failed) <= MOST and all(waited and self._is_known(case) for case, waited in self._failed.items())

    def _is_known(self, case: str) -> bool:
        file = case.partition("::")[0]
        return not file.startswith(_NEVER) and self._checked.get(file) == digest_of([file])

    @staticmethod
    def _passes(case: str) -> bool:
        # In a process of its own, when the workers have nothing left to do. It uses the server of this run.
        command: Sequence[str] = [sys.executable, "-m", "pytest", "-q", "-n", "0", case]
        return subprocess.run(command, cwd=ROOT, check=False).returncode == pytest.ExitCode.OK
