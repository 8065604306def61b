"""The commands that `make` would run, as `make --dry-run` prints them."""

import os
import re
import runpy
import subprocess
from pathlib import Path

import pytest

from ops.guides.__main__ import PRODUCTS
from tests.ops.operations.pages import RUNBOOK
from tests.places import ROOT
from tests.tools import needs

pytestmark = needs("make")


_HANDED_ON = {"MAKELEVEL", "MAKEFLAGS", "MAKEOVERRIDES", "DATABASE", "T", "WORKERS"}


def commands(*arguments: str) -> list[str]:
    return [line for line in planned(*arguments) if "-m pytest" in line]


def planned(*arguments: str) -> list[str]:
    # The `make` that runs these tests hands its own flags on.
    environment = {name: value for name, value in os.environ.items() if name not in _HANDED_ON}
    shown = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    return shown.splitlines()


EVERY_FILE = ".venv/bin/python -m pytest -n 6 --dist each"


def test_what_ships_is_tested_when_it_is_due_and_nothing_is_counted_for_coverage() -> None:
    (command,) = commands("check-tests")
    assert command == f"{EVERY_FILE} --packages due"


def test_the_plain_command_runs_the_chosen_part() -> None:
    (command,) = commands("test")
    assert command == f"{EVERY_FILE} --chosen"


def targets_of_ci() -> list[str]:
    """What workflows and CI's command run of this file."""
    places = [ROOT / ".ci" / "run", *(ROOT / ".github" / "workflows").glob("*.yml")]
    lines = [line.partition("#")[0] if place.suffix == ".yml" else line for place in places for line in place.read_text().splitlines()]
    return sorted(
        {target for line in lines for run in re.findall(r"(?:^\s*|run: |exec |&& |; )make ([a-z][\w -]*)", line) for target in run.split()}
    )


def test_neither_a_workflow_nor_ci_runs_the_chosen_part() -> None:
    targets = targets_of_ci()
    assert {"check", "check-all", "check-tests"} <= {*targets}
    for target in targets:
        assert not [line for line in planned(target) if "--chosen" in line], target
    for target in ("check", "check-all", "check-tests"):
        assert any(f"{EVERY_FILE} --packages " in line for line in planned(target))


def test_types_style_and_contracts_are_checked_beside_the_tests_and_each_can_fail_the_run() -> None:
    (command,) = commands("check")
    assert command.startswith(
        "nice -n 10 make --no-print-directory --keep-going lint types contracts > build/beside.txt 2>&1 & others=$!; "
    )
    assert f"; {EVERY_FILE} --packages due; tests=$?; wait $others; said=$?; " in command
    assert command.endswith("; cat build/beside.txt; exit $((tests | said))")


def test_one_file_or_folder_is_run_without_coverage() -> None:
    assert commands("test", "T=tests/domain") == [".venv/bin/python -m pytest -n 6 --dist worksteal tests/domain"]


def test_the_tests_can_be_given_a_database() -> None:
    address = "postgresql://postgres:secret@127.0.0.1:5432/postgres?sslmode=disable"
    (command,) = commands("test", f"DATABASE={address}", "T=tests/adapters", "WORKERS=5")
    assert command == f"POSTERN_TEST_DATABASE='{address}' .venv/bin/python -m pytest -n 5 --dist worksteal tests/adapters"


def test_help_says_what_there_is() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("run", "test", "check-tests", "check", "wheels"):
        assert f"  make {target} " in shown


@pytest.mark.parametrize("target", [".venv/ready", "ready", "run", "test"])
def test_our_modules_are_compiled_before_anything_starts(target: str) -> None:
    """Otherwise each start of a user who may not write here compiles them, and takes 1.6 s longer."""
    shown = planned("--always-make", target)
    compiled = next(at for at, line in enumerate(shown) if "-m compileall -q -j 0 core ports adapters actors entrypoints" in line)
    assert any("pip install" in line for line in shown[:compiled])
    assert not any("postern serve" in line or "-m pytest" in line for line in shown[:compiled])


def test_the_recipe_of_systemd_compiles_after_each_checkout() -> None:
    """The unit may not write where the modules are, and a changed module without a changed lock makes nothing new of `.venv/ready`."""
    assert any("-m compileall" in line for line in planned("ready"))
    # Only that commit has no other target.
    assert ".venv/ready" not in RUNBOOK.replace("git checkout ccde58add6e9 && make .venv/ready", "")
    assert "cd /opt/postern && make ready\n" in RUNBOOK


def test_check_all_runs_everything_once_and_again_what_one_visit_or_one_server_does_not_show() -> None:
    bundled = "tests/e2e/starts/test_bundled.py"
    whole, *tests = commands("check-all")
    assert f"; {EVERY_FILE} --packages all --coverage --seconds --reached; tests=$?; " in whole
    assert tests == [
        ".venv/bin/python -m pytest -q tests/ops/middleware tests/e2e/relying tests/e2e/mcp",
        "POSTERN_TEST_VISITS=every .venv/bin/python -m pytest -n 6 --dist worksteal tests/browser tests/adapters/postgres/worlds",
        "POSTERN_TEST_CONFORMANCE=every .venv/bin/python -m pytest -n 6 --dist loadfile tests/conformance",
        f".venv/bin/python -m pytest -q {bundled}",
    ]
    at_night = planned("check-all")
    assert ".venv/bin/python -m ops.middleware.clients_of_others" in at_night
    (tried,) = [line for line in at_night if line.startswith(".venv/bin/python -m ops.guides ")]
    assert set(tried.split()[3:]) <= set(PRODUCTS)
    assert ".venv/bin/python -m ops.mutations --kept" in at_night
    assert ".venv/bin/mypy --platform darwin --cache-dir .mypy_cache/darwin core ports adapters actors entrypoints" in at_night
    *_, last, pictures, chosen = at_night
    # Make ends with what fails first. So it chooses only if all else was green.
    assert chosen == ".venv/bin/python -m tests.runs.choosing"
    assert pictures == ".venv/bin/python -m ops.pictures"
    assert not any("ops.pictures" in line for line in planned("check"))
    oldest, _, folders = last.partition(" --dist each ")
    assert oldest == ".venv/bin/python -m tests.runs.oldest -n 6"
    left_out = {"browser", "ops", "domain", "house", "runs"}
    with_tests = {one.name for one in (ROOT / "tests").iterdir() if next(one.rglob("test_*.py"), None)}
    assert {Path(one).name for one in folders.split()} == with_tests - left_out


@pytest.mark.parametrize(
    ("target", "folder"),
    [("middleware", "frameworks-node"), ("frameworks", "starts"), ("frameworks", "starts-nightly"), ("check-all", "starts-nightly")],
)
def test_what_npm_brings_for_programs_is_installed_once_and_before_them(target: str, folder: str) -> None:
    shown = planned("--always-make", target)
    tested = next(at for at, line in enumerate(shown) if "-m pytest -q" in line)
    (installed,) = [at for at, line in enumerate(shown) if f"npm ci --prefix .venv/{folder} " in line]
    assert installed < tested


def test_the_ordinary_run_does_not_collect_what_needs_a_bundler() -> None:
    """Its three tests were collected and skipped, in CI too."""
    (command,) = commands("frameworks")
    named = command.partition("-m pytest -q ")[2].split()
    ignored = runpy.run_path(str(ROOT / "tests/e2e/starts/conftest.py"))["collect_ignore"]
    assert [f"tests/e2e/starts/{one}" for one in ignored] == named[1:]


def test_whatever_installs_or_compiles_says_so_and_why() -> None:
    """pip, npm and a compiler are silent for minutes, and a newcomer does not know whether they hang."""
    silent = re.compile(r"-m (pip|venv|compileall) |build_argon2|npm ci |install-test-tools")
    shown = "\n".join(planned("--always-make", "run", "check-all")).replace("\\\n", "").splitlines()
    found = [line for line in shown if silent.search(line)]
    assert len(found) > 10
    assert [line for line in found if 'ops/runs/aloud.py "' not in line] == []
    assert any("ops/build_argon2.py" in line and '"Compiling Argon2 for this processor: it hashes passwords' in line for line in found)


@pytest.mark.parametrize("target", ["test", "near", "check", "check-tests"])
def test_what_npm_brings_is_installed_before_the_tests(target: str) -> None:
    """Otherwise the tests of Next.js and of the client for TypeScript are skipped, and nobody notices."""
    shown = planned("--always-make", target)
    tested = next(at for at, line in enumerate(shown) if "-m pytest" in line)
    for folder in ("typescript", "frameworks-node"):
        assert any(f"npm ci --prefix .venv/{folder}" in line for line in shown[:tested])
