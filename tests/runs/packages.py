"""`--packages due`: what ships is tested again when its contents have changed since it was last green, and not otherwise.

`tests/runs/packages.toml` names each package that ships: its tests, and the paths that make it due. `tests/checked.json` has a line for
each package, each page of the sweeps and each file of tests: the digest of the contents that were green. What has another digest, or none,
is due. A wrong line only makes something run. Git is not asked: in CI, the merge base with `main` is the commit itself, and clones are
shallow.

A run of all tests (`--packages due` or `--packages all`) writes the lines of what it ran whole and saw green; whoever lands a change
commits them. `python -m tests.runs.packages` prints the packages that are due.
"""

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.places import ROOT
from tests.runs.pairs import CHOSEN

PACKAGES: Final = ROOT / "tests" / "runs" / "packages.toml"
# A test of this module gives its runs another list.
CHECKED: Final = Path(os.environ.get("TESTS_CHECKED", ROOT / "tests" / "checked.json"))
CHANGELOG: Final = ROOT / "CHANGELOG.md"
# In place of a path: the document that clients are made of. An endpoint says much that no client sees.
OPENAPI: Final = "openapi.json"
PAGE: Final = "page"
"""The property by which a test says which page of a sweep it has visited, and the page's digest."""
LEFT_OUT: Final = "left_out"
"""What the controller of a run hands to its workers: the files of tests that nobody collects."""
_DESCRIBED: Final = """
import json
from entrypoints.http.application import PAGES
from entrypoints.http.description import openapi
from entrypoints.http.routes import ROUTES
print(json.dumps(openapi.document([*ROUTES, *PAGES], base_url="https://id.example.org", version="1.0.0"), sort_keys=True))
"""
# A line of `checked.json` guards against what changes by itself, not against anybody who looks for two files with one digest.
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    name: str
    tests: Sequence[str]
    """Files, and folders with a slash at their end."""
    paths: Sequence[str]
    """What makes the package due: files, folders, and patterns."""
    pairs: bool = False
    """Its files always run: by pairs, and whole when the package is due."""

    def files(self) -> Collection[str]:
        return {file for one in self.tests for file in _files(one) if Path(file).name.startswith("test_")}

    def digest(self) -> str:
        return digest_of([*self.tests, *self.paths])


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The digests that were green, by name."""

    packages: Mapping[str, str]
    pages: Mapping[str, str]
    files: Mapping[str, str]

    @classmethod
    def read(cls) -> "Checked":
        found = json.loads(CHECKED.read_text()) if CHECKED.exists() else {}
        return cls(**{kind: found.get(kind, {}) for kind in ("packages", "pages", "files")})

    def write(self) -> None:
        kinds = {"packages": self.packages, "pages": self.pages, "files": self.files}
        CHECKED.write_text(json.dumps(kinds, indent=0, sort_keys=True, ensure_ascii=False) + "\n")


def packages() -> Sequence[Package]:
    found = tomllib.loads(PACKAGES.read_text())
    return [Package(name=name, **said) for name, said in found.items()]


def reasons(checked: Mapping[str, str], among: Sequence[Package]) -> Mapping[str, str]:
    """Why each package is due. A package that is not due is not in it."""
    found = {}
    for package in among:
        if package.name not in checked:
            found[package.name] = "nobody has seen its tests green"
        elif checked[package.name] != package.digest():
            found[package.name] = "its tests, or files that it is made of, have changed"
    return found


def left_out(due: Collection[str], among: Sequence[Package]) -> frozenset[str]:
    """The files of tests that no room that is due has. A file that is in no room always runs."""
    waiting = {file for package in among if package.name not in due and not package.pairs for file in package.files()}
    return frozenset(waiting - {file for package in among if package.name in due for file in package.files()})


def digest_of(paths: Sequence[str]) -> str:
    """The digest of the names and contents of all files there."""
    digest = hashlib.sha256()
    for file in sorted({file for path in paths for file in _files(path)}):
        digest.update(f"{file}\0{_content(file)}\n".encode())
    return digest.hexdigest()[:_DIGITS]


def is_in_the_fifth(page: str) -> bool:
    """One page of five is visited although it is not due. Each change of the news chooses others; `FIFTH=0` to `4` repeats one choice."""
    chosen = int(os.environ.get("FIFTH", "0"))
    drawn = hashlib.sha256(f"{page}\0{_news()}".encode()).digest()
    return int.from_bytes(drawn[:8]) % 5 == chosen


@cache
def _news() -> str:
    """What the changelog says under "Unreleased"."""
    return CHANGELOG.read_text().partition("\n## ")[2].partition("\n## ")[0]


def _files(path: str) -> Iterator[str]:
    if path == OPENAPI:
        yield path
        return
    found = (ROOT / path).rglob("*") if path.endswith("/") else ROOT.glob(path)
    for file in found:
        if file.is_file() and "__pycache__" not in file.parts:
            yield file.relative_to(ROOT).as_posix()


@cache
def _content(file: str) -> str:
    if file == OPENAPI:
        # In a process of its own, as the tests may not have the product in memory before they start.
        content = subprocess.run([sys.executable, "-c", _DESCRIBED], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    else:
        content = (ROOT / file).read_bytes()
    return hashlib.sha256(content).hexdigest()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--packages", choices=("due", "all"), help="run what ships if it is due, or all of it; note what was green")


def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        files = frozenset(worker.get(LEFT_OUT, ()))
    elif config.option.packages and not config.option.collectonly:
        noting = Noting(every=config.option.packages == "all")
        config.pluginmanager.register(noting, "noting")
        files = noting.left_out
    else:
        return
    config.pluginmanager.register(_Passing(files))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    noting = node.config.pluginmanager.get_plugin("noting")
    if noting is not None:
        node.workerinput[LEFT_OUT] = sorted(noting.left_out)


class _Passing:
    """Collects nothing of the files that are left out."""

    def __init__(self, files: frozenset[str]) -> None:
        self._files = files

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
            return None
        return True if collection_path.relative_to(ROOT).as_posix() in self._files else None


class Noting:
    """Says first what is due and why, and last what was left out; writes down what was green."""

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self._packages = packages()
        self._checked = Checked.read()
        all_of_them = dict.fromkeys((package.name for package in self._packages), "all are run")
        self._reasons = all_of_them if every else reasons(self._checked.packages, self._packages)
        self.left_out = left_out(self._reasons, self._packages)
        os.environ[CHOSEN] = ",".join(package.name for package in self._packages if package.pairs and package.name not in self._reasons)
        # Of what the tests are about to see, not of what somebody writes meanwhile.
        self._digests = {package.name: package.digest() for package in self._packages if package.name in self._reasons}
        self._files: dict[str, str] = {}
        self._pages: dict[str, str] = {}
        self._collected: set[str] = set()
        self._skipped: set[str] = set()
        self._red: set[str] = set()

    def pytest_report_header(self) -> Sequence[str]:
        if self._every:
            return ["Every test runs, also those of what Postern ships and has not changed."]
        if not self._reasons:
            return ["Every test runs, but for those of what Postern ships: nothing of that has changed since they were green."]
        return [
            "Every test runs. The tests of what Postern ships run only where it has changed since they were green. This time:",
            *(f"  {name}: {why}" for name, why in self._reasons.items()),
        ]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._collected |= {case.partition("::")[0] for case in ids}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected |= {item.nodeid.partition("::")[0] for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        if report.skipped:
            self._skipped.add(file)
        if report.failed:
            self._red.add(file)
        if file not in self._files:
            self._files[file] = digest_of([file])
        if report.when == "call" and report.passed:
            properties: Sequence[tuple[str, Any]] = report.user_properties
            self._pages.update(value for name, value in properties if name == PAGE)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        ended = yield
        self._note(session)
        return ended

    def _note(self, session: pytest.Session) -> None:
        if session.exitstatus not in ENDED or is_narrowed(session.config):
            return
        before = self._checked
        # Without npm, tests of clients are skipped, and nobody has seen these. In CI, what is skipped is skipped by intent.
        unseen = set() if os.environ.get("CI") else self._skipped
        seen = {file: digest for file, digest in self._files.items() if file not in self._red}
        green = {name: digest for name, digest in self._digests.items() if self._is_green(self._package(name), set(seen) - unseen)}
        there = {file for file in before.files if (ROOT / file).exists()}
        Checked(
            packages={
                name: digest for name, digest in {**before.packages, **green}.items() if name in {one.name for one in self._packages}
            },
            # Pages that are gone leave the list.
            pages=self._pages if self._every and not self._red else {**before.pages, **self._pages},
            files={**{file: before.files[file] for file in there}, **seen},
        ).write()

    def _package(self, name: str) -> Package:
        return next(package for package in self._packages if package.name == name)

    def _is_green(self, package: Package, green: Collection[str]) -> bool:
        """A worker that crashed leaves files that it had collected and nobody ran. A file of which nothing was collected says nothing: what
        it needs is not there.
        """
        collected = self._collected & set(package.files())
        return bool(collected) and collected <= set(green)

    @staticmethod
    def pytest_unconfigure() -> None:
        os.environ.pop(CHOSEN, None)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        waiting = [
            f"{package.name}{' but for pairs' if package.pairs else ''}" for package in self._packages if package.name not in self._reasons
        ]
        if waiting:
            terminalreporter.write_line(
                f"Left out, since nothing of it changed: {', '.join(waiting)} ({len(self.left_out)} files of tests)."
            )


# What came to its end. An interrupted run says nothing.
ENDED: Final = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
_NAMED: Final = pytest.Config.ArgsSource.ARGS


def is_narrowed(config: pytest.Config) -> bool:
    """Whoever names a file, or a part of one, does not run the whole."""
    return bool(config.option.keyword or config.option.markexpr) or config.args_source is _NAMED


class Sweep:
    """Which pages of a sweep a test visits, and what it notes of them."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._node = request.node
        self._due_alone = request.config.option.packages == "due"
        self._checked = _checked_pages()

    def is_due(self, page: str, content: bytes) -> bool:
        """Whether to visit this page. `content` is all that tells one look of the page from another."""
        digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
        if self._due_alone and self._checked.get(page) == digest and not is_in_the_fifth(page):
            return False
        self._node.user_properties.append((PAGE, (page, digest)))
        return True


@cache
def _checked_pages() -> Mapping[str, str]:
    return Checked.read().pages


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}\n" for name in reasons(Checked.read().packages, packages()))
