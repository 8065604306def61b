"""The tests that are near a change, for `make test-near`: `python -m ops.near [commit]` prints their files. The change is what differs
from the commit, by default from where this branch left `main`, with what is not committed yet.

Nearly every test over HTTP imports the whole application, so what a test reaches by imports says little. What is near is said by two rules:

- a test imports a changed module itself, or by modules of the tests;
- a test has the name of a changed module, or of a module that imports a changed one. One noun has one name on every floor.

Neither rule sees what has no name in common: a statement that another noun's tests run, a limit, an order of middleware. `make check` runs
everything.
"""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FLOORS: Final = ("core", "ports", "adapters", "actors", "entrypoints", "ops", "tests")
# They hold for every change, and take seconds.
ALWAYS: Final = ("tests/ops/test_rooms.py", "tests/ops/test_documents.py")
# A module with more importers is a foundation: what imports it says nothing.
_MOST_IMPORTERS: Final = 12
_MOST_TESTS: Final = 30
# What wires everything together imports everything.
_WIRING: Final = (
    "entrypoints/assembly/",
    "entrypoints/bootstrap.py",
    "adapters/postgres/unit_of_work.py",
    "entrypoints/http/application.py",
)
# For files that are no modules: the beginning of the path, the end of the name, and the tests.
_BY_PLACE: Final[Sequence[tuple[str, str, tuple[str, ...]]]] = (
    (
        "adapters/postgres/migrations/",
        "",
        ("tests/adapters/postgres/migrating", "tests/adapters/postgres/tables", "tests/adapters/postgres/declarations"),
    ),
    ("adapters/postgres/schema/", "", ("tests/adapters/postgres/migrating", "tests/adapters/postgres/backups")),
    ("", ".toml", ("tests/adapters/texts", "tests/http/pages/console/test_texts.py")),
    ("entrypoints/http/pages/", ".css", ("tests/http/pages/test_stylesheet.py",)),
    ("ops/prometheus/", "", ("tests/ops/monitoring",)),
    ("ops/kubernetes/chart/", "", ("tests/ops/test_chart.py",)),
    ("ops/kubernetes/", "", ("tests/ops/test_kubernetes.py",)),
    ("ops/container/", "", ("tests/ops/test_container.py",)),
    ("ops/clients/", "", ("tests/e2e/clients",)),
    ("ops/image/", "", ("tests/ops/image",)),
)


def main(arguments: Sequence[str]) -> int:
    since = arguments[0] if arguments else _parting()
    tests = near(changed_since(since))
    print(f"{len(tests)} files of tests are near what changed since {since[:12]}.", file=sys.stderr)
    print("\n".join(tests))
    return 0


def near(changed: Collection[str]) -> Sequence[str]:
    """The files and folders of tests, given the changed files."""
    importers = _importers()
    names = {_noun(path) for path in _touched(changed, importers)}
    found = {path for path in changed if _is_test(path)} | set(ALWAYS)
    found |= {path for path in _reached(changed, importers) if _is_test(path)}
    found |= {path for path in _modules() if _is_test(path) and _noun(path) in names}
    for path in changed:
        for beginning, end, tests in _BY_PLACE:
            if path.startswith(beginning) and path.endswith(end):
                found.update(tests)
        found.update(_tests_of_template(path))
    return sorted(path for path in found if (ROOT / path).exists())


def changed_since(commit: str) -> set[str]:
    return {*_git("diff", "--name-only", commit), *_git("ls-files", "--others", "--exclude-standard")}


def _parting() -> str:
    """Where this branch left `main`. On `main` itself: the last commit, or the one before if nothing else has changed."""
    (base,) = _git("merge-base", "HEAD", "main")
    (here,) = _git("rev-parse", "HEAD")
    return base if base != here or changed_since(base) else "HEAD~1"


def _git(*arguments: str) -> Sequence[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def _touched(changed: Collection[str], importers: Mapping[str, set[str]]) -> Iterator[str]:
    for path in changed:
        if path.endswith(".py") and not path.startswith("tests/"):
            yield path
            found = {one for one in importers.get(path, ()) if not one.startswith(("tests/", *_WIRING))}
            if len(found) <= _MOST_IMPORTERS:
                yield from found


def _reached(changed: Collection[str], importers: Mapping[str, set[str]]) -> set[str]:
    """The modules of the tests that import a changed module, or one of the tests that does."""
    reached: set[str] = set()
    todo = [one for path in changed for one in _tests_that_import(path, importers)]
    while todo:
        path = todo.pop()
        if path not in reached:
            reached.add(path)
            todo += _tests_that_import(path, importers)
    return reached


def _tests_that_import(path: str, importers: Mapping[str, set[str]]) -> Sequence[str]:
    found = [one for one in importers.get(path, ()) if one.startswith("tests/") and not one.endswith("conftest.py")]
    return found if len(found) <= _MOST_TESTS else ()


def _tests_of_template(path: str) -> Sequence[str]:
    """Pages have their tests in a folder of the same name."""
    if not path.startswith("entrypoints/http/pages/") or not path.endswith((".html", ".js")):
        return ()
    folder = ROOT / "tests/http/pages" / Path(path).parent.relative_to("entrypoints/http/pages")
    while not folder.exists():
        folder = folder.parent
    return [str(one.relative_to(ROOT)) for one in sorted(folder.glob("test_*.py"))]


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_") and path.endswith(".py")


def _noun(path: str) -> str:
    stem = Path(path).parent.name if path.endswith("__init__.py") else Path(path).stem
    return stem.removeprefix("test_").removesuffix("_pages").removesuffix("s")


@cache
def _modules() -> Sequence[str]:
    return [str(path.relative_to(ROOT)) for floor in FLOORS for path in (ROOT / floor).rglob("*.py")]


@cache
def _importers() -> Mapping[str, set[str]]:
    """Who imports each module directly."""
    importers: dict[str, set[str]] = {}
    known = set(_modules())
    for path in _modules():
        for name in _imported((ROOT / path).read_text(encoding="utf-8")):
            for end in (".py", "/__init__.py"):
                if (module := name.replace(".", "/") + end) in known:
                    importers.setdefault(module, set()).add(path)
    return importers


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
