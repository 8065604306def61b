"""The modules of the OpenID Foundation's plans, against a Postern that this program starts:

python -m ops.conformance                    runs all of them, and writes the tables of docs/conformance.md
python -m ops.conformance newer CHECKOUT     says which modules of our plans another checkout of the suite has that ours lacks
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from ops.conformance.checkout import Checkout
from ops.conformance.plans import ROOT, commit, plans
from ops.conformance.table import PAGE, Ran, put, written

TESTS: Final = ROOT / "tests" / "conformance"
# Two processors. Each worker has a server of its own, and the two modules that wait for half a minute are in files of different workers.
_OPTIONS: Final = ("-q", "-n", "2", "--dist", "loadfile")


class _Recorder:
    def __init__(self) -> None:
        self.ran: dict[str, Ran] = {}

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path, _, function = report.nodeid.partition("::")
        one = self.ran.setdefault(report.nodeid, Ran(Path(path).parent.name, function))
        one.has_failed |= report.failed
        if report.skipped:
            reason: Any = report.longrepr
            one.was_skipped = str(reason[2]).removeprefix("Skipped: ")
        if report.when == "call":
            one.told = [(name, str(value)) for name, value in report.user_properties]


def run() -> int:
    os.environ["POSTERN_TEST_CONFORMANCE"] = "every"
    recorder = _Recorder()
    status = pytest.main([str(TESTS), *_OPTIONS], plugins=[recorder])
    if status:
        print("docs/conformance.md stays as it is, since not everything passed.", file=sys.stderr)
        return int(status)
    put(written(list(recorder.ran.values())))
    print(f"Wrote {PAGE.relative_to(ROOT)}.")
    return 0


def newer(folder: Path) -> int:
    """Returns 1 if the checkout has modules that our list lacks."""
    checkout = Checkout(folder)
    lacking: list[str] = []
    for plan in plans():
        if plan.name not in checkout.plans:
            print(f"{plan.name}: the checkout has no such plan")
            continue
        theirs = checkout.modules(plan.name)
        lacking += (new := [module for module in theirs if module not in plan.modules])
        gone = [module for module in plan.modules if module not in theirs]
        for word, modules in (("new", new), ("gone", gone)):
            for module in modules:
                print(f"{plan.name}: {word}: {module}")
    if not lacking:
        print(f"The checkout has no module that the list of commit {commit()} lacks.")
    return int(bool(lacking))


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ops.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command")
    compare = commands.add_parser("newer", help="compare with another checkout of the suite")
    compare.add_argument("checkout", type=Path)
    asked = parser.parse_args(given)
    return newer(asked.checkout) if asked.command == "newer" else run()


if __name__ == "__main__":
    sys.exit(main())
