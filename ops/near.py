"""The tests that are near a change, for `make near`: `python -m ops.near [commit]` prints their files. The change is what differs from the
commit, by default from where this branch left `main`, with what is not committed yet.

What is near is said by a map and by two rules:

- `tests/reached` says which files of tests ran each function when `make check-all` was last green (`tests/runs/reached.py`). A line outside
  functions counts for the functions of its module that use its name. What the map does not know counts for its whole module.
- a test imports a changed module itself, or by modules of the tests; for modules that the map does not know at all, and for tests;
- a test has the name of a changed module. One noun has one name on every floor.

What more than forty files reach has tests of its own, that walk the whole house (`WALKS`). `make check` runs everything.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
Lines = frozenset[int]
# The files of tests that ran each function, by module.
Reached = Mapping[str, Mapping[str, Sequence[str]]]
# All lines of a file.
ALL: Final[Lines] = frozenset()
_HUNK: Final = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
FLOORS: Final = ("core", "ports", "adapters", "actors", "entrypoints", "ops", "tests")
# They hold for every change, and take seconds.
ALWAYS: Final = ("tests/house", "tests/ops/test_rooms.py", "tests/ops/test_documents.py")
# For what nearly everything runs.
WALKS: Final = (
    "tests/http/test_authorization.py",
    "tests/http/tenancy/test_member_authorization.py",
    "tests/http/services/test_key_authorization.py",
    "tests/security/test_cross_tenant.py",
)
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
    ("entrypoints/http/", ".css", ("tests/http/pages/test_stylesheet.py",)),
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


def near(changed: Mapping[str, Lines], reached: Reached | None = None) -> Sequence[str]:
    """The files and folders of tests, given the changed files, which of their lines, and the map if it is another."""
    importers, reached = _importers(), _reached_by_tests() if reached is None else reached
    unknown = {path for path in changed if path not in reached}
    names = {_noun(path) for path in _touched(changed, unknown, importers)}
    found = {path for path in changed if _is_test(path)} | set(ALWAYS)
    found |= {path for path in _reached(unknown, importers) if _is_test(path)}
    found |= {path for path in _modules() if _is_test(path) and _noun(path) in names}
    for path, lines in changed.items():
        if path in reached:
            found |= _that_ran(path, lines, reached[path])
        for beginning, end, tests in _BY_PLACE:
            if path.startswith(beginning) and path.endswith(end):
                found.update(tests)
        found.update(_tests_of_template(path))
    return sorted(path for path in found if (ROOT / path).exists())


def _that_ran(path: str, lines: Lines, reached: Mapping[str, Sequence[str]]) -> set[str]:
    """The files of tests that ran the functions with these lines. A function that no more than its name is known of leads to the walks."""
    module = ast.parse((ROOT / path).read_text(encoding="utf-8")) if (ROOT / path).exists() else ast.Module([], [])
    functions = _functions_with(module, lines)
    known = functions & set(reached)
    among = known if functions and known == functions else set(reached)
    found = {test for function in among for test in reached[function]}
    return found | set(WALKS) if any(not reached[function] for function in known) else found


def _functions_with(module: ast.Module, lines: Lines) -> set[str]:
    """The qualified names of the functions that have one of these lines, or that use what a line outside functions defines."""
    spans = dict(_spans(module.body, ""))
    found = {name for name, span in spans.items() if lines is ALL or not lines.isdisjoint(span)}
    within = {line for span in spans.values() for line in span}
    outside = set() if lines is ALL else lines - within
    for statement in module.body:
        if not outside.isdisjoint(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)):
            found |= _users_of(_defined(statement), module, spans)
    return found


def _users_of(names: set[str], module: ast.Module, spans: Mapping[str, range]) -> set[str]:
    """The functions that name one of these, or something of the module that is made of one of these."""
    more = True
    while more:
        made = {
            name
            for statement in module.body
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(statement))
            for name in _defined(statement)
        }
        more = not made <= names
        names |= made
    used = {one.lineno for one in ast.walk(module) if isinstance(one, ast.Name) and one.id in names}
    return {name for name, span in spans.items() if not used.isdisjoint(span)}


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.ClassDef):
        return {statement.name}
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _spans(body: Sequence[ast.stmt], within: str) -> Iterator[tuple[str, range]]:
    for one in body:
        if isinstance(one, ast.ClassDef):
            yield from _spans(one.body, f"{within}{one.name}.")
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([one.lineno, *(decorator.lineno for decorator in one.decorator_list)])
            yield f"{within}{one.name}", range(first, (one.end_lineno or one.lineno) + 1)


def changed_since(commit: str) -> Mapping[str, Lines]:
    """The changed lines of each file, as they are numbered now. A line that is gone counts as the one that follows."""
    changed: dict[str, set[int]] = {}
    path = ""
    for line in _lines_of_git("diff", "--unified=0", "--no-prefix", "--no-renames", commit):
        if line.startswith("--- ") and line != "--- /dev/null":
            path = line.removeprefix("--- ")
        elif line.startswith("+++ ") and line != "+++ /dev/null":
            path = line.removeprefix("+++ ")
        elif hunk := _HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or "1")
            changed.setdefault(path, set()).update(range(max(first, 1), max(first, 1) + max(count, 1)))
    new = dict.fromkeys(_git("ls-files", "--others", "--exclude-standard"), ALL)
    # A file whose name or contents git does not show by lines.
    others = dict.fromkeys(set(_git("diff", "--name-only", "--no-renames", commit)) - set(changed), ALL)
    return {**others, **{path: frozenset(lines) for path, lines in changed.items()}, **new}


def _parting() -> str:
    """Where this branch left `main`. On `main` itself: the last commit, or the one before if nothing else has changed."""
    (base,) = _git("merge-base", "HEAD", "main")
    (here,) = _git("rev-parse", "HEAD")
    return base if base != here or changed_since(base) else "HEAD~1"


def _git(*arguments: str) -> Sequence[str]:
    return "\n".join(_lines_of_git(*arguments)).split()


def _lines_of_git(*arguments: str) -> Sequence[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def _touched(changed: Collection[str], unknown: Collection[str], importers: Mapping[str, set[str]]) -> Iterator[str]:
    for path in changed:
        if path.endswith(".py") and not path.startswith("tests/"):
            yield path
            if path not in unknown:
                continue
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
    """Pages have their tests in a folder of the same name, and a kit in that of its pages."""
    if not path.startswith(("entrypoints/http/console/", "entrypoints/http/pages/")) or not path.endswith((".html", ".js")):
        return ()
    beside = Path(path).parent.relative_to("entrypoints/http").as_posix().removeprefix("pages")
    folder = ROOT / "tests/http/pages" / f"{beside}/".replace("/kit/", "/", 1).strip("/")
    while not folder.exists():
        folder = folder.parent
    return [str(one.relative_to(ROOT)) for one in sorted(folder.glob("test_*.py"))]


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_") and path.endswith(".py")


def _noun(path: str) -> str:
    stem = Path(path).parent.name if path.endswith("__init__.py") else Path(path).stem
    return stem.removeprefix("test_").removesuffix("_pages").removesuffix("s")


@cache
def _reached_by_tests() -> Reached:
    found: dict[str, dict[str, Sequence[str]]] = {}
    for file in sorted((ROOT / "tests" / "reached").glob("*.txt")):
        module = ""
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                function, *tests = line.split()
                found[module][function] = tests
            else:
                module = line
                found.setdefault(module, {})
    return found


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
