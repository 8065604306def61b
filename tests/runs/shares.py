"""`--dist each`: each worker of a run collects and runs its own share of the files, and nothing else.

The other ways of pytest-xdist let each worker collect all tests, because any worker may get any test. Here that takes 50 s of processor
time for each worker. Whole files also keep what is made once a module: a server, a scene, a browser.

`tests/seconds.json` says how long each file took in some earlier run; each `make check-all` writes it anew. A file that it does not
know counts as long as the others in the middle. A wrong figure costs time and nothing else: which tests run never depends on it.
"""

import json
import sys
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

from tests.places import ROOT
from tests.runs.packages import ENDED, LEFT_OUT

FILES: Final = "files"
SECONDS: Final = "seconds"
"""What the controller of a run of a part hands to its workers: the files that have something of it, and how long that takes of each."""
_EACH: Final = "dist_each"
_SECONDS: Final = ROOT / "tests" / "seconds.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", action="store_true", help=f"write how long each file took to {_SECONDS.relative_to(ROOT)}")


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is None:
        if config.option.dist == "each":
            config.pluginmanager.register(_Counting())
        if config.option.seconds:
            config.pluginmanager.register(_Measuring())
    elif worker.get(_EACH):
        number, workers = int(worker["workerid"].removeprefix("gw")), int(worker["workercount"])
        left_out = frozenset(worker.get(LEFT_OUT, ()))
        files = [file for file in worker.get(FILES, all_files()) if file not in left_out]
        config.pluginmanager.register(_Share(shares(files, worker.get(SECONDS, measured()), workers)[number]))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    # A worker does not see the option itself: pytest-xdist turns it off there.
    node.workerinput[_EACH] = node.config.option.dist == "each"


def all_files() -> Sequence[str]:
    return sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("test_*.py"))


def measured() -> Mapping[str, float]:
    return json.loads(_SECONDS.read_text()) if _SECONDS.exists() else {}


def shares(files: Sequence[str], seconds: Mapping[str, float], workers: int) -> Sequence[frozenset[str]]:
    """Each file in exactly one share. The longest file goes first, each to the share that is the shortest so far."""
    unknown = median(seconds.values()) if seconds else 1.0
    found: list[set[str]] = [set() for _ in range(workers)]
    sums = [0.0] * workers
    for file in sorted(files, key=lambda file: (-seconds.get(file, unknown), file)):
        shortest = sums.index(min(sums))
        found[shortest].add(file)
        sums[shortest] += seconds.get(file, unknown)
    return [frozenset(one) for one in found]


class _Share:
    def __init__(self, files: frozenset[str]) -> None:
        self._files = files

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """True leaves a file to another worker; None leaves the decision to pytest."""
        is_anothers = collection_path.suffix == ".py" and self._named(collection_path) not in self._files
        return True if is_anothers and collection_path.name.startswith("test_") else None

    @staticmethod
    def _named(path: Path) -> str:
        return path.relative_to(ROOT).as_posix()


class _Counting:
    """pytest-xdist takes the tests of the worker that was the last to collect for all tests, and the progress passed 100 %."""

    def __init__(self) -> None:
        self._tests = 0
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._tests += len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self) -> None:
        if self._session is not None:
            self._session.testscollected = self._tests


class _Measuring:
    """Adds up what the workers report."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]  # a Counter adds fractions as well

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        ended = yield
        if session.exitstatus in ENDED:
            self._write()
        return ended

    def _write(self) -> None:
        seconds = {file: round(spent, 1) for file, spent in sorted(self._seconds.items())}
        _SECONDS.write_text(json.dumps(seconds, indent=0) + "\n")
        sys.stderr.write(f"Wrote {_SECONDS.relative_to(ROOT)}: {len(seconds)} files.\n")
